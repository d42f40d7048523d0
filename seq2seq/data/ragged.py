"""Rows of different lengths, ids or the bytes of texts: in memory, on disk, cut into batches.

On disk, the sources and the targets of pairs have two files each: the values of all rows, and the
offsets at which rows begin. Blocks of rows are read into memory instead of being mapped, so that
the memory of a process does not grow with the corpus.

Legend: B batch, S source length with EOS
"""

from __future__ import annotations

import itertools
import os
import sys
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizer import BOS, EOS, PAD

Ints = npt.NDArray[np.int64]

TEXT = np.uint8
_SIDES = ("source", "target")


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths, concatenated."""

    flat: npt.NDArray[Any]
    offsets: Ints  # row i is flat[offsets[i] : offsets[i + 1]]

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        offsets = _offsets(np.fromiter(map(len, rows), np.int64, count=len(rows)))
        flat = np.fromiter(itertools.chain.from_iterable(rows), np.int32, count=offsets[-1])
        return cls(flat, offsets)

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> Ragged:
        encoded = [text.encode() for text in texts]
        offsets = _offsets(np.fromiter(map(len, encoded), np.int64, count=len(encoded)))
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    @classmethod
    def concat(cls, parts: Sequence[Ragged]) -> Ragged:
        offsets = _offsets(np.concatenate([part.lengths for part in parts]))
        return cls(np.concatenate([part.flat for part in parts]), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def texts(self) -> list[str]:
        """Return rows of bytes as texts."""
        joined = self.flat.tobytes()
        bounds = itertools.pairwise(self.offsets.tolist())
        return [joined[start:end].decode() for start, end in bounds]

    def take(self, rows: Ints) -> Ragged:
        """Return some rows, in this order."""
        starts, ends = self.offsets[rows], self.offsets[rows + 1]
        bounds = zip(starts.tolist(), ends.tolist(), strict=True)
        flat = [self.flat[:0], *(self.flat[start:end] for start, end in bounds)]
        return Ragged(np.concatenate(flat), _offsets(ends - starts))

    @cached_property
    def lengths(self) -> Ints:
        return np.diff(self.offsets)

    def padded(self, rows: Ints, *, begin: bool = False, width: int | None = None) -> Ints:
        """Return the rows as a padded matrix, with BOS before each if `begin`, else EOS after it.

        The matrix has the given width, or that of the longest row.
        """
        lengths, start = self.lengths[rows], int(begin)
        longest = int(lengths.max())
        matrix = np.full((len(rows), width or longest + 1), PAD, dtype=np.int64)
        columns = np.arange(longest)
        real = columns < lengths[:, None]
        matrix[:, start : start + longest][real] = self.flat[
            (self.offsets[rows, None] + columns)[real]
        ]
        if begin:
            matrix[:, 0] = BOS
        else:
            matrix[np.arange(len(rows)), lengths] = EOS
        return matrix


def _offsets(lengths: Ints) -> Ints:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


Block = tuple[Ragged, Ragged]  # the sources and the targets of some rows


class PairStore(Sequence[Pair]):
    """The pairs in the files of a folder; the files can be deleted once they are open."""

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
        """Return the blocks of `size` rows that begin at `starts`, joined into one."""
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
    """Return the numbers of a file from the index `start` to before `stop`."""
    begin, size = start * dtype.itemsize, (stop - start) * dtype.itemsize
    if sys.platform == "win32":  # where no other process shares the open file
        file.seek(begin)
        return np.frombuffer(file.read(size), dtype)
    return np.frombuffer(os.pread(file.fileno(), size, begin), dtype)


def take(block: Block, rows: Ints) -> Block:
    """Return some rows of a block, in this order."""
    return block[0].take(rows), block[1].take(rows)


def concat(blocks: Iterable[Block]) -> Block:
    """Return one block of the rows of several."""
    source, target = map(Ragged.concat, zip(*blocks, strict=True))
    return source, target


def write_pairs(folder: Path, blocks: Iterable[Block], dtype: npt.DTypeLike) -> None:
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
                values[side].write(rows.flat.astype(dtype, copy=False).data)
                offsets[side].write((ends[side] + rows.offsets[1:]).data)
                ends[side] += rows.offsets[-1]


def source_batches(
    sources: Sequence[Sequence[int]], batch_tokens: int
) -> Iterator[tuple[Ints, Ints]]:
    """Yield every source once: padded ids [B, S] that end with EOS, and positions [B].

    A source is padded to a length that depends on its own length only (see `padded_lengths`), and
    batched with others of that padded length. So S does not depend on the other sources. Neither do
    sums over S: their rounding depends on S. `batch_tokens` is the budget of padded tokens.
    """
    if not sources:
        return
    source = Ragged.from_lists(sources)
    padded = padded_lengths(source.lengths + 1)
    for length in sorted({*padded.tolist()}):
        rows = np.flatnonzero(padded == length)
        most = max(1, batch_tokens // length)
        for some in np.array_split(rows, -(-len(rows) // most)):
            yield source.padded(some, width=length), some


def padded_lengths(lengths: Ints) -> Ints:
    """Return the next of 4, 8, 12, 16, 24, 32, 48, 64, 96, ... for each length."""
    grid = [4, 8, 12, 16]
    while grid[-1] < lengths.max():
        grid.append(2 * grid[-2])
    return np.array(grid)[np.searchsorted(grid, lengths)]


def cut_batches(source_lengths: Ints, target_lengths: Ints, *, unit: str, size: int) -> list[Ints]:
    """Cut pairs into batches of similar length on both sides; ties keep their order.

    `size` is the largest number of padded tokens of the longer side, or of sentences, as `unit`
    says. A pair that is longer than the budget is a batch of its own. With a budget of tokens, the
    number of pairs is one of 1 to 16, 18 to 32 by twos, 36 to 64 by fours and so on. Products of
    matrices then have few shapes, and each shape needs its own kernel (device.keep_few_kernels).
    """
    longer = np.maximum(source_lengths, target_lengths)
    _, step = np.unique(longer, return_inverse=True)
    # Sort by the longer side (it fills the budget), then by the difference of the sides, ascending
    # and descending by turns, so that the difference does not jump when the length grows.
    turn = 1 - 2 * (step & 1)
    order = np.lexsort(((source_lengths - target_lengths) * turn, step))
    cuts, start = [], 0
    for end, length in enumerate(longer[order].tolist()):  # ascending: the last one is the longest
        while (rows := end - start) and (length if unit == "tokens" else 1) * (rows + 1) > size:
            spare = rows % (1 << max(0, rows.bit_length() - 4)) if unit == "tokens" else 0
            start += rows - spare
            cuts.append(start)
    return np.split(order, cuts) if len(order) else []
