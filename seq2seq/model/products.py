"""Products with the same matrix at every step of a loop, whose gradient is taken after it.

Autograd forms the gradient of the matrix at each step, as large as the matrix, and adds them up:
memory traffic that costs more than a step's own products. Within `matrix_gradients_at_once`, the
backward pass of a step only notes its inputs and the gradients of its outputs; one product of all
of them follows when the last step's is done. The matrices are weights, or what a step reads of its
sentences: keys and values, one matrix for each.

Legend: N rows, I inputs, O outputs; T steps; B batch; Y anything before the last two axes: nothing
for weights, B for matrices of sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


@dataclass
class _Noted:
    """What the steps of one backward pass leave for the gradient of one product's matrix."""

    matrix_YOI: Tensor
    bias_O: Tensor | None
    current_pass: Callable[[], int]  # the number of the backward pass that is running
    backward_pass: int = -1
    inputs_TYNI: list[Tensor] = field(default_factory=list)
    grads_TYNO: list[Tensor] = field(default_factory=list)

    def note(self, inputs_YNI: Tensor, grad_YNO: Tensor) -> None:
        """Keep this for the end of the backward pass; forget what an earlier one left.

        One that does not want the matrix's gradient does not come to its end.
        """
        current = self.current_pass()
        if self.backward_pass != current:
            self.backward_pass = current
            self.inputs_TYNI, self.grads_TYNO = [], []
        self.inputs_TYNI.append(inputs_YNI)
        self.grads_TYNO.append(grad_YNO)


class _Loop:
    """The products of one loop, by the identity of their matrices, which are kept alive for it.

    One matrix can be that of two products: the values of dot products are their keys.
    """

    def __init__(self, current_pass: Callable[[], int]) -> None:
        self.current_pass = current_pass
        self.products: dict[tuple[int, bool], tuple[Tensor, _Noted, Tensor]] = {}

    def multiply(
        self, inputs_YNI: Tensor, matrix: Tensor, bias_O: Tensor | None, *, transposed: bool
    ) -> Tensor:
        """Return inputs times the matrix [Y, I, O], or the `transposed` matrix [Y, O, I]."""
        key = id(matrix), transposed
        if key not in self.products:
            dtype = product_dtype(matrix)
            matrix_YOI = matrix if transposed else matrix.mT
            bias = None if bias_O is None else bias_O.detach().to(dtype)
            noted = _Noted(matrix_YOI.detach().to(dtype), bias, self.current_pass)
            end = _End.apply(matrix_YOI, bias_O, noted)  # type: ignore[no-untyped-call]
            self.products[key] = matrix, noted, end
        _, noted, end = self.products[key]
        narrow_YNI = inputs_YNI.to(noted.matrix_YOI.dtype)
        outputs_YNO: Tensor = _Step.apply(narrow_YNI, end, noted)  # type: ignore[no-untyped-call]
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
    def forward(ctx: Any, inputs_YNI: Tensor, end: Tensor, noted: _Noted) -> Tensor:
        ctx.save_for_backward(inputs_YNI, end)
        ctx.noted = noted
        if noted.bias_O is None:
            return inputs_YNI @ noted.matrix_YOI.mT
        return torch.addmm(noted.bias_O, inputs_YNI, noted.matrix_YOI.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs_YNI, end = ctx.saved_tensors
        (grad_YNO,) = grads
        ctx.noted.note(inputs_YNI, grad_YNO)
        return grad_YNO @ ctx.noted.matrix_YOI, end, None


class _End(torch.autograd.Function):
    """The matrix as the steps see it; its backward pass runs after those of all steps."""

    @staticmethod
    def forward(ctx: Any, matrix_YOI: Tensor, bias_O: Tensor | None, noted: _Noted) -> Tensor:
        ctx.noted = noted
        ctx.dtypes = matrix_YOI.dtype, None if bias_O is None else bias_O.dtype
        return noted.matrix_YOI.new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        noted: _Noted = ctx.noted
        matrix_dtype, bias_dtype = ctx.dtypes
        grads_YNO, inputs_YNI = torch.cat(noted.grads_TYNO, -2), torch.cat(noted.inputs_TYNI, -2)
        noted.grads_TYNO, noted.inputs_TYNI = [], []  # frees memory
        grad_matrix_YOI = (grads_YNO.mT @ inputs_YNI).to(matrix_dtype)
        # Rounded as the matrix's, and ten times as fast as sum(dtype=...).
        grad_bias_O = None if bias_dtype is None else grads_YNO.sum(0).to(bias_dtype)
        return grad_matrix_YOI, grad_bias_O, None
