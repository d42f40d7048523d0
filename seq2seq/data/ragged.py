"""Rows of ids of different lengths, and batches of sources of one padded length.

Legend: B batch, S source length with EOS
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from seq2seq.data.tokenizer import BOS, EOS, PAD

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ragged:
    """Rows of ids of different lengths, concatenated."""

    flat: npt.NDArray[np.int32]
    offsets: Ints  # row i is flat[offsets[i] : offsets[i + 1]]

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        flat = np.fromiter(itertools.chain.from_iterable(rows), np.int32, count=offsets[-1])
        return cls(flat, offsets)

    def extended(self, rows: Sequence[Sequence[int]]) -> Ragged:
        """Return these rows and further ones."""
        more = Ragged.from_lists(rows)
        offsets = np.concatenate([self.offsets, self.offsets[-1] + more.offsets[1:]])
        return Ragged(np.concatenate([self.flat, more.flat]), offsets)

    @cached_property
    def lengths(self) -> Ints:
        return np.diff(self.offsets)

    def padded(self, rows: Ints, *, begin: bool = False, width: int | None = None) -> Ints:
        """Return the rows as a padded matrix, each after BOS if they `begin`, else before EOS.

        Its width is what the longest row needs, or given.
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


def source_batches(
    sources: Sequence[Sequence[int]], batch_tokens: int
) -> Iterator[tuple[Ints, Ints]]:
    """Yield every source once: padded ids [B, S] that end with EOS, and positions [B].

    A source is padded to a length that depends on its own length only (see `padded_lengths`), and
    batched with others of that padded length. So S does not depend on its neighbors, and neither
    do sums over S, whose rounding changes with S. `batch_tokens` is the budget of padded tokens.
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
