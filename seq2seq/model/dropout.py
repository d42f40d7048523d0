"""Dropout, one mask a position or one a sentence."""

from __future__ import annotations

from torch import Tensor, nn


class Dropout(nn.Module):
    """Ordinary dropout, or variational: the same mask at all time steps (Gal, Ghahramani 2016)."""

    def __init__(self, rate: float, *, variational: bool) -> None:
        super().__init__()
        self.rate = rate
        self.variational = variational

    def mask(self, inputs: Tensor, *, time_axis: int) -> Tensor | None:
        """Return what inputs are multiplied with: 0 or 1 / (1 - rate), or None outside training."""
        if not self.training or self.rate == 0:
            return None
        shape = list(inputs.shape)
        if self.variational:
            shape[time_axis] = 1
        return inputs.new_empty(shape).bernoulli_(1 - self.rate).div_(1 - self.rate)

    def forward(self, inputs: Tensor, *, time_axis: int) -> Tensor:
        """Return inputs with features dropped in training; time_axis is the axis of positions."""
        mask = self.mask(inputs, time_axis=time_axis)
        return inputs if mask is None else inputs * mask
