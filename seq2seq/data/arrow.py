"""Arrow files of a corpus: written by processes, shuffled, and read in stretches.

Files are mapped into memory, so that processes share their pages, and pages are released once they
are read, so that the memory of a process does not grow with the corpus.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import mmap
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tqdm import tqdm

from seq2seq.data.corpus import Pair
from seq2seq.data.ragged import Ragged
from seq2seq.processes import cores, ordered_map

SIDES = ["source", "target"]

PAIRS = pa.schema([*((side, pa.large_string()) for side in SIDES), ("corpus", pa.uint8())])
_SHUFFLE_SEED = 1
_SHARD_ROWS = 1 << 18  # of a file, and in memory at once
_BATCH_ROWS = 1000
_STRETCHES_MAPPED = 16  # of which each may touch 64 kB in each of four buffers
_ROWS_PER_PROCESS = 10_000  # at least, for a process to be worth starting


class MappedRows(Sequence[Pair]):
    """The rows of a folder's Arrow files, mapped into memory; they can be deleted meanwhile.

    Pages that were read count as memory of the process until they are released, and are then
    mapped again when they are needed.
    """

    def __init__(self, folder: Path, number: int) -> None:
        """Map the files of a folder; raise FileNotFoundError if they do not hold `number` rows."""
        self._folder = folder
        self._maps: list[mmap.mmap] = []
        batches = []
        for path in sorted(folder.glob("*.arrow")):
            with path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._maps.append(mapped)
            reader = pa.ipc.open_stream(pa.py_buffer(mapped))
            for batch in reader:  # which reads the page that each one begins with
                batches.append(batch)
                self.release(-1)
        if sum(map(len, batches)) != number or not batches:
            raise FileNotFoundError(errno.ENOENT, "Arrow files were deleted", str(folder))
        self.table: pa.Table = pa.Table.from_batches(batches)

    def __reduce__(self) -> tuple[type[MappedRows], tuple[Path, int]]:
        return MappedRows, (self._folder, len(self))  # another process maps the files again

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, row: Any) -> Any:
        return Pair(*(self.table.column(side)[row].as_py() for side in SIDES))

    def release(self, first: int = 0) -> None:
        """Release all pages, or those of the files from the first one on."""
        if sys.platform != "win32":  # which has no such call
            for each in self._maps[first:]:
                each.madvise(mmap.MADV_DONTNEED)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, some at a time."""
        for batch in self.table.to_batches():
            yield batch
            self.release()

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a copy of a column of numbers."""
        values = np.empty(len(self), self.table.schema.field(name).type.to_pandas_dtype())
        start = 0
        for batch in self.batches():
            values[start : start + len(batch)] = np.from_dlpack(batch.column(name))
            start += len(batch)
        return values

    def stretches(self, starts: Sequence[int], length: int) -> pa.Table:
        """Return the rows of stretches of equal length."""
        copies = []
        for first in range(0, len(starts), _STRETCHES_MAPPED):
            some = starts[first : first + _STRETCHES_MAPPED]
            table = pa.concat_tables(self.table.slice(start, length) for start in some)
            copies.append(table.combine_chunks())
            self.release()
        return pa.concat_tables(copies).combine_chunks()


def write_pairs(pairs: Iterable[Pair], file: Path) -> int:
    """Write pairs to an Arrow file; return their number."""
    pairs, number = iter(pairs), 0
    with pa.ipc.new_stream(str(file), PAIRS) as writer:
        while batch := list(itertools.islice(pairs, _BATCH_ROWS)):
            columns = ([getattr(pair, name) for pair in batch] for name in PAIRS.names)
            writer.write_batch(pa.record_batch(list(columns), schema=PAIRS))
            number += len(batch)
    return number


def map_rows(
    rows: MappedRows,
    function: Callable[..., dict[str, Any]],
    keys: dict[str, Any],
    schema: pa.Schema,
    folder: Path,
    processes: int | None,
) -> None:
    """Write what a function returns for batches of rows, both by column, to files in a folder.

    Processes share the shards of the rows. Raises WorkerError where a process was killed.
    """
    number = processes or (cores() if sys.platform == "linux" else 1)
    size = min(_SHARD_ROWS, max(_ROWS_PER_PROCESS, -(-len(rows) // number)))
    starts = range(0, len(rows), size)
    map_shard = partial(_map_shard, rows, partial(function, **keys), schema, folder, size)
    done = ordered_map(
        map_shard, starts, processes=min(number, len(starts)), option="data.processes"
    )
    name = function.__name__.strip("_")
    for _ in tqdm(done, name, len(starts), disable=None, leave=False):
        pass


def _map_shard(
    rows: MappedRows,
    function: Callable[[dict[str, Any]], dict[str, Any]],
    schema: pa.Schema,
    folder: Path,
    size: int,
    start: int,
) -> None:
    with pa.ipc.new_stream(str(folder / f"{start // size:05}.arrow"), schema) as writer:
        for batch in rows.table.slice(start, size).to_batches():
            found = function(batch.to_pydict())
            writer.write_batch(pa.RecordBatch.from_pydict(found, schema))
    rows.release()
    pa.default_memory_pool().release_unused()


def shuffle(rows: MappedRows, kept: npt.NDArray[np.bool_], dealt: Path, folder: Path) -> str:
    """Write the rows that are kept to files of a folder in random order; return its fingerprint.

    Rows are dealt to piles at random, and then each pile is shuffled: every order is equally
    likely, and no more than a pile is in memory.
    """
    generator, fingerprint = np.random.default_rng(_SHUFFLE_SEED), hashlib.sha256()
    total = int(kept.sum())
    piles = -(-total // _SHARD_ROWS)
    pile_of_row = np.full(len(kept), piles, np.uint16)
    pile_of_row[kept] = generator.integers(piles, size=total, dtype=np.uint16)
    table = rows.table.select([*PAIRS.names, "digest"])
    with pa.ipc.new_file(str(dealt), table.schema) as writer:
        for start in range(0, len(kept), _SHARD_ROWS):
            pile_of = pile_of_row[start : start + _SHARD_ROWS]
            run = table.slice(start, _SHARD_ROWS).combine_chunks().to_batches()[0]
            for pile in range(piles):
                writer.write_batch(run.take(pa.array(np.flatnonzero(pile_of == pile))))
            rows.release()
    with pa.OSFile(str(dealt)) as file:
        reader = pa.ipc.open_file(file)
        for pile in range(piles):
            numbers = range(pile, reader.num_record_batches, piles)
            table = pa.Table.from_batches(map(reader.get_batch, numbers)).combine_chunks()
            table = table.take(pa.array(generator.permutation(len(table))))
            fingerprint.update(table.column("digest").to_numpy().tobytes())
            with pa.ipc.new_stream(str(folder / f"{pile:05}.arrow"), PAIRS) as writer:
                writer.write_table(table.select(PAIRS.names), max_chunksize=_BATCH_ROWS)
            del table
    pa.default_memory_pool().release_unused()  # which forked workers would have, too
    return fingerprint.hexdigest()[:16]


def to_ragged(column: pa.ChunkedArray) -> Ragged:
    """Return a column of lists of ids."""
    rows = pa.concat_arrays(column.chunks)
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths(rows), out=offsets[1:])
    return Ragged(np.from_dlpack(rows.flatten()).astype(np.int32), offsets)


def lengths(rows: pa.ListArray) -> npt.NDArray[Any]:
    """Return the number of ids in each list."""
    return np.from_dlpack(rows.value_lengths())  # Array.to_numpy would import pandas
