"""Arrow files of blocks of rows: written in random order, mapped into memory only to be read."""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

BLOCK_ROWS = 1024

_RUN_ROWS = 1 << 18  # rows that are shuffled in memory at once
_PILES = 64


def write_blocks(path: Path, schema: pa.Schema, blocks: Iterable[pa.RecordBatch]) -> None:
    """Write an Arrow file of blocks, each of BLOCK_ROWS rows but the last."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for block in blocks:
            writer.write_batch(block)


class Blocks:
    """The blocks of an Arrow file.

    The file is open as long as the object lives, so that it may be deleted meanwhile. Its pages
    are shared by all processes that read it; a process has them in its own memory only while it
    holds what `read` returned, so that it does not grow with the corpus.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        reader = self._reader()
        self.number: int = reader.num_record_batches
        last = len(reader.get_batch(self.number - 1)) if self.number else 0
        self.num_rows: int = max(0, self.number - 1) * BLOCK_ROWS + last

    def read(self, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        """Yield blocks."""
        reader = self._reader()
        return (reader.get_batch(number) for number in numbers)

    def slices(self, starts: Sequence[int], rows: int) -> list[pa.RecordBatch]:
        """Return stretches of rows that begin at a multiple of `rows`, a divisor of BLOCK_ROWS."""
        blocks = self.read(start // BLOCK_ROWS for start in starts)
        return [
            block.slice(start % BLOCK_ROWS, rows)
            for start, block in zip(starts, blocks, strict=True)
        ]

    def _reader(self) -> pa.RecordBatchFileReader:
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return pa.ipc.open_file(pa.py_buffer(mapped))


def shuffle(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, aside: Path, *, seed: int
) -> Iterator[pa.RecordBatch]:
    """Yield all rows in random order, in blocks; a file aside holds them meanwhile.

    Rows are dealt to piles at random, run after run, and then each pile is shuffled, so that every
    order has the same chance, while no more than a run or a pile is in memory.
    """
    generator = np.random.default_rng(seed)
    write_blocks(aside, schema, _deal(batches, schema, generator))
    runs = Blocks(aside)
    piles = (
        _take(runs.read(range(pile, runs.number, _PILES)), schema, generator)
        for pile in range(_PILES)
    )
    yield from _cut(piles, schema)
    aside.unlink()


def _deal(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, generator: np.random.Generator
) -> Iterator[pa.RecordBatch]:
    """Yield _PILES batches, one for each pile, of each run."""
    for run in _runs(batches):
        shuffled = _take(run, schema, generator)
        piles = generator.multinomial(len(shuffled), np.full(_PILES, 1 / _PILES))
        for start, end in itertools.pairwise(np.cumsum([0, *piles]).tolist()):
            yield shuffled.slice(start, end - start)


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    run: list[pa.RecordBatch] = []
    for batch in batches:
        run.append(batch)
        if sum(map(len, run)) >= _RUN_ROWS:
            yield run
            run = []
    if run:
        yield run


def _take(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, generator: np.random.Generator
) -> pa.RecordBatch:
    """Return the rows of some batches as one, in random order."""
    whole = _join(list(batches), schema)
    return whole.take(pa.array(generator.permutation(len(whole))))


def _cut(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    rest: Sequence[pa.RecordBatch] = ()
    for batch in batches:
        whole = _join([*rest, batch], schema)
        full = len(whole) // BLOCK_ROWS * BLOCK_ROWS
        yield from (whole.slice(start, BLOCK_ROWS) for start in range(0, full, BLOCK_ROWS))
        rest = [whole.slice(full)]
    yield from (batch for batch in rest if len(batch))


def _join(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    columns = (
        pa.concat_arrays([batch.column(place) for batch in batches])
        if batches
        else pa.array([], field.type)
        for place, field in enumerate(schema)
    )
    return pa.RecordBatch.from_arrays(list(columns), schema=schema)
