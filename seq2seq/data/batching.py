"""Padded batches of pairs, as tensors.

Shapes: B batch, S source length with EOS, T target length with EOS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seq2seq.data.ragged import Ints, Ragged, cut_batches


@dataclass(frozen=True)
class Batch:
    """Padded pairs.

    `inputs_BT` is BOS y_1 ... y_n, `labels_BT` is y_1 ... y_n EOS; the source ends with EOS. All
    are padded with PAD on the right, and the lengths do not count padding. Word dropout puts UNK
    into the source and the inputs, never into labels.
    """

    source_BS: Tensor
    source_lengths_B: Tensor
    inputs_BT: Tensor
    labels_BT: Tensor
    target_lengths_B: Tensor
    indices: tuple[int, ...]  # positions of the pairs in the corpus
    num_target_tokens: int  # without padding, with EOS

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def source_mask_BS(self) -> Tensor:
        """True where the source is not padding."""
        return _mask(self.source_lengths_B, self.source_BS.shape[1])

    @property
    def label_mask_BT(self) -> Tensor:
        """True where the label is not padding."""
        return _mask(self.target_lengths_B, self.labels_BT.shape[1])

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on a device."""
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=True)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        return replace(self, **moved)

    def shard(self, rank: int, size: int) -> Batch:
        """Return every size-th row from `rank` on, without columns that are then all padding.

        If there is no such row, return one row of which all labels are padding.
        """
        if size == 1:
            return self
        rows = torch.arange(len(self))[rank::size]
        lengths_B = self.target_lengths_B[rows]
        if not len(rows):
            rows, lengths_B = torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
        source_lengths_B = self.source_lengths_B[rows]
        longest = int(source_lengths_B.max()), max(1, int(lengths_B.max()))
        return Batch(
            self.source_BS[rows, : longest[0]],
            source_lengths_B,
            self.inputs_BT[rows, : longest[1]],
            self.labels_BT[rows, : longest[1]],
            lengths_B,
            self.indices[rank::size],
            int(lengths_B.sum()),
        )


def _mask(lengths_B: Tensor, size: int) -> Tensor:
    return torch.arange(size, device=lengths_B.device) < lengths_B.unsqueeze(1)


def make_batch(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], indices: Sequence[int]
) -> Batch:
    """Return a batch of pairs, given as ids without BOS and EOS."""
    source, target = Ragged.from_lists(sources), Ragged.from_lists(targets)
    return collate(source, target, target, np.arange(len(indices)), indices)


def collate(
    source: Ragged, inputs: Ragged, labels: Ragged, rows: Ints, indices: Sequence[int]
) -> Batch:
    """Return a batch of some rows; `inputs` and `labels` are the targets."""
    source_lengths, target_lengths = source.lengths[rows] + 1, labels.lengths[rows] + 1
    return Batch(
        torch.from_numpy(source.padded(rows)),
        torch.from_numpy(source_lengths),
        torch.from_numpy(inputs.padded(rows, begin=True)),
        torch.from_numpy(labels.padded(rows)),
        torch.from_numpy(target_lengths),
        tuple(indices),
        int(target_lengths.sum()),
    )


def evaluation_batches(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], batch_tokens: int
) -> list[Batch]:
    """Return every pair once, in batches of similar length that are always the same.

    `batch_tokens` is the budget of padded tokens of the longer side; `Batch.indices` are positions
    in the sources.
    """
    source, target = Ragged.from_lists(sources), Ragged.from_lists(targets)
    batches = cut_batches(source.lengths + 1, target.lengths + 1, unit="tokens", size=batch_tokens)
    return [collate(source, target, target, rows, rows.tolist()) for rows in batches]
