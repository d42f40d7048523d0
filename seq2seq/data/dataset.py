"""From the corpora of a recipe to clean pairs, tokenizers and ids, kept in a cache."""

from __future__ import annotations

import hashlib
import itertools
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import sentencepiece
from tqdm import tqdm

from seq2seq.config import Config, DataConfig
from seq2seq.data.cache import Cache, Entry, open_cache
from seq2seq.data.cleaning import Assessed, HeldOut, assess_pairs, filter_pairs, read_validation
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.data.ragged import TEXT, Block, Ints, PairStore, Ragged, concat, take, write_pairs
from seq2seq.data.sources import check_files, describe
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.errors import DataError
from seq2seq.processes import cores, ordered_map

Item = TypeVar("Item")
T = TypeVar("T")
Texts = tuple[list[str], list[str]]  # sources and targets
Tokenizers = tuple[Tokenizer, Tokenizer]  # of the source and the target

log = logging.getLogger(__name__)

_VERSION = 1  # of all prepared data: raise it when the same data would be prepared differently
_MODEL = "tokenizer.model"
_CORPORA = "corpora"
_NOT_OF_ONE_TOKENIZER = {"joint", "source_vocab_size", "target_vocab_size"}
_CHUNK_ROWS = 10_000  # rows that a process works on at a time
_BLOCK_ROWS = 1000
_SHARD_ROWS = 1 << 18
_SHUFFLE_SEED = 1


class PreparedPairs:
    """The clean pairs of a corpus, in a random order that depends on the pairs alone.

    As the order is random, any block of rows is a fair sample of the corpus: epochs shuffle blocks,
    and tokenizers are trained on the first rows.
    """

    def __init__(self, entry: Entry, cache: Cache) -> None:
        """Map the files of a cache entry; they can be deleted while the object lives."""
        self.cache = cache
        self.fingerprint: str = entry.about["fingerprint"]  # of the pairs and their order
        self.store = PairStore(entry.path, TEXT)
        # The number in data.train of the corpus that each pair is from.
        self.corpora = np.memmap(entry.path / _CORPORA, np.uint8, "r")

    def __len__(self) -> int:
        return len(self.store)

    def texts(self) -> Iterator[Texts]:
        """Yield the sources and the targets of all pairs, some at a time."""
        for start in range(0, len(self), _BLOCK_ROWS):
            source, target = self.store.read([start], _BLOCK_ROWS)
            yield source.texts(), target.texts()

    def encode(self, tokenizers: Tokenizers, *, processes: int | None) -> PairStore:
        """Return the pairs as ids, row by row; they are encoded once and then cached."""
        key = {
            "pairs": self.fingerprint,
            "tokenizers": [each.fingerprint() for each in tokenizers],
            "version": _VERSION,
            "sentencepiece": sentencepiece.__version__,
        }
        small = max(each.vocab_size for each in tokenizers) <= 1 << 16
        dtype = np.uint16 if small else np.int32

        def make(folder: Path) -> dict[str, Any]:
            starts = range(0, len(self), _CHUNK_ROWS)
            blocks = _map(partial(_encode, self.store, tokenizers), iter(starts), processes)
            shown = tqdm(blocks, "encoding", len(starts), disable=None, leave=False)
            write_pairs(folder, shown, dtype)
            return {}

        return self.cache.entry("ids", key, make, lambda e: PairStore(e.path, dtype))


def load_pairs(config: Config) -> tuple[PreparedPairs, list[Pair]]:
    """Return the clean training pairs of a recipe and its validation pairs; log what was dropped.

    Raises DataError for a corpus that cannot be read or has no pairs, WorkerError if a process was
    killed.
    """
    data = config.data
    check_files(data)
    valid = read_validation(data)
    began = time.monotonic()
    cache = open_cache(data.cache)
    corpora = [corpus for corpus in (*data.train, data.valid, data.test) if corpus is not None]

    def described() -> list[dict[str, Any]]:
        return list(map(describe, corpora))

    def make(folder: Path) -> dict[str, Any]:
        raw = itertools.chain.from_iterable(
            (replace(pair, corpus=number) for pair in read_corpus(corpus))
            for number, corpus in enumerate(data.train)
        )
        about = _write_clean(folder, raw, data, hold_out(data, valid))
        if described() != key["corpora"]:
            raise DataError("data: a corpus changed while it was read; run the command again")
        return about

    key = {
        "corpora": described(),
        "num_train": len(data.train),
        "cleaning": data.cleaning.model_dump(),
        "languages": data.languages,
        "version": _VERSION,
    }
    pairs, report = cache.entry(
        "pairs", key, make, lambda e: (PreparedPairs(e, cache), e.about["report"])
    )
    log.info("training data, %.1f s:", time.monotonic() - began)
    for line in report:
        log.info("    %s", line)
    return pairs, valid


def hold_out(data: DataConfig, valid: Iterable[Pair]) -> HeldOut:
    """Return what must not be trained on: the validation pairs and the recipe's test set."""
    held_out = HeldOut()
    held_out.add("valid", valid)
    if data.test is not None:
        held_out.add("test", read_corpus(data.test))
    return held_out


def train_tokenizers(pairs: PreparedPairs, config: Config) -> Tokenizers:
    """Return the tokenizers of source and target, trained on the pairs once and then cached."""
    settings = config.data.tokenizer
    began = time.monotonic()

    def trained(texts: Callable[[], Iterable[str]], size: int, name: str) -> Tokenizer:
        key = {
            "pairs": pairs.fingerprint,
            "name": name,
            "size": size,
            "settings": settings.model_dump(exclude=_NOT_OF_ONE_TOKENIZER),
            "version": _VERSION,
            "sentencepiece": sentencepiece.__version__,
        }

        def make(folder: Path) -> dict[str, Any]:
            tokenizer = train_tokenizer(texts(), config=settings, vocab_size=size, name=name)
            tokenizer.save(folder / _MODEL)
            return {}

        return pairs.cache.entry(
            "tokenizer", key, make, lambda entry: Tokenizer.load(entry.path / _MODEL)
        )

    def texts(*sides: int) -> Iterator[str]:
        for some in pairs.texts():
            for pair in zip(*(some[side] for side in sides), strict=True):
                yield from pair

    if settings.joint:
        source = target = trained(lambda: texts(0, 1), settings.source_vocab_size, "joint")
    else:
        source = trained(lambda: texts(0), settings.source_vocab_size, "source")
        target = trained(lambda: texts(1), settings.target_vocab_size, "target")
    log.info(
        "tokenizers, %.1f s: %d source pieces, %d target pieces",
        time.monotonic() - began, source.vocab_size, target.vocab_size,
    )  # fmt: skip
    return source, target


def _write_clean(
    folder: Path, raw: Iterable[Pair], data: DataConfig, held_out: HeldOut
) -> dict[str, Any]:
    """Clean and shuffle pairs into a folder; return what the cache records about them.

    Meanwhile another copy of the corpus is on disk, and digests are in memory.
    """
    with tempfile.TemporaryDirectory(dir=folder) as aside:
        columns: list[list[npt.NDArray[Any]]] = []

        def normalized() -> Iterator[Block]:
            shown = tqdm(raw, "cleaning", unit=" pairs", disable=None, leave=False, mininterval=0.5)
            assess = partial(_assess, data, held_out)
            for block, *found in _map(assess, _chunks(shown), data.processes):
                columns.append(found)
                yield block

        write_pairs(Path(aside), normalized(), TEXT)
        if not columns:
            raise DataError("data.train: no pairs; check the data")
        fault, overlap, digests, corpora = (np.concatenate(c) for c in zip(*columns, strict=True))
        columns.clear()
        store = PairStore(Path(aside), TEXT)
        assessed = Assessed(store, fault, overlap, digests)
        kept, report = filter_pairs(assessed, data.cleaning, held_out)
        if not report.kept:
            raise DataError(
                f"data.train: none of {report.read} pairs is left; loosen data.cleaning, or check "
                "the data"
            )
        fingerprint = hashlib.sha256()

        def shuffled() -> Iterator[Block]:
            with (folder / _CORPORA).open("wb") as file:
                for block, rows in _shuffle(store, kept):
                    file.write(corpora[rows].data)
                    fingerprint.update(digests[rows].data)
                    yield block

        write_pairs(folder, shuffled(), TEXT)
    return {"fingerprint": fingerprint.hexdigest()[:16], "report": report.lines()}


def _shuffle(store: PairStore, kept: npt.NDArray[np.bool_]) -> Iterator[tuple[Block, Ints]]:
    """Yield the kept rows in random order, some at a time, and their indices.

    Every order is equally likely: rows are assigned to shards at random. Each shard is read in one
    pass over all rows and shuffled in memory.
    """
    generator = np.random.default_rng(_SHUFFLE_SEED)
    number = int(kept.sum())
    shards = -(-number // _SHARD_ROWS)
    shard_of_row = np.full(len(kept), shards, np.uint16)
    shard_of_row[kept] = generator.integers(shards, size=number, dtype=np.uint16)
    for shard in range(shards):
        is_in = shard_of_row == shard
        block = concat(
            take(store.read([n], _SHARD_ROWS), np.flatnonzero(is_in[n : n + _SHARD_ROWS]))
            for n in range(0, len(kept), _SHARD_ROWS)
        )
        rows = np.flatnonzero(is_in)
        order = generator.permutation(len(rows))
        for n in range(0, len(order), _BLOCK_ROWS):
            some = order[n : n + _BLOCK_ROWS]
            yield take(block, some), rows[some]


def _map(
    function: Callable[[Item], T], items: Iterator[Item], processes: int | None
) -> Iterator[T]:
    """Return an iterator over the results of all items, computed by `data.processes`."""
    number = processes or (cores() if sys.platform == "linux" else 1)
    first = list(itertools.islice(items, number))
    items, number = itertools.chain(first, items), max(1, len(first))
    return ordered_map(function, items, processes=number, option="data.processes")


def _chunks(pairs: Iterable[Pair]) -> Iterator[tuple[Texts, bytes]]:
    """Yield the texts of pairs, and the numbers of their corpora, some at a time."""
    remaining = iter(pairs)
    while some := list(itertools.islice(remaining, _CHUNK_ROWS)):
        texts = [pair.source for pair in some], [pair.target for pair in some]
        yield texts, bytes(pair.corpus for pair in some)


def _assess(data: DataConfig, held_out: HeldOut, chunk: tuple[Texts, bytes]) -> tuple[Any, ...]:
    """Return pairs normalized, their faults, overlaps and digests, and their corpora."""
    texts, corpora = chunk
    pairs, *assessed = assess_pairs(map(Pair, *texts), data.cleaning, held_out, data.languages)
    source = Ragged.from_texts(pair.source for pair in pairs)
    target = Ragged.from_texts(pair.target for pair in pairs)
    return (source, target), *assessed, np.frombuffer(corpora, np.uint8)


def _encode(store: PairStore, tokenizers: Tokenizers, start: int) -> Block:
    source, target = store.read([start], _CHUNK_ROWS)
    return encode(tokenizers, source.texts(), target.texts())


def encode(tokenizers: Tokenizers, *texts: list[str]) -> Block:
    """Return the ids of sources and targets."""
    source, target = (
        Ragged.from_lists(tokenizer.encode_batch(side))
        for tokenizer, side in zip(tokenizers, texts, strict=True)
    )
    return source, target
