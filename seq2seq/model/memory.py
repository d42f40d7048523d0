"""What the encoder hands over, and what the decoder reads at every step.

Legend: B batch, S source length, M value size, H memory size (both directions of the encoder).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from torch import Tensor


@dataclass(frozen=True)
class Encoded:
    """The encoder's output for a batch: states, mask, and what decoders start from."""

    states_BSH: Tensor
    mask_BS: Tensor
    summary_BH: Tensor

    def memory(self, keys: Tensor, values_BSM: Tensor) -> Memory:
        """Return a memory with these keys and values."""
        mask_BS1 = self.mask_BS.unsqueeze(-1)
        mean_BH = (self.states_BSH * mask_BS1).sum(1) / mask_BS1.sum(1)
        return Memory(keys, values_BSM, self.mask_BS, self.summary_BH, mean_BH)


@dataclass(frozen=True)
class Memory:
    """What is fixed for a batch of source sentences; computed once, read at every step.

    keys: what the score function compares with, already projected: [B, S, ...].
    values_BSM: what the context is a weighted sum of. mask_BS: true at real positions.
    summary_BH: last forward and first backward state. mean_BH: mean state.
    """

    keys: Tensor
    values_BSM: Tensor
    mask_BS: Tensor
    summary_BH: Tensor
    mean_BH: Tensor

    def select(self, sentences: Tensor) -> Memory:
        """Return the memory of these sentences only."""
        return Memory(*(getattr(self, f.name).index_select(0, sentences) for f in fields(self)))
