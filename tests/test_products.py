"""Products with one matrix at every step of a loop, whose gradient is taken after it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from seq2seq.model.kernels import (
    inner_products,
    linear,
    matrix_gradients_at_once,
    product_dtype,
    weighted_sums,
)
from seq2seq.model.layers import Linear

INPUT, OUTPUT, ROWS, STEPS = 5, 3, 4, 6

either_bias = pytest.mark.parametrize("bias", [False, True], ids=["plain", "biased"])


def random_layer(*, bias: bool, dtype: torch.dtype = torch.float64) -> Linear:
    torch.manual_seed(0)
    return Linear(INPUT, OUTPUT, bias=bias).to(dtype)


def random_steps(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(STEPS, *shape, INPUT, dtype=torch.float64).to(dtype).requires_grad_()


def outputs(layer: nn.Linear, steps: Tensor) -> Tensor:
    return torch.stack([torch.tanh(layer(inputs)) for inputs in steps])


def gradients(layer: nn.Linear, steps: Tensor, found: Tensor) -> tuple[Tensor, ...]:
    weighted = (found * torch.linspace(-1, 1, found.numel()).view(found.shape)).sum()
    return torch.autograd.grad(weighted, [steps, *layer.parameters()], retain_graph=True)


@either_bias
@pytest.mark.parametrize("shape", [(ROWS,), (ROWS, 2)], ids=["rows", "rows of rows"])
def test_gradients_match_autograd(shape: tuple[int, ...], bias: bool) -> None:
    layer, steps = random_layer(bias=bias), random_steps(*shape)
    expected = outputs(layer, steps)
    with matrix_gradients_at_once():
        found = outputs(layer, steps)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-15)
    for mine, other in zip(
        gradients(layer, steps, found), gradients(layer, steps, expected), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-13, atol=1e-13)


class CountProducts(TorchDispatchMode):
    """Counts the products whose result has one of these shapes."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.shapes, self.count = shapes, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # fmt: skip
        result = func(*args, **(kwargs or {}))
        is_product = func in (torch.ops.aten.mm.default, torch.ops.aten.bmm.default)
        self.count += is_product and result.shape in self.shapes
        return result


def test_weight_gradient_is_one_product() -> None:
    layer, steps = random_layer(bias=False), random_steps(ROWS)
    with matrix_gradients_at_once():
        found = outputs(layer, steps)
    with CountProducts((OUTPUT, INPUT)) as products:
        gradients(layer, steps, found)
    assert products.count == 1


@pytest.mark.parametrize("same", [False, True], ids=["two matrices", "one matrix"])
def test_gradients_of_keys_and_values_match_autograd(same: bool) -> None:
    steps = random_steps(2, ROWS)
    keys, values = torch.randn(2, 2, 7, INPUT, dtype=torch.float64).requires_grad_().unbind()
    values = keys if same else values

    def attended() -> Tensor:
        return torch.stack(
            [weighted_sums(inner_products(q, keys).softmax(-1), values) for q in steps]
        )

    def gradients(found: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad((found**3).sum(), [steps, keys, values], retain_graph=True)

    expected = attended()
    with matrix_gradients_at_once():
        found = attended()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-15)
    with CountProducts((2, 7, INPUT), (2, INPUT, 7)) as products:
        mine = gradients(found)
    assert products.count == 2
    for one, other in zip(mine, gradients(expected), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-13)


def test_gradients_without_the_private_name_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_current_graph_task_id")
    layer, steps = random_layer(bias=True), random_steps(ROWS)
    expected = outputs(layer, steps)
    with matrix_gradients_at_once():
        found = outputs(layer, steps)
    for mine, other in zip(
        gradients(layer, steps, found), gradients(layer, steps, expected), strict=True
    ):
        assert torch.equal(mine, other)


def test_gradient_matches_numerical_gradient() -> None:
    def run(inputs: Tensor, weight: nn.Parameter, bias: nn.Parameter) -> Tensor:
        with matrix_gradients_at_once():
            for _ in range(3):  # the output feeds the next step, as a state does
                inputs = torch.tanh(linear(inputs, weight, bias))
        return inputs

    torch.manual_seed(0)
    shapes = ((ROWS, INPUT), (INPUT, INPUT), (INPUT,))
    values = tuple(torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes)
    assert torch.autograd.gradcheck(run, values)


@either_bias
def test_each_backward_pass_has_the_whole_gradient(bias: bool) -> None:
    layer, steps = random_layer(bias=bias), random_steps(ROWS)
    with matrix_gradients_at_once():
        found = outputs(layer, steps)
    for one, two in zip(*(gradients(layer, steps, found) for _ in range(2)), strict=True):
        assert torch.equal(one, two)


def test_only_some_steps_can_matter() -> None:
    layer, steps = random_layer(bias=True), random_steps(ROWS)
    with matrix_gradients_at_once():
        found = outputs(layer, steps)
    expected = outputs(layer, steps)
    for mine, other in zip(
        gradients(layer, steps, found[1:3]), gradients(layer, steps, expected[1:3]), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-13, atol=1e-13)


def test_weights_serve_in_several_loops_and_outside_of_them() -> None:
    layer, steps = random_layer(bias=True), random_steps(ROWS)
    found = outputs(layer, steps)
    for _ in range(2):
        with matrix_gradients_at_once():
            found = found + outputs(layer, steps)
    expected = 3 * outputs(layer, steps)
    for mine, other in zip(
        gradients(layer, steps, found), gradients(layer, steps, expected), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-13, atol=1e-13)


def test_each_weight_of_a_loop_has_its_own_gradient() -> None:
    one, other = random_layer(bias=True), random_layer(bias=True)
    steps = random_steps(ROWS)
    with matrix_gradients_at_once():
        found = torch.stack([one(inputs) * other(-inputs) for inputs in steps])
    expected = torch.stack([one(inputs) * other(-inputs) for inputs in steps])
    for layer in (one, other):
        for mine, theirs in zip(
            gradients(layer, steps, found), gradients(layer, steps, expected), strict=True
        ):
            torch.testing.assert_close(mine, theirs, rtol=1e-13, atol=1e-13)


def test_no_gradient_is_kept_where_none_is_wanted() -> None:
    layer, steps = random_layer(bias=True), random_steps(ROWS)
    with torch.no_grad(), matrix_gradients_at_once():
        assert not outputs(layer, steps).requires_grad


def test_frozen_weights_get_no_gradient() -> None:
    layer, steps = random_layer(bias=True).requires_grad_(False), random_steps(ROWS)
    with matrix_gradients_at_once():
        found = outputs(layer, steps)
    (mine,) = torch.autograd.grad(found.sum(), steps)
    (expected,) = torch.autograd.grad(outputs(layer, steps).sum(), steps)
    torch.testing.assert_close(mine, expected, rtol=1e-13, atol=1e-13)


def test_autocast_computes_in_bf16_with_gradients_of_full_precision() -> None:
    layer, steps = random_layer(bias=True, dtype=torch.float32), random_steps(ROWS)
    wanted = gradients(layer, steps, outputs(layer, steps.float()))
    with torch.autocast("cpu", torch.bfloat16), matrix_gradients_at_once():
        assert product_dtype(layer.weight) == torch.bfloat16
        found = layer(steps[0].float())
        assert found.dtype == torch.bfloat16
        found = outputs(layer, steps.float())
    for mine, expected in zip(gradients(layer, steps, found), wanted, strict=True):
        assert mine.dtype == expected.dtype
        torch.testing.assert_close(mine, expected, rtol=0.05, atol=0.05)
