"""GRU layers, whose gradient over a sequence is written by hand, and their dropout.

Cho et al. (2014), eqs. 5-8, in the variant of cuDNN and torch.nn.GRU, which resets after the
product with the hidden weights:

    r = sigmoid(x_r + U_r h),  z = sigmoid(x_z + U_z h),  n = tanh(x_n + r * (U_n h + b_n))
    h' = (1 - z) * n + z * h

Legend: T time, B batch, I input size, H hidden size, G = 3H gates in the order r, z, n, N = TB.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from seq2seq.model.products import linear, matrix_gradients_at_once

aten = torch.ops.aten


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
        return _kept(shape, self.rate, like=inputs).div_(1 - self.rate)

    def forward(self, inputs: Tensor, *, time_axis: int) -> Tensor:
        """Return the inputs with dropout in training; time_axis is the axis of positions."""
        mask = self.mask(inputs, time_axis=time_axis)
        return inputs if mask is None else inputs * mask


def _kept(shape: Sequence[int], rate: float, *, like: Tensor) -> Tensor:
    """Return random zeros, with this probability, and ones."""
    if like.device.type != "cpu":
        return like.new_empty(shape).bernoulli_(1 - rate)
    # bernoulli_ takes four times as long on CPUs as four comparisons of 16 of 64 random bits.
    count = math.prod(shape)
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    kept = bits.view(torch.int16)[:count].view(*shape) >= round(rate * 2**16) - 2**15
    return kept.to(like.dtype)


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
        gates_hidden_BG = linear(hidden_BH, self.weight_hidden, self.bias_hidden)
        if self.norm_input is not None and self.norm_hidden is not None:
            gates_input_BG = self.norm_input(gates_input_BG)
            gates_hidden_BG = self.norm_hidden(gates_hidden_BG)
        state_BH: Tensor = _Gates.apply(  # type: ignore[no-untyped-call]
            gates_input_BG, gates_hidden_BG, hidden_BH
        )
        return state_BH

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
            return self._unrolled(gates_input_TBG, hidden_BH, mask_TB1, reverse)
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

    def _unrolled(
        self, gates_input_TBG: Tensor, hidden_BH: Tensor, mask_TB1: Tensor | None, reverse: bool
    ) -> Tensor:
        """Return what forward does, step by step."""
        steps = range(len(gates_input_TBG))
        states: list[Tensor] = [hidden_BH] * len(steps)
        gates_input = gates_input_TBG.unbind()
        with matrix_gradients_at_once():
            for t in reversed(steps) if reverse else steps:
                hidden_BH = self.step(gates_input[t], hidden_BH)
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


def tanh_(values: Tensor) -> Tensor:
    """Return tanh, in place."""
    if values.device.type != "cpu" or values.dtype == torch.bfloat16:
        return values.tanh_()
    # tanh(x) = 2 sigmoid(2x) - 1: the sigmoid kernel is several times faster on many CPUs.
    return values.mul_(2).sigmoid_().mul_(2).sub_(1)


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
    tanh_(new_BH)
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
    grad_new_BH = aten.tanh_backward(grad_BH - through_BH, new_BH)
    of_update_BH = aten.sigmoid_backward((previous_BH - new_BH).mul_(grad_BH), update_BH)
    of_reset_BH = aten.sigmoid_backward(grad_new_BH * hidden_new_BH, reset_BH)
    torch.cat([of_reset_BH, of_update_BH, grad_new_BH], -1, out=grad_input_BG)
    grad_hidden_BG[:, : 2 * size].copy_(grad_input_BG[:, : 2 * size])
    torch.mul(grad_new_BH, reset_BH, out=grad_hidden_BG[:, 2 * size :])
    return through_BH


class _Gates(torch.autograd.Function):
    """The gates of one step, with the gradient in a few kernels."""

    @staticmethod
    def forward(
        ctx: Any, gates_input_BG: Tensor, gates_hidden_BG: Tensor, hidden_BH: Tensor
    ) -> Tensor:
        batch, size = hidden_BH.shape
        kept_B4H = hidden_BH.new_empty(batch, 4 * size)
        ctx.save_for_backward(hidden_BH, kept_B4H)
        ctx.dtypes = gates_input_BG.dtype, gates_hidden_BG.dtype
        return gate_step(gates_input_BG, gates_hidden_BG, hidden_BH, kept_B4H)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        hidden_BH, kept_B4H = ctx.saved_tensors
        (grad_BH,) = grads
        batch, size = hidden_BH.shape
        of_input, of_hidden = (
            hidden_BH.new_empty(batch, 3 * size, dtype=dtype) for dtype in ctx.dtypes
        )
        through_BH = gate_gradients(grad_BH, hidden_BH, kept_B4H, of_input, of_hidden)
        return of_input, of_hidden, through_BH


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
        grad_bias_G = flat_NG.sum(0).to(hidden_BH.dtype)  # faster than sum(dtype=...)
        return (
            grad_input_TBG.to(ctx.input_dtype),
            carried_BH,
            grad_weight_GH,
            grad_bias_G,
            None,
            None,
        )
