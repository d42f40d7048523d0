"""Operations written for the speed of a device, and only for that.

Each function has a plain version in tests/plain_kernels.py with the same results and gradients.

**Products with the same matrix at every step.** At each step, autograd computes a gradient as large
as the matrix and adds it to a sum; this memory traffic costs more than the step's own products.
Within `matrix_gradients_at_once`, the backward pass of a step only records its inputs and the
gradients of its outputs; after the last step, one product of all of them gives the gradient of the
matrix. The matrices are weights, or the keys and the values of a batch, one matrix per sentence.

Legend: T time steps, B batch, K queries a sentence, S source length, I inputs, O outputs, A
attention size, H hidden size, G = 3H gates in the order r, z, n; N rows; V vocabulary; Y anything
before the last two axes: nothing for weights, B for keys and values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

aten = torch.ops.aten


@dataclass
class _Records:
    """The records of a backward pass from which the gradient of one matrix is computed."""

    matrix_YOI: Tensor
    bias_O: Tensor | None
    current_pass: Callable[[], int]  # the number of the backward pass that is running
    backward_pass: int = -1
    inputs_TYNI: list[Tensor] = field(default_factory=list)
    grads_TYNO: list[Tensor] = field(default_factory=list)

    def add(self, inputs_YNI: Tensor, grad_YNO: Tensor) -> None:
        """Record one step.

        Records of an earlier backward pass are dropped. A pass leaves them only if it did not ask
        for the matrix's gradient.
        """
        current = self.current_pass()
        if self.backward_pass != current:
            self.backward_pass = current
            self.inputs_TYNI, self.grads_TYNO = [], []
        self.inputs_TYNI.append(inputs_YNI)
        self.grads_TYNO.append(grad_YNO)


class _Loop:
    """The products of one loop, by the place of their matrix in memory.

    One matrix can be in two products: with dot products, the keys can also be the values.
    """

    def __init__(self, current_pass: Callable[[], int]) -> None:
        self.current_pass = current_pass
        self.products: dict[tuple[Any, ...], tuple[Tensor, _Records, Tensor]] = {}

    def product(
        self, matrix: Tensor, bias_O: Tensor | None, *, transposed: bool
    ) -> tuple[_Records, Tensor]:
        """Return the records of the product with a matrix [Y, I, O], or `transposed` [Y, O, I].

        Also returns the output of `_End` for the matrix, to be read by every step.
        """
        # A view of a weight is a new object at each step, but has the same address. The matrix is
        # kept, so that no other one gets that address.
        key = matrix.data_ptr(), matrix.shape, matrix.stride(), transposed
        if key not in self.products:
            dtype = product_dtype(matrix)
            matrix_YOI = matrix if transposed else matrix.mT
            bias = None if bias_O is None else bias_O.detach().to(dtype)
            records = _Records(matrix_YOI.detach().to(dtype), bias, self.current_pass)
            end = _End.apply(matrix_YOI, bias_O, records)  # type: ignore[no-untyped-call]
            self.products[key] = matrix, records, end
        return self.products[key][1:]

    def multiply(
        self, inputs_YNI: Tensor, matrix: Tensor, bias_O: Tensor | None, *, transposed: bool
    ) -> Tensor:
        """Return inputs times the matrix [Y, I, O], or the `transposed` matrix [Y, O, I]."""
        records, end = self.product(matrix, bias_O, transposed=transposed)
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


class _Step(torch.autograd.Function):
    """One product. It reads `end`, so `_End` runs its backward pass after those of all steps."""

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
    """Stands for a matrix in all steps of a loop.

    Each step reads its empty output, so autograd runs this backward pass after those of all steps.
    """

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
        # Rounded like the matrix's gradient, and ten times as fast as sum(dtype=...).
        grad_bias_O = None if bias_dtype is None else grads_YNO.sum(0).to(bias_dtype)
        return grad_matrix_YOI, grad_bias_O, None


def gru_cell(gates_input_BG: Tensor, gates_hidden_BG: Tensor, hidden_BH: Tensor) -> Tensor:
    """Return the next state of a GRU from both products of its gates.

    r = sigmoid(x_r + h_r), z = sigmoid(x_z + h_z), n = tanh(x_n + r * h_n), (1 - z) * n + z * h.
    """
    state_BH: Tensor = _Cell.apply(  # type: ignore[no-untyped-call]
        gates_input_BG, gates_hidden_BG, hidden_BH
    )
    return state_BH


def gru_step(
    gates_input_BG: Tensor, hidden_BH: Tensor, weight_GH: Tensor, bias_G: Tensor
) -> Tensor:
    """Return the next state of a GRU from the products of its inputs and the state before."""
    loop = _loop.get()
    if loop is None:
        return gru_cell(gates_input_BG, linear(hidden_BH, weight_GH, bias_G), hidden_BH)
    records, end = loop.product(weight_GH, bias_G, transposed=True)
    state_BH: Tensor = _GRUStep.apply(  # type: ignore[no-untyped-call]
        gates_input_BG, hidden_BH, end, records
    )
    return state_BH


def for_gates(products: Tensor, state: Tensor) -> Tensor:
    """Return the products of inputs, on a GPU in the dtype of its cell, cast for all steps."""
    return products.to(state.dtype) if products.is_cuda else products


class _GRUStep(torch.autograd.Function):
    """The product with the state, and the gates: one function for autograd at each step."""

    @staticmethod
    def forward(
        ctx: Any, gates_input_BG: Tensor, hidden_BH: Tensor, end: Tensor, records: _Records
    ) -> Tensor:
        assert records.bias_O is not None
        narrow_BH = hidden_BH.to(records.matrix_YOI.dtype)
        gates_hidden_BG = torch.addmm(records.bias_O, narrow_BH, records.matrix_YOI.t())
        cell = _cell_for(hidden_BH)
        state_BH, kept = cell.step(gates_input_BG, gates_hidden_BG, hidden_BH)
        ctx.save_for_backward(hidden_BH, kept, narrow_BH, end)
        ctx.records, ctx.cell = records, cell
        ctx.dtypes = gates_input_BG.dtype, gates_hidden_BG.dtype
        return state_BH

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden_BH, kept, narrow_BH, end = ctx.saved_tensors
        (grad_BH,) = grads
        of_input_BG, of_hidden_BG, through_BH = ctx.cell.gradients(
            grad_BH, hidden_BH, kept, ctx.dtypes
        )
        ctx.records.add(narrow_BH, of_hidden_BG)
        through_BH += of_hidden_BG @ ctx.records.matrix_YOI
        return of_input_BG, through_BH, end, None


class _Cell(torch.autograd.Function):
    """The gates of one step: a few kernels forward and a few backward; on a GPU, one each."""

    @staticmethod
    def forward(
        ctx: Any, gates_input_BG: Tensor, gates_hidden_BG: Tensor, hidden_BH: Tensor
    ) -> Tensor:
        cell = _cell_for(hidden_BH)
        state_BH, kept = cell.step(gates_input_BG, gates_hidden_BG, hidden_BH)
        ctx.save_for_backward(hidden_BH, kept)
        ctx.cell, ctx.dtypes = cell, (gates_input_BG.dtype, gates_hidden_BG.dtype)
        return state_BH

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        (grad_BH,) = grads
        gradients: tuple[Tensor, ...] = ctx.cell.gradients(grad_BH, *ctx.saved_tensors, ctx.dtypes)
        return gradients


def _cell_for(hidden_BH: Tensor) -> type[FusedCell | SeparateCell]:
    fused = hidden_BH.is_cuda and FusedCell.aten_step and FusedCell.aten_gradients
    return FusedCell if fused else SeparateCell


class FusedCell:
    """ATen's fused kernel of torch.nn.GRUCell on a GPU; all its inputs have one dtype.

    torch has no public names for it and its gradient; without them, a GPU uses SeparateCell.
    """

    aten_step: Any = getattr(aten, "_thnn_fused_gru_cell", None)
    aten_gradients: Any = getattr(aten, "_thnn_fused_gru_cell_backward", None)

    @staticmethod
    def step(
        gates_input_BG: Tensor, gates_hidden_BG: Tensor, hidden_BH: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the next state, and the values that the gradient needs."""
        dtype = hidden_BH.dtype
        with torch.autocast(hidden_BH.device.type, enabled=False):  # it would narrow the state
            state_BH, kept = FusedCell.aten_step(
                gates_input_BG.to(dtype), gates_hidden_BG.to(dtype), hidden_BH
            )
        return state_BH, kept

    @staticmethod
    def gradients(
        grad_BH: Tensor, previous_BH: Tensor, kept: Tensor, dtypes: Sequence[torch.dtype]
    ) -> tuple[Tensor, ...]:
        """Return the gradients of both products, in these dtypes, and of the previous state."""
        found = FusedCell.aten_gradients(grad_BH.contiguous(), kept, False)
        return found[0].to(dtypes[0]), found[1].to(dtypes[1]), found[2]


class SeparateCell:
    """A few kernels that overwrite their inputs."""

    @staticmethod
    def step(
        gates_input_BG: Tensor, gates_hidden_BG: Tensor, hidden_BH: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the next state; and r, z, n and the hidden product of n for the gradient."""
        batch, size = hidden_BH.shape
        kept_B4H = hidden_BH.new_empty(batch, 4 * size)
        reset_update = kept_B4H[:, : 2 * size]
        torch.add(gates_input_BG[:, : 2 * size], gates_hidden_BG[:, : 2 * size], out=reset_update)
        reset_update.sigmoid_()
        reset_BH, update_BH, new_BH, hidden_new_BH = kept_B4H.chunk(4, -1)
        hidden_new_BH.copy_(gates_hidden_BG[:, 2 * size :])
        new_BH.copy_(gates_input_BG[:, 2 * size :]).addcmul_(reset_BH, hidden_new_BH)
        tanh_(new_BH)
        return torch.lerp(new_BH, hidden_BH, update_BH), kept_B4H

    @staticmethod
    def gradients(
        grad_BH: Tensor, previous_BH: Tensor, kept_B4H: Tensor, dtypes: Sequence[torch.dtype]
    ) -> tuple[Tensor, ...]:
        """Return the gradients of both products, in these dtypes, and of the previous state."""
        batch, size = grad_BH.shape
        of_input_BG, of_hidden_BG = (grad_BH.new_empty(batch, 3 * size, dtype=d) for d in dtypes)
        reset_BH, update_BH, new_BH, hidden_new_BH = kept_B4H.chunk(4, -1)
        through_BH = grad_BH * update_BH
        grad_new_BH = aten.tanh_backward(grad_BH - through_BH, new_BH)
        of_update_BH = aten.sigmoid_backward((previous_BH - new_BH).mul_(grad_BH), update_BH)
        of_reset_BH = aten.sigmoid_backward(grad_new_BH * hidden_new_BH, reset_BH)
        torch.cat([of_reset_BH, of_update_BH, grad_new_BH], -1, out=of_input_BG)
        of_hidden_BG[:, : 2 * size].copy_(of_input_BG[:, : 2 * size])
        torch.mul(grad_new_BH, reset_BH, out=of_hidden_BG[:, 2 * size :])
        return of_input_BG, of_hidden_BG, through_BH


def tanh_(values: Tensor) -> Tensor:
    """Return tanh, in place."""
    if values.device.type != "cpu" or values.dtype == torch.bfloat16:
        return values.tanh_()
    # tanh(x) = 2 sigmoid(2x) - 1: the sigmoid kernel is several times faster on many CPUs.
    return values.mul_(2).sigmoid_().mul_(2).sub_(1)


def for_tanh(vectors: Tensor) -> Tensor:
    """Return the vectors, on CPUs in fp32: tanh of bf16 takes several times as long there."""
    slow = vectors.dtype == torch.bfloat16 and vectors.device.type == "cpu"
    return vectors.float() if slow else vectors


def tanh_energies(query_BKA: Tensor, keys_BSA: Tensor, energy_A: Tensor) -> Tensor:
    """Return v'tanh(q + k) of each query with each key [B, K, S]; keys come from `for_tanh`."""
    sums_BKSA = for_tanh(query_BKA).unsqueeze(2) + keys_BSA.unsqueeze(1)
    hidden_BKSA: Tensor = _Tanh.apply(sums_BKSA)  # type: ignore[no-untyped-call]
    rows = hidden_BKSA.flatten(0, -2)
    return torch.mv(rows, energy_A.to(rows.dtype)).view(hidden_BKSA.shape[:-1])


class _Tanh(torch.autograd.Function):
    """tanh in place; nothing else reads its inputs."""

    @staticmethod
    def forward(ctx: Any, sums: Tensor) -> Tensor:
        result = tanh_(sums)
        ctx.mark_dirty(sums)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        gradient: Tensor = aten.tanh_backward(grads[0], result)
        return gradient


def maxout(deep: Tensor) -> Tensor:
    """Return the maxima of pairs of neighbours (Goodfellow et al. 2013): [..., 2 O] to [..., O].

    The gradient of torch.amax is slow.
    """
    larger: Tensor = _Maxout.apply(deep)  # type: ignore[no-untyped-call]
    return larger


class _Maxout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, deep: Tensor) -> Tensor:
        evens, odds = deep[..., ::2], deep[..., 1::2]
        ctx.save_for_backward(evens >= odds)
        return torch.maximum(evens, odds)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (is_even,) = ctx.saved_tensors
        (grad,) = grads
        of_evens = grad * is_even
        return torch.stack([of_evens, grad - of_evens], -1).flatten(-2)


def dropout_mask(shape: Sequence[int], rate: float, *, like: Tensor) -> Tensor:
    """Return a random mask: 0 with probability `rate`, otherwise 1 / (1 - rate)."""
    if like.device.type != "cpu":
        return like.new_empty(shape).bernoulli_(1 - rate).div_(1 - rate)
    # bernoulli_ takes four times as long on CPUs as four comparisons of 16 of 64 random bits.
    count = math.prod(shape)
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    kept = bits.view(torch.int16)[:count].view(*shape) >= round(rate * 2**16) - 2**15
    return kept.to(like.dtype).div_(1 - rate)


SLICE_ROWS = 512  # rows whose logits are in memory at a time
_GPU_SLICE = 2**25  # logits at a time on a GPU: few slices, of 128 MB in fp32
EVEN_ROWS = 64  # the last slice is filled up to a multiple, so that few shapes of products occur


def projection_loss(
    readout_NO: Tensor,
    weight_VO: Tensor,
    bias_V: Tensor,
    labels_N: Tensor,
    *,
    label_smoothing: float = 0.0,
    counted_N: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the sums over N of the smoothed loss and of the plain one (no gradient), in nats.

    With eps = label_smoothing, loss = (1 - eps) * -log p(label) + eps * mean over V of -log p
    (Szegedy et al. 2016, eq. 7). `counted_N` is false for rows to leave out.

    Logits and their gradient are computed in slices of rows, in one pass, and not kept: N x V
    values would be most of a training step's memory and would not fit the cache.
    """
    loss: tuple[Tensor, Tensor] = _ProjectionLoss.apply(  # type: ignore[no-untyped-call]
        readout_NO,
        weight_VO,
        bias_V,
        labels_N,
        label_smoothing,
        counted_N,
        torch.is_grad_enabled(),
    )
    return loss


class _ProjectionLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        readout_NO: Tensor,
        weight_VO: Tensor,
        bias_V: Tensor,
        labels_N: Tensor,
        smoothing: float,
        counted_N: Tensor | None,
        needs_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        dtype = readout_NO.dtype
        weight, bias = weight_VO.to(dtype), bias_V.to(dtype)
        wide = bias_V.dtype
        totals = torch.zeros(2, dtype=torch.float64, device=bias_V.device)
        count, size = len(labels_N), SLICE_ROWS
        if bias_V.is_cuda:
            size = max(SLICE_ROWS, _GPU_SLICE // len(bias_V) // EVEN_ROWS * EVEN_ROWS)
        readout_NO = nn.functional.pad(readout_NO, (0, 0, 0, -count % EVEN_ROWS))
        if needs_grad:
            grad_readout = torch.empty_like(readout_NO)
            grad_weight = torch.zeros_like(weight_VO)
            grad_bias = torch.zeros_like(bias_V)
        for start in range(0, count, size):
            rows = slice(start, start + size)
            all_NV = torch.addmm(bias, readout_NO[rows], weight.t()).to(wide)
            labels_N1 = labels_N[rows].unsqueeze(1)
            logits_NV = all_NV[: len(labels_N1)]
            plain_N1, uniform_N1 = _softmax_(logits_NV, labels_N1)
            if counted_N is not None:
                counted_N1 = counted_N[rows].unsqueeze(1).to(wide)
                plain_N1, uniform_N1 = plain_N1 * counted_N1, uniform_N1 * counted_N1
            plain = plain_N1.sum()
            totals[0] += (1 - smoothing) * plain + smoothing * uniform_N1.sum()
            totals[1] += plain
            if not needs_grad:
                continue
            logits_NV -= smoothing / len(bias_V)
            logits_NV.scatter_add_(1, labels_N1, logits_NV.new_full(labels_N1.shape, smoothing - 1))
            if counted_N is not None:
                logits_NV *= counted_N1
            all_NV[len(labels_N1) :] = 0
            grad_logits = all_NV.to(dtype)
            torch.mm(grad_logits, weight, out=grad_readout[rows])
            grad_weight += grad_logits.t() @ readout_NO[rows]
            grad_bias += logits_NV.sum(0)
        if needs_grad:
            ctx.save_for_backward(grad_readout[:count], grad_weight, grad_bias)
        plain_total = totals[1].to(wide)
        ctx.mark_non_differentiable(plain_total)
        return totals[0].to(wide), plain_total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_readout, grad_weight, grad_bias = ctx.saved_tensors
        scale = grads[0]
        scaled_readout = grad_readout * scale.to(grad_readout.dtype)
        return scaled_readout, grad_weight * scale, grad_bias * scale, None, None, None, None


def _softmax_(logits_NV: Tensor, labels_N1: Tensor) -> tuple[Tensor, Tensor]:
    """Turn logits into probabilities in place; return -log p(label) and the mean -log p [N, 1]."""
    logits_NV -= logits_NV.amax(1, keepdim=True)
    label_N1 = logits_NV.gather(1, labels_N1)
    mean_N1 = logits_NV.mean(1, keepdim=True)
    total_N1 = logits_NV.exp_().sum(1, keepdim=True)
    logits_NV /= total_N1
    log_N1 = total_N1.log()
    return log_N1 - label_N1, log_N1 - mean_N1
