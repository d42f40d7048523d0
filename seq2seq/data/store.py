"""Pairs on disk: both sides as texts or as ids, read in blocks of rows.

A side is two files: one has the values of all rows, bytes of UTF-8 or ids, the other where each row
begins. Blocks are read into memory instead of being mapped, so that the memory of a process does
not grow with the corpus.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from seq2seq.data.corpus import Pair
from seq2seq.data.ragged import Ints, Ragged

Block = tuple[Ragged, Ragged]  # the sources and the targets of some rows

TEXT = np.uint8
_SIDES = ("source", "target")


class PairStore(Sequence[Pair]):
    """The pairs in the files of a folder, which can be deleted once they are open."""

    def __init__(self, folder: Path, dtype: npt.DTypeLike) -> None:
        """Open the files; raise FileNotFoundError if one is missing."""
        self._folder, self._dtype = folder, np.dtype(dtype)
        self._values, self._offsets = (
            [self._open(folder / f"{side}.{kind}") for side in _SIDES]
            for kind in ("values", "offsets")
        )
        self._number = os.fstat(self._offsets[0].fileno()).st_size // 8 - 1

    def _open(self, path: Path) -> BinaryIO:
        file = path.open("rb", buffering=0)
        weakref.finalize(self, file.close)
        return file

    def __reduce__(self) -> tuple[Any, ...]:
        return PairStore, (self._folder, self._dtype)  # another process opens the files again

    def __len__(self) -> int:
        return self._number

    def __getitem__(self, row: Any) -> Any:
        """Return a pair of texts."""
        [source], [target] = (side.texts() for side in self.read([row], 1))
        return Pair(source, target)

    def read(self, starts: Sequence[int], size: int) -> Block:
        """Return the blocks of `size` rows that begin at `starts`, as one."""
        source, target = (
            Ragged.concat([self._read_side(side, start, start + size) for start in starts])
            for side in range(len(_SIDES))
        )
        return source, target

    def _read_side(self, side: int, start: int, stop: int) -> Ragged:
        stop = min(stop, self._number)
        offsets = _read(self._offsets[side], np.dtype(np.int64), start, stop + 1)
        values = _read(self._values[side], self._dtype, int(offsets[0]), int(offsets[-1]))
        return Ragged(values, offsets - offsets[0])


def _read(file: BinaryIO, dtype: np.dtype[Any], start: int, stop: int) -> npt.NDArray[Any]:
    """Return the numbers of a file from one place up to another."""
    begin, size = start * dtype.itemsize, (stop - start) * dtype.itemsize
    if sys.platform == "win32":  # where no other process shares the open file
        file.seek(begin)
        return np.frombuffer(file.read(size), dtype)
    return np.frombuffer(os.pread(file.fileno(), size, begin), dtype)


def take(block: Block, rows: Ints) -> Block:
    """Return some rows of a block, in this order."""
    return block[0].take(rows), block[1].take(rows)


def concat(blocks: Iterable[Block]) -> Block:
    """Return blocks one after the other as one."""
    source, target = map(Ragged.concat, zip(*blocks, strict=True))
    return source, target


def write_pairs(folder: Path, blocks: Iterable[Block]) -> None:
    """Write blocks, one after the other, to the files of a folder for a PairStore."""
    with ExitStack() as stack:
        values, offsets = (
            [stack.enter_context((folder / f"{side}.{kind}").open("wb")) for side in _SIDES]
            for kind in ("values", "offsets")
        )
        ends = np.zeros((len(_SIDES), 1), np.int64)
        for side, file in enumerate(offsets):
            file.write(ends[side].data)
        for block in blocks:
            for side, rows in enumerate(block):
                values[side].write(rows.flat.data)
                offsets[side].write((ends[side] + rows.offsets[1:]).data)
                ends[side] += rows.offsets[-1]
