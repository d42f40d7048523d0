"""SentencePiece subwords: train, encode (with sampling), decode."""

from __future__ import annotations

import hashlib
import io
import itertools
import logging
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import sentencepiece

from seq2seq.config import TokenizerConfig
from seq2seq.data.cleaning import normalize
from seq2seq.data.subwords import SPACE_PIECE, Pieces, SubwordSampler, make_sampler
from seq2seq.errors import DataError
from seq2seq.files import write_atomic

PAD, UNK, BOS, EOS = 0, 1, 2, 3

log = logging.getLogger(__name__)

_MAX_TEXT = 4000  # characters; SentencePiece would drop what is longer without a word
_MAX_TEXTS = 40_000_000  # characters of all; a unigram model takes some 25 bytes for each
_TRAINING_THREADS = 4  # a constant: the order of its float sums, so the model, depends on it


class Tokenizer:
    """A trained SentencePiece model.

    Texts are normalised as the corpus is (`cleaning.normalize`), and no further: NFKC,
    SentencePiece's default, would turn `1º` into `1o`, `…` into three dots and `½` into `1⁄2`,
    which BLEU, on detokenized text, counts as errors. So `decode(encode(x)) == normalize(x)`, but
    for the sign `▁`, which becomes a space, and for characters that are <unk> without bytes.
    """

    def __init__(self, model_proto: bytes) -> None:
        """Read the bytes of a .model file; raises DataError for a damaged or foreign one."""
        self._model_proto = model_proto
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model_proto)
            self._processor.IdToPiece(list(range(self.vocab_size)))
        except (RuntimeError, UnicodeDecodeError):  # the latter: pieces that are no text
            raise DataError("tokenizer: not a SentencePiece model, or a damaged one") from None
        processor = self._processor
        found = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        if found != (PAD, UNK, BOS, EOS):
            raise DataError(
                f"tokenizer: pad, unk, bos and eos have the ids {found} instead of "
                f"{(PAD, UNK, BOS, EOS)}; train it with seq2seq, or with these ids"
            )
        self._sampler: SubwordSampler | None = None  # of the last alpha

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read a .model file; raises DataError, which names it, when it cannot be used."""
        try:
            return cls(Path(path).read_bytes())
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from None
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    def save(self, path: str | Path) -> None:
        """Write a .model file, whole or not at all."""
        write_atomic(Path(path), self._model_proto)

    def fingerprint(self) -> str:
        """Return what tells this model from another."""
        return hashlib.sha256(self._model_proto).hexdigest()[:16]

    @property
    def vocab_size(self) -> int:
        """The number of pieces, specials and bytes included."""
        return self._processor.GetPieceSize()

    def encode(self, text: str) -> list[int]:
        """Return the best segmentation as ids, without BOS and EOS."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the best segmentation of each text as ids, without BOS and EOS."""
        # One by one: SentencePiece starts a thread for each list, ten times the work of a sentence.
        return [self._processor.Encode(_normalize(text), out_type=int) for text in texts]

    def sample_batch(self, texts: Sequence[str], *, alpha: float, seed: int) -> list[list[int]]:
        """Return a random segmentation of each text as ids, without BOS and EOS.

        A unigram model draws from all segmentations, each with its probability to the power of
        `alpha` (Kudo 2018): the lower, the more it varies. A BPE model leaves out each merge with
        the probability `alpha` (Provilkov et al. 2020). The same texts, alpha and seed give the
        same ids in every process, whatever was sampled before. See `seq2seq.data.subwords`.
        """
        sampler = self._sampler
        if sampler is None or sampler.alpha != alpha:
            self._sampler = sampler = make_sampler(Pieces(self._processor), alpha)
        normalized = [_normalize(text) for text in texts]
        return sampler.sample(normalized, np.random.default_rng(seed))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the pieces in one line; PAD, UNK, BOS and EOS are left out."""
        text: str = self._processor.Decode([int(i) for i in ids if i > EOS])
        return normalize(text)  # byte pieces can spell line ends, and pieces can double spaces

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the piece of each id, as SentencePiece spells it."""
        return [self._pieces[int(i)] for i in ids]

    @cached_property
    def _pieces(self) -> list[str]:
        pieces: list[str] = self._processor.IdToPiece(list(range(self.vocab_size)))
        return pieces


def train_tokenizer(
    texts: Iterable[str], *, config: TokenizerConfig, vocab_size: int, name: str
) -> Tokenizer:
    """Train a tokenizer on texts; the same texts and configuration give the same one.

    No more than the first `config.max_sentences` and the first 40 million characters are looked
    at. `name` (source, target or joint) says in messages which it is. Raises DataError when there
    is no text, or when the vocabulary is too small for its characters, or too large and may not be
    lowered.
    """
    key = f"data.tokenizer.{'target' if name == 'target' else 'source'}_vocab_size"
    sentences = _choose(texts, config.max_sentences)
    if not sentences:
        raise DataError(f"{name} tokenizer: no text to train on; is data.train empty?")
    try:
        tokenizer = Tokenizer(_train_model(sentences, config, vocab_size))
    except RuntimeError as error:
        raise DataError(_explain(str(error), config, vocab_size, name, key)) from None
    if tokenizer.vocab_size < vocab_size:
        found = f"{name} tokenizer: the text fills {tokenizer.vocab_size} pieces, not {vocab_size}"
        if not config.lower_vocab_size:
            raise DataError(
                f"{found}; set {key}={tokenizer.vocab_size} or less, "
                "or data.tokenizer.lower_vocab_size=true"
            )
        log.warning("%s (%s); going on with %d", found, key, tokenizer.vocab_size)
    return tokenizer


def _normalize(text: str) -> str:
    """Return the text as SentencePiece can give it back: its sign for a space is no other's."""
    return normalize(text.replace(SPACE_PIECE, " "))


def _choose(texts: Iterable[str], number: int) -> list[str]:
    """Return the first texts, normalised, as many as training may look at."""
    chosen, size = [], 0
    for text in itertools.islice(texts, number):
        normalized = _normalize(text[:_MAX_TEXT])
        size += len(normalized)
        if size > _MAX_TEXTS:
            break
        if normalized:
            chosen.append(normalized)
    return chosen


def _train_model(sentences: list[str], config: TokenizerConfig, vocab_size: int) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        model_type=config.type,
        vocab_size=vocab_size,
        hard_vocab_limit=False,  # fewer pieces where the text has no more
        byte_fallback=config.byte_fallback,
        character_coverage=config.character_coverage,
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        normalization_rule_name="identity",  # see Tokenizer
        max_sentence_length=4 * _MAX_TEXT,  # bytes
        num_threads=_TRAINING_THREADS,
        minloglevel=2,
    )
    return model.getvalue()


def _explain(message: str, config: TokenizerConfig, vocab_size: int, name: str, key: str) -> str:
    """Say what a failed training of SentencePiece means for the configuration."""
    needed = re.search(r"smaller than required_chars\D*\d+ vs (\d+)", message)
    if needed is None:
        return f"{name} tokenizer: SentencePiece cannot train it: {message}"
    parts = "the specials and one piece for each character"
    mends = f"set {key}={needed[1]} or more, lower data.tokenizer.character_coverage"
    if config.byte_fallback:
        parts = "the specials, 256 bytes and one piece for each character"
        mends += ", or data.tokenizer.byte_fallback=false (256 pieces fewer)"
    return f"{name} tokenizer: {key}={vocab_size} is too small: {parts} are {needed[1]}; {mends}"
