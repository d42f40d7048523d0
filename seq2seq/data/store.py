"""The clean pairs of a corpus, and the same as ids, in Arrow files of the cache."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sentencepiece

from seq2seq.data.batching import Ints, Ragged
from seq2seq.data.blocks import Blocks, shuffle, write_blocks
from seq2seq.data.cache import Cache, Entry, code_of
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.parallel import ordered_map

Tokenizers = tuple[Tokenizer, Tokenizer]

_FILE = "rows.arrow"
_SHUFFLE_SEED = 1
_CODE = tuple(f"seq2seq.data.{name}" for name in ("blocks", "cleaning", "store", "tokenizer"))
_SCHEMA = pa.schema([("source", pa.large_string()), ("target", pa.large_string())])


class PairStore:
    """The clean text pairs of a corpus, in random order.

    The order is drawn once, so that any stretch of the file is a fair sample of the corpus: what
    is shuffled for an epoch are stretches, and a prefix is enough to train a tokenizer.
    """

    def __init__(self, entry: Entry, cache: Cache) -> None:
        """Open an entry of the cache that `write_pairs` made."""
        self._blocks: Blocks = Blocks(entry.path / _FILE)
        self._about = entry.about
        self.cache = cache

    def __len__(self) -> int:
        return self._blocks.num_rows

    def fingerprint(self) -> str:
        """Return what tells these pairs, in this order, from others."""
        found: str = self._about["fingerprint"]
        return found

    def texts(self) -> Iterator[tuple[list[str], list[str]]]:
        """Yield the sources and the targets of all pairs, some at a time."""
        for number in range(self._blocks.number):
            yield _texts(self._blocks.read([number]))

    def read(self, starts: Sequence[int], rows: int) -> tuple[list[str], list[str]]:
        """Return the sources and the targets of some stretches of rows (see Blocks.slices)."""
        return _texts(self._blocks.slices(starts, rows))

    def encode(self, tokenizers: Tokenizers, *, processes: int | None) -> IdStore:
        """Return the pairs as ids, from the cache where they were encoded before."""
        made_of = {
            "pairs": self.fingerprint(),
            "tokenizers": [each.fingerprint() for each in tokenizers],
            "code": code_of(*_CODE),
            "sentencepiece": sentencepiece.__version__,
        }
        make = functools.partial(_write_ids, self._blocks, tokenizers, processes=processes)
        return IdStore(self.cache.entry("ids", made_of, make))


class IdStore:
    """Pairs as ids, row by row those of a PairStore."""

    def __init__(self, entry: Entry) -> None:
        """Open an entry of the cache that `PairStore.encode` made."""
        self._blocks = Blocks(entry.path / _FILE)
        self._lengths = {int(length): number for length, number in entry.about["lengths"].items()}

    def read(self, starts: Sequence[int], rows: int) -> tuple[Ragged, Ragged]:
        """Return the sources and the targets of some stretches of rows (see Blocks.slices)."""
        slices = self._blocks.slices(starts, rows)
        return _ragged([s.column(0) for s in slices]), _ragged([s.column(1) for s in slices])

    def count_fitting(self, max_length: int) -> int:
        """Return how many pairs have this many pieces at most on both sides."""
        return sum(number for length, number in self._lengths.items() if length <= max_length)


def write_pairs(folder: Path, batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """Write text pairs in random order; return what the cache is to keep with them."""
    digest = hashlib.sha256()

    def seen(blocks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for block in blocks:
            for column in block.columns:
                lengths, text = _parts(column)
                digest.update(lengths.astype("<i8").tobytes())
                digest.update(text)
            yield block

    blocks = shuffle(batches, _SCHEMA, folder / "aside.arrow", seed=_SHUFFLE_SEED)
    write_blocks(folder / _FILE, _SCHEMA, seen(blocks))
    return {"fingerprint": digest.hexdigest()[:16]}


def pair_batch(sources: Sequence[str], targets: Sequence[str]) -> pa.RecordBatch:
    """Return text pairs as `write_pairs` takes them."""
    columns = [pa.array(texts, pa.large_string()) for texts in (sources, targets)]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _texts(batches: Iterable[pa.RecordBatch]) -> tuple[list[str], list[str]]:
    sources: list[str] = []
    targets: list[str] = []
    for batch in batches:
        sources += batch.column(0).to_pylist()
        targets += batch.column(1).to_pylist()
    return sources, targets


def _parts(column: pa.LargeStringArray) -> tuple[Ints, memoryview]:
    """Return the length in bytes of each text, and all texts."""
    _, offsets, text = column.buffers()
    bounds = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return np.diff(bounds), memoryview(text or b"")[bounds[0] : bounds[-1]]


def _write_ids(
    pairs: Blocks, tokenizers: Tokenizers, folder: Path, *, processes: int | None
) -> dict[str, Any]:
    small = max(each.vocab_size for each in tokenizers) <= 1 << 16
    kind = pa.list_(pa.uint16() if small else pa.int32())
    schema = pa.schema([("source", kind), ("target", kind)])
    lengths: Counter[int] = Counter()
    encode = functools.partial(_encode, pairs, tokenizers, schema)

    def counted(blocks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for block in blocks:
            longer = np.maximum(*(np.diff(_offsets(column)) for column in block.columns))
            values, numbers = np.unique(longer, return_counts=True)
            lengths.update(dict(zip(values.tolist(), numbers.tolist(), strict=True)))
            yield block

    blocks = ordered_map(encode, range(pairs.number), processes=processes, option="data.processes")
    write_blocks(folder / _FILE, schema, counted(blocks))
    return {"lengths": lengths}


def _encode(
    pairs: Blocks, tokenizers: Tokenizers, schema: pa.Schema, number: int
) -> pa.RecordBatch:
    columns = []
    for field, each, texts in zip(schema, tokenizers, _texts(pairs.read([number])), strict=True):
        rows = Ragged.from_lists(each.encode_batch(texts))
        values = pa.array(rows.flat, field.type.value_type)
        columns.append(pa.ListArray.from_arrays(pa.array(rows.offsets, pa.int32()), values))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _ragged(columns: Sequence[pa.ListArray]) -> Ragged:
    bounds = [_offsets(column) for column in columns]
    values = [_values(column)[b[0] : b[-1]] for column, b in zip(columns, bounds, strict=True)]
    offsets = np.zeros(sum(map(len, columns)) + 1, np.int64)
    np.cumsum(np.concatenate([np.diff(b) for b in bounds]), out=offsets[1:])
    return Ragged(np.concatenate(values).astype(np.int32), offsets)


# The two below do what Array.to_numpy does, which imports pandas for it.


def _offsets(column: pa.ListArray) -> npt.NDArray[np.int32]:
    buffer = column.buffers()[1]
    return np.frombuffer(buffer, np.int32, len(column) + 1, 4 * column.offset)


def _values(column: pa.ListArray) -> npt.NDArray[np.uint16 | np.int32]:
    kind = np.dtype(str(column.type.value_type))
    return np.frombuffer(column.values.buffers()[1] or b"", kind)
