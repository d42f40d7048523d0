"""The layers of the model: dropout, linear layers, and GRU layers.

**GRU.** Cho et al. (2014), eqs. 5-8, in the variant of cuDNN and torch.nn.GRU: the reset comes
after the product with the hidden weights.

    r = sigmoid(x_r + U_r h),  z = sigmoid(x_z + U_z h),  n = tanh(x_n + r * (U_n h + b_n))
    h' = (1 - z) * n + z * h

Legend: T time steps, B batch, I inputs, H hidden size, G = 3H gates in the order r, z, n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from seq2seq.model.kernels import (
    dropout_mask,
    for_gates,
    gru_cell,
    gru_step,
    linear,
    matrix_gradients_at_once,
)

_KEEPS = 1e4  # an input of the update gate that makes the gate exactly 1


class Dropout(nn.Module):
    """Dropout; the variational one uses one mask for all time steps (Gal and Ghahramani 2016)."""

    def __init__(self, rate: float, *, variational: bool) -> None:
        super().__init__()
        self.rate = rate
        self.variational = variational

    def mask(self, inputs: Tensor, *, time_axis: int) -> Tensor | None:
        """Return a mask of 0 and 1 / (1 - rate) to multiply inputs by, or None outside training."""
        if not self.training or self.rate == 0:
            return None
        shape = list(inputs.shape)
        if self.variational:
            shape[time_axis] = 1
        return dropout_mask(shape, self.rate, like=inputs)

    def forward(self, inputs: Tensor, *, time_axis: int) -> Tensor:
        """Return the inputs with dropout in training; time_axis is the axis of positions."""
        mask = self.mask(inputs, time_axis=time_axis)
        return inputs if mask is None else inputs * mask


class Linear(nn.Linear):
    """torch.nn.Linear for products within a loop."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return x W' + b."""
        return linear(inputs, self.weight, self.bias)


class GRU(nn.Module):
    """One GRU layer in one direction; input products are taken for all time steps at once."""

    def __init__(self, input_size: int, hidden_size: int, *, layer_norm: bool = False) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.weight_input = nn.Parameter(torch.empty(3 * hidden_size, input_size))
        self.weight_hidden = nn.Parameter(torch.empty(3 * hidden_size, hidden_size))
        # The norms have biases of their own. A bias before a norm would even do harm: at a zero
        # state it is the norm's only input, and its gradient is magnified by 1 / sqrt(eps).
        biased = not layer_norm
        self.bias_input = nn.Parameter(torch.zeros(3 * hidden_size)) if biased else None
        self.bias_hidden = nn.Parameter(torch.zeros(3 * hidden_size)) if biased else None
        self.norm_input = nn.LayerNorm(3 * hidden_size) if layer_norm else None
        self.norm_hidden = nn.LayerNorm(3 * hidden_size) if layer_norm else None

    def project(self, inputs: Tensor) -> Tensor:
        """Return the input products of the gates: [..., I] to [..., G]."""
        return linear(inputs, self.weight_input, self.bias_input)

    def step(self, gates_input_BG: Tensor, hidden_BH: Tensor) -> Tensor:
        """Return the next state [B, H] from projected inputs and the current state."""
        return self._next(self._normalized(gates_input_BG), hidden_BH)

    def forward(
        self,
        gates_input_TBG: Tensor,
        hidden_BH: Tensor,
        mask_TB: Tensor | None = None,
        *,
        reverse: bool = False,
    ) -> Tensor:
        """Return the states [T, B, H] of a whole sequence of projected inputs.

        A masked position keeps the state before it (on a GPU, up to rounding). So with right
        padding and `reverse`, the last real position starts from the initial state, as it would
        without padding.
        """
        gates_input_TBG = self._normalized(gates_input_TBG)
        if mask_TB is not None:
            keeps_G = gates_input_TBG.new_zeros(len(self.weight_hidden))
            keeps_G.chunk(3)[1].fill_(_KEEPS)
            padding_TB1 = (~mask_TB).unsqueeze(-1).to(keeps_G.dtype)
            gates_input_TBG = torch.addcmul(gates_input_TBG, padding_TB1, keeps_G)
        gates_input = for_gates(gates_input_TBG, hidden_BH).unbind()
        steps = range(len(gates_input))
        states: list[Tensor] = [hidden_BH] * len(steps)
        with matrix_gradients_at_once():
            for t in reversed(steps) if reverse else steps:
                states[t] = hidden_BH = self._next(gates_input[t], hidden_BH)
        return torch.stack(states)

    def _normalized(self, gates_input: Tensor) -> Tensor:
        return gates_input if self.norm_input is None else self.norm_input(gates_input)

    def _next(self, gates_input_BG: Tensor, hidden_BH: Tensor) -> Tensor:
        """Return the next state from normalized inputs."""
        if self.bias_hidden is not None:
            return gru_step(gates_input_BG, hidden_BH, self.weight_hidden, self.bias_hidden)
        assert self.norm_hidden is not None
        gates_hidden_BG = self.norm_hidden(linear(hidden_BH, self.weight_hidden))
        return gru_cell(gates_input_BG, gates_hidden_BG, hidden_BH)


def stack_layers(sizes: Sequence[int], hidden_size: int, *, layer_norm: bool) -> Sequence[GRU]:
    """Return GRU layers that read inputs of these sizes, as a module."""
    layers = nn.ModuleList(GRU(size, hidden_size, layer_norm=layer_norm) for size in sizes)
    return cast("Sequence[GRU]", layers)
