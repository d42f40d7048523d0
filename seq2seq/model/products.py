"""Products with weights at every step of a loop, whose weight gradients are taken after it.

Autograd forms the gradient of the weights at each step, as large as the weights, and adds them up:
memory traffic that costs more than a step's own products. Within `weight_gradients_at_once`, the
backward pass of a step only notes its inputs and the gradients of its outputs; one product of all
of them follows when the last step's is done.

Legend: N rows, I inputs, O outputs; T steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


@dataclass
class _Noted:
    """What the steps of one backward pass leave for the gradient of one product's weights."""

    weight_OI: Tensor
    bias_O: Tensor | None
    backward_pass: int = -1
    inputs_TNI: list[Tensor] = field(default_factory=list)
    grads_TNO: list[Tensor] = field(default_factory=list)

    def note(self, inputs_NI: Tensor, grad_NO: Tensor) -> None:
        """Keep this for the end of the backward pass; forget what an earlier one left.

        One that does not want the weights' gradient does not come to its end.
        """
        current = torch._C._current_graph_task_id()
        if self.backward_pass != current:
            self.backward_pass = current
            self.inputs_TNI, self.grads_TNO = [], []
        self.inputs_TNI.append(inputs_NI)
        self.grads_TNO.append(grad_NO)


class _Loop:
    """The products of one loop, by the identity of their weights, which are kept alive for it."""

    def __init__(self) -> None:
        self.products: dict[int, tuple[Tensor, _Noted, Tensor]] = {}

    def linear(self, inputs: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
        if id(weight_OI) not in self.products:
            dtype = product_dtype(weight_OI)
            bias = None if bias_O is None else bias_O.detach().to(dtype)
            noted = _Noted(weight_OI.detach().to(dtype), bias)
            end = _End.apply(weight_OI, bias_O, noted)  # type: ignore[no-untyped-call]
            self.products[id(weight_OI)] = weight_OI, noted, end
        _, noted, end = self.products[id(weight_OI)]
        rows_NI = inputs.flatten(0, -2).to(noted.weight_OI.dtype)
        outputs_NO: Tensor = _Step.apply(rows_NI, end, noted)  # type: ignore[no-untyped-call]
        return outputs_NO.view(*inputs.shape[:-1], -1)


def product_dtype(tensor: Tensor) -> torch.dtype:
    """Return the dtype in which products of this tensor are taken: autocast's, or its own."""
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype


_loop: ContextVar[_Loop | None] = ContextVar("loop", default=None)


@contextmanager
def weight_gradients_at_once() -> Iterator[None]:
    """Take the weight gradients of the `linear` products within as one product for each weight."""
    token = _loop.set(_Loop() if torch.is_grad_enabled() else None)
    try:
        yield
    finally:
        _loop.reset(token)


def linear(inputs: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Return x W' + b for the last axis of the inputs, as torch.nn.functional.linear does."""
    loop = _loop.get()
    if loop is None:
        return nn.functional.linear(inputs, weight_OI, bias_O)
    return loop.linear(inputs, weight_OI, bias_O)


class Linear(nn.Linear):
    """torch.nn.Linear for products within a loop."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return x W' + b."""
        return linear(inputs, self.weight, self.bias)


class _Step(torch.autograd.Function):
    """One product. `end`, which is empty, lets the weights' gradient wait for every step."""

    @staticmethod
    def forward(ctx: Any, inputs_NI: Tensor, end: Tensor, noted: _Noted) -> Tensor:
        ctx.save_for_backward(inputs_NI, end)
        ctx.noted = noted
        if noted.bias_O is None:
            return inputs_NI @ noted.weight_OI.t()
        return torch.addmm(noted.bias_O, inputs_NI, noted.weight_OI.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs_NI, end = ctx.saved_tensors
        (grad_NO,) = grads
        ctx.noted.note(inputs_NI, grad_NO)
        return grad_NO @ ctx.noted.weight_OI, end, None


class _End(torch.autograd.Function):
    """The weights as the steps see them; its backward pass runs after those of all steps."""

    @staticmethod
    def forward(ctx: Any, weight_OI: Tensor, bias_O: Tensor | None, noted: _Noted) -> Tensor:
        ctx.noted = noted
        ctx.dtypes = weight_OI.dtype, None if bias_O is None else bias_O.dtype
        return noted.weight_OI.new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        noted: _Noted = ctx.noted
        weight_dtype, bias_dtype = ctx.dtypes
        grads_MO, inputs_MI = torch.cat(noted.grads_TNO), torch.cat(noted.inputs_TNI)
        noted.grads_TNO, noted.inputs_TNI = [], []  # frees memory
        grad_weight_OI = (grads_MO.t() @ inputs_MI).to(weight_dtype)
        biased = bias_dtype is not None
        return grad_weight_OI, grads_MO.sum(0, dtype=bias_dtype) if biased else None, None
