"""Dropout, one mask a position or one a sentence."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """Ordinary dropout, or variational: the same mask at all time steps (Gal, Ghahramani 2016)."""

    def __init__(self, rate: float, *, variational: bool) -> None:
        super().__init__()
        self.rate = rate
        self.variational = variational

    def forward(self, inputs: Tensor, *, time_axis: int) -> Tensor:
        """Return inputs with features dropped in training; time_axis is the axis of positions."""
        if not self.training or self.rate == 0:
            return inputs
        if not self.variational:
            return nn.functional.dropout(inputs, self.rate)
        shape = list(inputs.shape)
        shape[time_axis] = 1
        kept = torch.empty(shape, dtype=inputs.dtype, device=inputs.device)
        return inputs * kept.bernoulli_(1 - self.rate).div_(1 - self.rate)
