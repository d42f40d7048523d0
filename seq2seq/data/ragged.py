"""Rows of different lengths, such as ids or the bytes of texts, and how they are cut into batches.

Legend: B batch, S source length with EOS
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from seq2seq.data.tokenizer import BOS, EOS, PAD

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths, concatenated."""

    flat: npt.NDArray[Any]
    offsets: Ints  # row i is flat[offsets[i] : offsets[i + 1]]

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]], dtype: npt.DTypeLike = np.int32) -> Ragged:
        offsets = _offsets(np.fromiter(map(len, rows), np.int64, count=len(rows)))
        flat = np.fromiter(itertools.chain.from_iterable(rows), dtype, count=offsets[-1])
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


def _offsets(lengths: Ints) -> Ints:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


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


def cut_batches(source_lengths: Ints, target_lengths: Ints, *, unit: str, size: int) -> list[Ints]:
    """Cut pairs into batches of similar length on both sides; ties keep their order.

    `size` is the largest number of padded tokens of the longer side, or of sentences, by `unit`. A
    pair that is longer than the budget is a batch of its own. With a budget of tokens, the number
    of pairs is one of 1 to 16, 18 to 32 by twos, 36 to 64 by fours and so on: few shapes of matrix
    products then occur, and each needs a kernel of its own (keep_few_kernels in device.py).
    """
    longer = np.maximum(source_lengths, target_lengths)
    _, step = np.unique(longer, return_inverse=True)
    # Sort by the longer side, which fills the budget, then by the difference of the sides, upwards
    # and downwards in turn, so that the difference does not jump where the length steps.
    turn = 1 - 2 * (step & 1)
    order = np.lexsort(((source_lengths - target_lengths) * turn, step))
    cuts, start = [], 0
    for end, length in enumerate(longer[order].tolist()):  # ascending: the last one is the longest
        while (rows := end - start) and (length if unit == "tokens" else 1) * (rows + 1) > size:
            spare = rows % (1 << max(0, rows.bit_length() - 4)) if unit == "tokens" else 0
            start += rows - spare
            cuts.append(start)
    return np.split(order, cuts) if len(order) else []
