"""SentencePiece subwords: train, encode, decode."""

from __future__ import annotations

import hashlib
import io
import itertools
import logging
import math
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import sentencepiece

from seq2seq.data.casing import (
    ALL_CAPS,
    ALL_CAPS_END,
    CAPS,
    mark_case,
    mark_prefix,
    restore_case,
)
from seq2seq.data.cleaning import normalize
from seq2seq.errors import DataError
from seq2seq.files import write_atomic

if TYPE_CHECKING:
    from seq2seq.config import TokenizerConfig

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPACE_PIECE = "\u2581"  # SentencePiece's symbol for a space
# SentencePiece's names of the special pieces.
PAD_PIECE, UNK_PIECE, BOS_PIECE, EOS_PIECE = "<pad>", "<unk>", "<s>", "</s>"

CASE_PIECES = [SPACE_PIECE + mark for mark in (CAPS, ALL_CAPS, ALL_CAPS_END)]

log = logging.getLogger(__name__)

_MAX_TEXT = 4000  # characters; SentencePiece would silently drop longer texts
_MAX_TEXTS = 40_000_000  # characters in all; a unigram model takes some 25 bytes for each
_TRAINING_THREADS = 4  # a constant: the order of float sums, and so the model, depends on it


def normalize_line(text: str) -> str:
    """Return the text as a tokenizer reads it: normalized like a corpus, with `▁` as a space.

    SentencePiece writes `▁` for a space, so it could not reproduce the character.
    """
    return normalize(text.replace(SPACE_PIECE, " "))


_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def bytes_of_piece(piece: str) -> bytes:
    """Return the bytes that a piece spells in UTF-8; some pieces are single bytes."""
    byte = _BYTE.fullmatch(piece)
    if byte:
        return bytes.fromhex(byte[1])
    if piece == UNK_PIECE:  # characters of the text that the tokenizer does not know
        return "\ufffd".encode()
    is_special = piece in (PAD_PIECE, BOS_PIECE, EOS_PIECE)
    return b"" if is_special else piece.replace(SPACE_PIECE, " ").encode()


class Tokenizer:
    """A trained SentencePiece model.

    Texts are normalized by `normalize_line` and no further: NFKC, SentencePiece's default, would
    turn `1º` into `1o`, `…` into three dots and `½` into `1⁄2`, and BLEU on detokenized text would
    count these as errors. So `decode(encode(x)) == normalize_line(x)`, except for characters that
    are <unk> without byte fallback. A model that was trained with data.tokenizer.case_marks reads
    texts in lower case with marks (seq2seq.data.casing), and its pieces spell such texts.
    """

    def __init__(self, model_proto: bytes) -> None:
        """Read the bytes of a .model file; raise DataError for a damaged or foreign one."""
        self._model_proto = model_proto
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model_proto)
            self._pieces: list[str] = self._processor.IdToPiece(list(range(self.vocab_size)))
        except (RuntimeError, UnicodeDecodeError):  # the latter: pieces that are not UTF-8
            raise DataError("tokenizer: not a SentencePiece model, or damaged") from None
        processor = self._processor
        found = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        if found != (PAD, UNK, BOS, EOS):
            raise DataError(
                f"tokenizer: pad, unk, bos and eos have the ids {found} instead of "
                f"{(PAD, UNK, BOS, EOS)}; train it with seq2seq, or with these ids"
            )
        self.marks_case: bool = processor.PieceToId(CASE_PIECES[0]) != UNK

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[bytes]]:
        """Pickle the model alone, not what was computed with it."""
        return Tokenizer, (self._model_proto,)

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read a .model file; raise DataError, naming it, if it cannot be used."""
        try:
            return cls(Path(path).read_bytes())
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from None
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    def save(self, path: str | Path) -> None:
        """Write a .model file atomically."""
        write_atomic(Path(path), self._model_proto)

    def fingerprint(self) -> str:
        """Return a hash of the model."""
        return hashlib.sha256(self._model_proto).hexdigest()[:16]

    @property
    def vocab_size(self) -> int:
        """The number of pieces, special pieces and bytes included."""
        return self._processor.GetPieceSize()

    def encode(self, text: str) -> list[int]:
        """Return the best segmentation as ids, without BOS and EOS."""
        return self.encode_normalized(normalize_line(text))

    def encode_normalized(self, text: str) -> list[int]:
        """Return the best segmentation of a text that is normalized already (normalize_line)."""
        return self.encode_spelled(self.spell(text))

    def encode_spelled(self, text: str) -> list[int]:
        """Return the best segmentation of a text as `spell` returns it."""
        ids: list[int] = self._processor.Encode(text, out_type=int)
        return ids

    def spell(self, text: str) -> str:
        """Return a normalized text as pieces spell it: if they mark capitals, with the marks."""
        return mark_case(text) if self.marks_case else text

    def spell_prefix(self, text: str, *, complete: bool) -> list[str]:
        """Return how pieces can spell the beginning of longer texts; see `mark_prefix`."""
        return mark_prefix(text, complete=complete) if self.marks_case else [text]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the best segmentation of each text as ids, without BOS and EOS."""
        spelled = [self.spell(normalize_line(text)) for text in texts]
        ids: list[list[int]] = self._processor.Encode(spelled, out_type=int, num_threads=1)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the pieces on one line, without PAD, UNK, BOS and EOS."""
        # Bytes can spell line ends, pieces can double spaces.
        return normalize(self.restore(self.spelling(ids)))

    def spelling(self, ids: Sequence[int]) -> str:
        """Return the text that pieces spell, with marks, not normalized; skip special pieces."""
        text: str = self._processor.Decode([int(i) for i in ids if i > EOS])
        return text

    def restore(self, text: str) -> str:
        """Return a spelled text with its capitals; the inverse of `spell`."""
        return restore_case(text) if self.marks_case else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the piece of each id, as SentencePiece spells it."""
        return [self._pieces[int(i)] for i in ids]

    def log_likelihood(self, text: str) -> float:
        """Return how likely a text is in the tokenizer's language, in nats.

        The frequency of a piece follows from its rank in the vocabulary by Zipf's law, as
        SentencePiece sorts the vocabulary; pieces for single bytes and <unk> are the rarest. If
        pieces mark capitals, the text is read in lower case.
        """
        size, first = self.vocab_size, self._first_rank
        return -sum(
            math.log((number - first + 2) * math.log(size))
            if number >= first
            else 2 * math.log(size)
            for number in self.encode(text.lower() if self.marks_case else text)
        )

    @cached_property
    def _first_rank(self) -> int:
        """The number of special pieces, marks and bytes, which come before all others."""
        ranks = range(EOS + len(CASE_PIECES) * self.marks_case + 1, self.vocab_size)
        return next((n for n in ranks if not self._processor.IsByte(n)), self.vocab_size)

    @cached_property
    def letters(self) -> list[str]:
        """The texts of pieces of two letters or more, in lower case."""
        spelled = (self.decode([number]).lower() for number in range(self.vocab_size))
        return sorted({text for text in spelled if len(text) > 1 and text.isalpha()})

    @cached_property
    def ids(self) -> dict[str, int]:
        """The ids of all pieces, special pieces and bytes included."""
        return {piece: number for number, piece in enumerate(self._pieces)}


def train_tokenizer(
    texts: Iterable[str], *, config: TokenizerConfig, vocab_size: int, name: str
) -> Tokenizer:
    """Return a tokenizer trained on texts; the same texts and configuration give the same one.

    At most the first `config.max_sentences` sentences and 40 million characters are used. `name`
    (source, target or joint) is for messages. Raises DataError if there is no text, or if the
    vocabulary is too small for its characters, or too large and may not be lowered.
    """
    key = f"data.tokenizer.{'target' if name == 'target' else 'source'}_vocab_size"
    sentences = _choose(texts, config.max_sentences)
    if config.case_marks:
        sentences = list(map(mark_case, sentences))
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
        log.warning("%s (%s); using %d", found, key, tokenizer.vocab_size)
    return tokenizer


def _choose(texts: Iterable[str], number: int) -> list[str]:
    """Return the first texts, normalized, as many as training may use."""
    chosen, size = [], 0
    for text in itertools.islice(texts, number):
        normalized = normalize_line(text[:_MAX_TEXT])
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
        hard_vocab_limit=False,  # fewer pieces if the text has no more
        byte_fallback=config.byte_fallback,
        character_coverage=config.character_coverage,
        split_digits=config.split_digits,
        user_defined_symbols=CASE_PIECES if config.case_marks else [],
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
    """Return what an error of SentencePiece's training means for the configuration."""
    needed = re.search(r"smaller than required_chars\D*\d+ vs (\d+)", message)
    if needed is None:
        return f"{name} tokenizer: SentencePiece cannot train it: {message}"
    parts = "the special pieces and one piece for each character"
    fixes = f"set {key}={needed[1]} or more, lower data.tokenizer.character_coverage"
    if config.byte_fallback:
        parts = "the special pieces, 256 bytes and one piece for each character"
        fixes += ", or data.tokenizer.byte_fallback=false (256 pieces fewer)"
    return f"{name} tokenizer: {key}={vocab_size} is too small: {parts} are {needed[1]}; {fixes}"
