"""From the corpora of a recipe to clean pairs and tokenizers."""

from __future__ import annotations

import functools
import itertools
import logging
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import sentencepiece
from tqdm import tqdm

from seq2seq.config import CleaningConfig, Config, DataConfig
from seq2seq.data.cache import code_of, digest, open_cache
from seq2seq.data.cleaning import (
    Cleaner,
    CleaningReport,
    HeldOut,
    Judged,
    chunks,
    judge,
    normalize_pair,
    refuse_same_files,
)
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.data.sources import describe, glance
from seq2seq.data.store import PairStore, pair_batch, write_pairs
from seq2seq.data.streaming import StreamedPairs
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.errors import DataError
from seq2seq.parallel import ordered_map

log = logging.getLogger(__name__)

_CLEANING_CODE = tuple(
    f"seq2seq.data.{name}"
    for name in ("blocks", "cleaning", "corpus", "store")
)
_MODEL = "tokenizer.model"
_NOT_OF_ONE_TOKENIZER = {"joint", "source_vocab_size", "target_vocab_size", "sampling_alpha"}
_TOKENIZER_CODE = ("seq2seq.data.cleaning", "seq2seq.data.tokenizer")

Pairs = PairStore | StreamedPairs


def load_pairs(config: Config) -> tuple[Pairs, list[Pair]]:
    """Read and clean the corpora of a recipe, or find them clean; log what was dropped and why.

    Streamed corpora are only opened. Raises DataError for a corpus that cannot be read and for one
    that has no pairs.
    """
    data = config.data
    refuse_same_files(data)
    read = map(normalize_pair, read_corpus(data.valid))
    valid = [pair for pair in read if pair.source and pair.target]
    if not valid:
        raise DataError("data.valid: no pairs with text on both sides; validation needs some")
    held_out = functools.partial(hold_out, data, valid)
    if data.train[0].streaming:
        seen = [describe(corpus, glance) for corpus in data.train]
        return StreamedPairs(data.train, held_out(), digest(seen)), valid
    cache = open_cache(data.cache)
    corpora = [corpus for corpus in (*data.train, data.valid, data.test) if corpus is not None]

    def described() -> list[dict[str, Any]]:
        return [describe(corpus, cache.checksum) for corpus in corpora]

    def make(folder: Path) -> dict[str, Any]:
        raw = (pair for corpus in data.train for pair in read_corpus(corpus))
        about = _write_clean(folder, raw, data, held_out())
        if described() != made_of["corpora"]:
            raise DataError("data: a corpus was changed while it was read; run it again")
        return about

    began = time.monotonic()
    made_of = {
        "corpora": described(),
        "num_train": len(data.train),
        "cleaning": data.cleaning.model_dump(),
        "code": code_of(*_CLEANING_CODE),
    }
    entry = cache.entry("pairs", made_of, make)
    log.info("training data, %.1f s:", time.monotonic() - began)
    for line in entry.about["report"]:
        log.info("    %s", line)
    return PairStore(entry, cache), valid


def train_tokenizers(pairs: Pairs, config: Config) -> tuple[Tokenizer, Tokenizer]:
    """Train the tokenizers of source and target on the train side, or find them trained.

    Of a streamed corpus they see the first pairs, data.tokenizer.max_sentences at most.
    """
    settings = config.data.tokenizer
    began = time.monotonic()
    if isinstance(pairs, PairStore):
        store, cache = pairs, pairs.cache
    else:
        store, cache = _store_head(pairs, config.data), open_cache(config.data.cache)

    def trained(texts: Iterable[str], size: int, name: str) -> Tokenizer:
        made_of = {
            "pairs": store.fingerprint(),
            "name": name,
            "size": size,
            "settings": settings.model_dump(exclude=_NOT_OF_ONE_TOKENIZER),
            "code": code_of(*_TOKENIZER_CODE),
            "sentencepiece": sentencepiece.__version__,
        }

        def make(folder: Path) -> dict[str, Any]:
            tokenizer = train_tokenizer(texts, config=settings, vocab_size=size, name=name)
            tokenizer.save(folder / _MODEL)
            return {}

        return Tokenizer.load(cache.entry("tokenizer", made_of, make).path / _MODEL)

    if settings.joint:
        both = (
            text for sides in store.texts() for pair in zip(*sides, strict=True) for text in pair
        )
        source = target = trained(both, settings.source_vocab_size, "joint")
    else:
        sources = (text for sides in store.texts() for text in sides[0])
        targets = (text for sides in store.texts() for text in sides[1])
        source = trained(sources, settings.source_vocab_size, "source")
        target = trained(targets, settings.target_vocab_size, "target")
    log.info(
        "tokenizers, %.1f s: %d source pieces, %d target pieces",
        time.monotonic() - began, source.vocab_size, target.vocab_size,
    )  # fmt: skip
    return source, target


def hold_out(data: DataConfig, valid: Iterable[Pair]) -> HeldOut:
    """Return what training should not see: the validation set and the recipe's test set."""
    held_out = HeldOut()
    held_out.add("valid", valid)
    if data.test is not None:
        held_out.add("test", read_corpus(data.test))
    return held_out


def _store_head(pairs: StreamedPairs, data: DataConfig) -> PairStore:
    """Return the first pairs of a streamed corpus, in a temporary cache."""
    cache = open_cache(None)
    head = pairs.head(data.tokenizer.max_sentences)
    entry = cache.entry(
        "pairs", {}, lambda folder: _write_clean(folder, head, data, pairs.held_out)
    )
    return PairStore(entry, cache)


def _write_clean(
    folder: Path, raw: Iterable[Pair], data: DataConfig, held_out: HeldOut
) -> dict[str, Any]:
    """Clean pairs in several processes and write them; return what the cache keeps of them."""
    report = CleaningReport()
    cleaner = Cleaner(data.cleaning, held_out, report)
    texts = ([(p.source, p.target) for p in chunk] for chunk in chunks(_shown(raw)))
    work = functools.partial(_judge, config=data.cleaning, held_out=held_out)

    def kept() -> Iterator[pa.RecordBatch]:
        for judged, batch in ordered_map(
            work, texts, processes=data.processes, option="data.processes"
        ):
            yield batch.filter(pa.array(cleaner.keep(judged)))

    about = write_pairs(folder, kept())
    if not report.kept:
        raise DataError(
            f"data.train: none of {report.read} pairs is left; loosen data.cleaning, or look at "
            "the data"
        )
    return {**about, "report": report.lines()}


def _judge(
    texts: list[tuple[str, str]], *, config: CleaningConfig, held_out: HeldOut
) -> tuple[Judged, pa.RecordBatch]:
    """Judge pairs and return them in columns, which are quicker to hand to another process."""
    judged = judge(itertools.starmap(Pair, texts), config, held_out)
    batch = pair_batch([p.source for p in judged.pairs], [p.target for p in judged.pairs])
    return judged._replace(pairs=[]), batch


def _shown(pairs: Iterable[Pair]) -> Iterable[Pair]:
    return tqdm(pairs, "reading", unit=" pairs", disable=None, leave=False, mininterval=0.5)
