"""The layers of the model: dropout, linear layers within a loop, and GRU layers.

Gradients over a sequence are written by hand, here where all time steps are known.

**Products with the same matrix at every step.** Autograd forms the gradient of the matrix at each
step, as large as the matrix, and adds them up: memory traffic that costs more than a step's own
products. Within `matrix_gradients_at_once`, the backward pass of a step only records its inputs and
the gradients of its outputs; one product of all of them follows after the last step. The matrices
are weights, or what a step reads of its sentences: keys and values, one matrix for each.

**GRU.** Cho et al. (2014), eqs. 5-8, in the variant of cuDNN and torch.nn.GRU, which resets after
the product with the hidden weights:

    r = sigmoid(x_r + U_r h),  z = sigmoid(x_z + U_z h),  n = tanh(x_n + r * (U_n h + b_n))
    h' = (1 - z) * n + z * h

Legend: T time steps, B batch, I inputs, O outputs, H hidden size, G = 3H gates in the order r, z,
n; N rows (TB in a GRU); Y anything before the last two axes: nothing for weights, B for matrices of
sentences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

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


@dataclass
class _Records:
    """What the steps of a backward pass record for the gradient of one product's matrix."""

    matrix_YOI: Tensor
    bias_O: Tensor | None
    current_pass: Callable[[], int]  # the number of the backward pass that is running
    backward_pass: int = -1
    inputs_TYNI: list[Tensor] = field(default_factory=list)
    grads_TYNO: list[Tensor] = field(default_factory=list)

    def add(self, inputs_YNI: Tensor, grad_YNO: Tensor) -> None:
        """Record one step; drop what an earlier backward pass recorded.

        A pass in which the matrix's gradient is not asked for never reaches _End, which uses it up.
        """
        current = self.current_pass()
        if self.backward_pass != current:
            self.backward_pass = current
            self.inputs_TYNI, self.grads_TYNO = [], []
        self.inputs_TYNI.append(inputs_YNI)
        self.grads_TYNO.append(grad_YNO)


class _Loop:
    """The products of one loop by the identity of their matrix, which is kept alive for that.

    One matrix can be used in two products: with dot products, the values are the keys.
    """

    def __init__(self, current_pass: Callable[[], int]) -> None:
        self.current_pass = current_pass
        self.products: dict[tuple[int, bool], tuple[Tensor, _Records, Tensor]] = {}

    def multiply(
        self, inputs_YNI: Tensor, matrix: Tensor, bias_O: Tensor | None, *, transposed: bool
    ) -> Tensor:
        """Return inputs times the matrix [Y, I, O], or the `transposed` matrix [Y, O, I]."""
        key = id(matrix), transposed
        if key not in self.products:
            dtype = product_dtype(matrix)
            matrix_YOI = matrix if transposed else matrix.mT
            bias = None if bias_O is None else bias_O.detach().to(dtype)
            records = _Records(matrix_YOI.detach().to(dtype), bias, self.current_pass)
            end = _End.apply(matrix_YOI, bias_O, records)  # type: ignore[no-untyped-call]
            self.products[key] = matrix, records, end
        _, records, end = self.products[key]
        narrow_YNI = inputs_YNI.to(records.matrix_YOI.dtype)
        outputs_YNO: Tensor = _Step.apply(narrow_YNI, end, records)  # type: ignore[no-untyped-call]
        return outputs_YNO


def product_dtype(tensor: Tensor) -> torch.dtype:
    """Return the dtype in which products of this tensor are taken: autocast's, or its own."""
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype


_loop: ContextVar[_Loop | None] = ContextVar("loop", default=None)


@contextmanager
def matrix_gradients_at_once() -> Iterator[None]:
    """Take the gradient of each matrix in this module's products within as one product."""
    # torch has no public name for this. Without it, autograd takes the gradients, more slowly.
    current_pass = getattr(getattr(torch, "_C", None), "_current_graph_task_id", None)
    token = _loop.set(_Loop(current_pass) if current_pass and torch.is_grad_enabled() else None)
    try:
        yield
    finally:
        _loop.reset(token)


def linear(inputs: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Return x W' + b for the last axis of the inputs, as torch.nn.functional.linear does."""
    loop = _loop.get()
    if loop is None:
        return nn.functional.linear(inputs, weight_OI, bias_O)
    rows_NO = loop.multiply(inputs.flatten(0, -2), weight_OI, bias_O, transposed=True)
    return rows_NO.view(*inputs.shape[:-1], -1)


def inner_products(vectors_BKD: Tensor, others_BSD: Tensor) -> Tensor:
    """Return the inner products [B, K, S] of each sentence's vectors with its others."""
    loop = _loop.get()
    if loop is None:
        return torch.bmm(vectors_BKD.to(others_BSD.dtype), others_BSD.mT)
    return loop.multiply(vectors_BKD, others_BSD, None, transposed=True)


def weighted_sums(weights_BKS: Tensor, values_BSM: Tensor) -> Tensor:
    """Return the sums [B, K, M] of each sentence's values with these weights."""
    loop = _loop.get()
    if loop is None:
        return torch.bmm(weights_BKS.to(values_BSM.dtype), values_BSM)
    return loop.multiply(weights_BKS, values_BSM, None, transposed=False)


class Linear(nn.Linear):
    """torch.nn.Linear for products within a loop."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return x W' + b."""
        return linear(inputs, self.weight, self.bias)


class _Step(torch.autograd.Function):
    """One product. `end`, which is empty, lets the matrix's gradient wait for every step."""

    @staticmethod
    def forward(ctx: Any, inputs_YNI: Tensor, end: Tensor, records: _Records) -> Tensor:
        ctx.save_for_backward(inputs_YNI, end)
        ctx.records = records
        if records.bias_O is None:
            return inputs_YNI @ records.matrix_YOI.mT
        return torch.addmm(records.bias_O, inputs_YNI, records.matrix_YOI.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs_YNI, end = ctx.saved_tensors
        (grad_YNO,) = grads
        ctx.records.add(inputs_YNI, grad_YNO)
        return grad_YNO @ ctx.records.matrix_YOI, end, None


class _End(torch.autograd.Function):
    """The matrix as the steps see it; its backward pass runs after those of all steps."""

    @staticmethod
    def forward(ctx: Any, matrix_YOI: Tensor, bias_O: Tensor | None, records: _Records) -> Tensor:
        ctx.records = records
        ctx.dtypes = matrix_YOI.dtype, None if bias_O is None else bias_O.dtype
        return records.matrix_YOI.new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        records: _Records = ctx.records
        matrix_dtype, bias_dtype = ctx.dtypes
        grads_YNO = torch.cat(records.grads_TYNO, -2)
        inputs_YNI = torch.cat(records.inputs_TYNI, -2)
        records.grads_TYNO, records.inputs_TYNI = [], []  # frees memory
        grad_matrix_YOI = (grads_YNO.mT @ inputs_YNI).to(matrix_dtype)
        # Rounded as the matrix's, and ten times as fast as sum(dtype=...).
        grad_bias_O = None if bias_dtype is None else grads_YNO.sum(0).to(bias_dtype)
        return grad_matrix_YOI, grad_bias_O, None


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


def stack_layers(sizes: Sequence[int], hidden_size: int, *, layer_norm: bool) -> Sequence[GRU]:
    """Return GRU layers that read inputs of these sizes, as a module."""
    layers = nn.ModuleList(GRU(size, hidden_size, layer_norm=layer_norm) for size in sizes)
    return cast("Sequence[GRU]", layers)


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
