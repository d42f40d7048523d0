"""GRU layers, whose gradient over a sequence is written by hand, and their dropout.

Cho et al. (2014), eqs. 5-8, in the variant of cuDNN and torch.nn.GRU, which resets after the
product with the hidden weights:

    r = sigmoid(x_r + U_r h),  z = sigmoid(x_z + U_z h),  n = tanh(x_n + r * (U_n h + b_n))
    h' = (1 - z) * n + z * h

Legend: T time, B batch, I input size, H hidden size, G = 3H gates in the order r, z, n, N = TB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


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
        return inputs.new_empty(shape).bernoulli_(1 - self.rate).div_(1 - self.rate)

    def forward(self, inputs: Tensor, *, time_axis: int) -> Tensor:
        """Return the inputs with dropout in training; time_axis is the axis of positions."""
        mask = self.mask(inputs, time_axis=time_axis)
        return inputs if mask is None else inputs * mask


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
        return nn.functional.linear(inputs, self.weight_input, self.bias_input)

    def step(self, gates_input_BG: Tensor, hidden_BH: Tensor) -> Tensor:
        """Return the next state [B, H] from projected inputs and the current state."""
        gates_hidden_BG = nn.functional.linear(hidden_BH, self.weight_hidden, self.bias_hidden)
        if self.norm_input is not None and self.norm_hidden is not None:
            gates_input_BG = self.norm_input(gates_input_BG)
            gates_hidden_BG = self.norm_hidden(gates_hidden_BG)
        dtype, size = hidden_BH.dtype, self.hidden_size
        gates_input_BG, gates_hidden_BG = gates_input_BG.to(dtype), gates_hidden_BG.to(dtype)
        reset_update = torch.sigmoid(gates_input_BG[:, : 2 * size] + gates_hidden_BG[:, : 2 * size])
        reset_BH, update_BH = reset_update.chunk(2, -1)
        new_BH = torch.tanh(
            gates_input_BG[:, 2 * size :] + reset_BH * gates_hidden_BG[:, 2 * size :]
        )
        return torch.lerp(new_BH, hidden_BH, update_BH)

    def forward(
        self,
        gates_input_TBG: Tensor,
        hidden_BH: Tensor,
        mask_TB: Tensor | None = None,
        *,
        reverse: bool = False,
    ) -> Tensor:
        """Return the states [T, B, H] of a whole sequence of projected inputs.

        States at masked positions are zero. So with right padding, a zero initial state and
        `reverse`, the last real position starts from the zero state, as it would without padding.
        """
        mask_TB1 = None if mask_TB is None else mask_TB.unsqueeze(-1).to(hidden_BH.dtype)
        if self.norm_input is not None:
            return self.unrolled(gates_input_TBG, hidden_BH, mask_TB1, reverse)
        dtype = gates_input_TBG.dtype
        result: Tensor = _GRUSequence.apply(  # type: ignore[no-untyped-call]
            gates_input_TBG,
            hidden_BH,
            self.weight_hidden.to(dtype),
            self.bias_hidden,
            mask_TB1,
            reverse,
        )
        return result

    def unrolled(
        self, gates_input_TBG: Tensor, hidden_BH: Tensor, mask_TB1: Tensor | None, reverse: bool
    ) -> Tensor:
        """Return what forward does, by autograd; tests hold the written gradient to it."""
        steps = range(len(gates_input_TBG))
        states: list[Tensor] = [hidden_BH] * len(steps)
        for t in reversed(steps) if reverse else steps:
            hidden_BH = self.step(gates_input_TBG[t], hidden_BH)
            if mask_TB1 is not None:
                hidden_BH = hidden_BH * mask_TB1[t]
            states[t] = hidden_BH
        return torch.stack(states)


class Layers(nn.ModuleList):
    """A stack of GRU layers."""

    def __init__(self, sizes: Sequence[int], hidden_size: int, *, layer_norm: bool) -> None:
        super().__init__(GRU(size, hidden_size, layer_norm=layer_norm) for size in sizes)

    def __getitem__(self, number: int) -> GRU:  # type: ignore[override]
        return cast(GRU, super().__getitem__(number))

    def __iter__(self) -> Iterator[GRU]:
        return cast("Iterator[GRU]", super().__iter__())


def gate_step(
    gates_input_BG: Tensor, gates_hidden_BG: Tensor, hidden_BH: Tensor, kept_B4H: Tensor
) -> Tensor:
    """Return the next state; keep r, z, n and the hidden product of n for the gradient."""
    size = hidden_BH.shape[-1]
    reset_update = kept_B4H[:, : 2 * size]
    torch.add(gates_input_BG[:, : 2 * size], gates_hidden_BG[:, : 2 * size], out=reset_update)
    reset_update.sigmoid_()
    reset_BH, update_BH, new_BH, hidden_new_BH = kept_B4H.chunk(4, -1)
    hidden_new_BH.copy_(gates_hidden_BG[:, 2 * size :])
    new_BH.copy_(gates_input_BG[:, 2 * size :]).addcmul_(reset_BH, hidden_new_BH)
    # tanh(x) = 2 sigmoid(2x) - 1: the sigmoid kernel is several times faster on CPUs.
    new_BH.mul_(2).sigmoid_().mul_(2).sub_(1)
    return torch.lerp(new_BH, hidden_BH, update_BH)


def gate_gradients(
    grad_BH: Tensor,
    previous_BH: Tensor,
    kept_B4H: Tensor,
    grad_input_BG: Tensor,
    grad_hidden_BG: Tensor,
) -> Tensor:
    """Fill the gates' gradients; return the part of the state's that bypasses the gates."""
    size = grad_BH.shape[-1]
    reset_BH, update_BH, new_BH, hidden_new_BH = kept_B4H.chunk(4, -1)
    through_BH = grad_BH * update_BH
    grad_new_BH = (grad_BH - through_BH) * (1 - new_BH * new_BH)
    grad_update_BH = (previous_BH - new_BH) * through_BH * (1 - update_BH)
    grad_reset_BH = grad_new_BH * hidden_new_BH * reset_BH * (1 - reset_BH)
    for gates in (grad_input_BG, grad_hidden_BG):
        gates[:, :size].copy_(grad_reset_BH)
        gates[:, size : 2 * size].copy_(grad_update_BH)
    grad_input_BG[:, 2 * size :].copy_(grad_new_BH)
    grad_hidden_BG[:, 2 * size :].copy_(grad_new_BH.mul_(reset_BH))
    return through_BH


class _GRUSequence(torch.autograd.Function):
    """The recurrence; weight gradients are one product after the loop instead of one per step."""

    @staticmethod
    def forward(
        ctx: Any,
        gates_input_TBG: Tensor,
        hidden_BH: Tensor,
        weight_GH: Tensor,
        bias_G: Tensor,
        mask_TB1: Tensor | None,
        reverse: bool,
    ) -> Tensor:
        steps, batch, size = len(gates_input_TBG), *hidden_BH.shape
        dtype = weight_GH.dtype
        states_TBH = hidden_BH.new_empty(steps, batch, size)
        kept_TB4H = hidden_BH.new_empty(steps, batch, 4 * size)
        bias = bias_G.to(dtype)
        weight_HG = weight_GH.t()
        previous_BH = hidden_BH
        for t in reversed(range(steps)) if reverse else range(steps):
            gates_hidden_BG = torch.addmm(bias, previous_BH.to(dtype), weight_HG)
            state_BH = gate_step(gates_input_TBG[t], gates_hidden_BG, previous_BH, kept_TB4H[t])
            if mask_TB1 is not None:
                state_BH.mul_(mask_TB1[t])
            states_TBH[t] = state_BH
            previous_BH = state_BH
        ctx.save_for_backward(hidden_BH, weight_GH, mask_TB1, states_TBH, kept_TB4H)
        ctx.reverse = reverse
        ctx.input_dtype = gates_input_TBG.dtype
        return states_TBH

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden_BH, weight_GH, mask_TB1, states_TBH, kept_TB4H = ctx.saved_tensors
        (grad_TBH,) = grads
        steps, dtype = len(states_TBH), weight_GH.dtype
        first_1BH = hidden_BH.unsqueeze(0)
        shifted = [states_TBH[1:], first_1BH] if ctx.reverse else [first_1BH, states_TBH[:-1]]
        previous_TBH = torch.cat(shifted)
        grad_input_TBG = states_TBH.new_empty(*states_TBH.shape[:2], len(weight_GH), dtype=dtype)
        grad_hidden_TBG = torch.empty_like(grad_input_TBG)
        carried_BH = torch.zeros_like(hidden_BH)
        for t in range(steps) if ctx.reverse else reversed(range(steps)):
            carried_BH = carried_BH + grad_TBH[t]
            if mask_TB1 is not None:
                carried_BH.mul_(mask_TB1[t])
            through_BH = gate_gradients(
                carried_BH, previous_TBH[t], kept_TB4H[t], grad_input_TBG[t], grad_hidden_TBG[t]
            )
            carried_BH = through_BH.add_(grad_hidden_TBG[t] @ weight_GH)
        flat_NG = grad_hidden_TBG.flatten(0, 1)
        grad_weight_GH = flat_NG.t() @ previous_TBH.flatten(0, 1).to(dtype)
        grad_bias_G = flat_NG.sum(0, dtype=hidden_BH.dtype)
        return (
            grad_input_TBG.to(ctx.input_dtype),
            carried_BH,
            grad_weight_GH,
            grad_bias_G,
            None,
            None,
        )
