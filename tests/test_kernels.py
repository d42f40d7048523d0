"""The kernels against their plain twins, and ATen's fused cell behind a stand-in on CPUs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import plain_kernels
import pytest
import torch
from oracle.cases import on_each_device
from torch import Tensor

from seq2seq.model import kernels

B, K, S, H, V = 4, 2, 5, 3, 7


def numbers(*shape: int) -> Tensor:
    """Return random numbers that need a gradient."""
    return torch.randn(*shape, dtype=torch.float64).requires_grad_()


def labels() -> Tensor:
    return torch.tensor([1, 6, 0, 3])


COUNTED = torch.tensor([True, False, True, False])
KERNELS: dict[str, tuple[str, Callable[[], list[Tensor]], dict[str, Any]]] = {
    "linear": ("linear", lambda: [numbers(B, K, H), numbers(V, H), numbers(V)], {}),
    "inner products": ("inner_products", lambda: [numbers(B, K, H), numbers(B, S, H)], {}),
    "weighted sums": ("weighted_sums", lambda: [numbers(B, K, S), numbers(B, S, H)], {}),
    "gates": ("gru_cell", lambda: [numbers(B, 3 * H), numbers(B, 3 * H), numbers(B, H)], {}),
    "step": (
        "gru_step",
        lambda: [numbers(B, 3 * H), numbers(B, H), numbers(3 * H, H), numbers(3 * H)],
        {},
    ),
    "tanh": ("tanh_energies", lambda: [numbers(B, K, H), numbers(B, S, H), numbers(H)], {}),
    "maxout": ("maxout", lambda: [numbers(B, K, 2 * H)], {}),
    "loss": (
        "projection_loss",
        lambda: [numbers(4, H), numbers(V, H), numbers(V), labels()],
        {"label_smoothing": 0.1},
    ),
    "loss of some rows": (
        "projection_loss",
        lambda: [numbers(4, H), numbers(V, H), numbers(V), labels()],
        {"label_smoothing": 0.1, "counted_N": COUNTED},
    ),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS)


def results(module: Any, kernel: str, device: str, dtype: torch.dtype) -> list[Tensor]:
    """Return what a kernel returns for random inputs, and the gradients of all of them."""
    name, inputs, options = KERNELS[kernel]
    torch.manual_seed(0)
    given = [
        value.detach().to(device, dtype).requires_grad_()
        if value.is_floating_point()
        else value.to(device)
        for value in inputs()
    ]
    there = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in options.items()}
    found = getattr(module, name)(*given, **there)
    found = found if isinstance(found, tuple) else (found,)
    directions = torch.linspace(-1, 2, found[0].numel(), dtype=dtype, device=device)
    wanted = [value for value in given if value.requires_grad]
    loss = (found[0].flatten() * directions).sum()
    return [value.cpu() for value in (*found, *torch.autograd.grad(loss, wanted))]


@on_each_device
@every_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("in_loop", [False, True], ids=["alone", "in a loop"])
def test_kernel_equals_its_plain_twin(
    kernel: str, device: str, dtype: torch.dtype, in_loop: bool
) -> None:
    expected = results(plain_kernels, kernel, "cpu", dtype)
    if in_loop:
        with kernels.matrix_gradients_at_once():
            found = results(kernels, kernel, device, dtype)
    else:
        found = results(kernels, kernel, device, dtype)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-4
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


def test_every_kernel_with_a_formula_has_a_twin() -> None:
    twins = {name for name, value in vars(plain_kernels).items() if callable(value)}
    twins &= {name for name in vars(kernels) if not name.startswith("_")} - {"Tensor"}
    assert {name for name, _, _ in KERNELS.values()} == twins


@on_each_device
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_mask_has_the_expected_share_of_zeros(rate: float, device: str) -> None:
    torch.manual_seed(0)
    mask = kernels.dropout_mask((200, 1003), rate, like=torch.zeros(1, device=device)).cpu()
    assert mask.unique().tolist() == pytest.approx([0, 1 / (1 - rate)])
    assert float((mask == 0).float().mean()) == pytest.approx(rate, abs=0.005)


def stand_in(
    given: list[torch.dtype], gates_input_BG: Tensor, gates_hidden_BG: Tensor, hidden_BH: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute what aten::_thnn_fused_gru_cell does; its workspace is r, z, n, h and h_n."""
    given += [gates_input_BG.dtype, gates_hidden_BG.dtype, hidden_BH.dtype]
    ours, theirs = gates_input_BG.chunk(3, -1), gates_hidden_BG.chunk(3, -1)
    reset, update = ((ours[n] + theirs[n]).sigmoid() for n in (0, 1))
    new = (ours[2] + reset * theirs[2]).tanh()
    kept = torch.cat([reset, update, new, hidden_BH, theirs[2]], -1)
    return new + update * (hidden_BH - new), kept


def stand_in_backward(grad: Tensor, kept: Tensor, has_bias: bool) -> tuple[Tensor | None, ...]:
    """Compute what aten::_thnn_fused_gru_cell_backward does."""
    assert not has_bias
    reset, update, new, hidden, hidden_new = kept.chunk(5, -1)
    of_update = grad * (hidden - new) * (1 - update) * update
    of_new = grad * (1 - update) * (1 - new * new)
    of_reset = of_new * hidden_new * (1 - reset) * reset
    of_input = torch.cat([of_reset, of_update, of_new], -1)
    of_hidden = torch.cat([of_reset, of_update, of_new * reset], -1)
    return of_input, of_hidden, grad * update, None, None


@pytest.fixture
def fused_cell(monkeypatch: pytest.MonkeyPatch) -> list[torch.dtype]:
    """Let the CPU use the fused cell; return the dtypes that it was given."""
    given: list[torch.dtype] = []
    monkeypatch.setattr(kernels.FusedCell, "aten_step", partial(stand_in, given))
    monkeypatch.setattr(kernels.FusedCell, "aten_gradients", stand_in_backward)
    monkeypatch.setattr(kernels, "SeparateCell", kernels.FusedCell)
    return given


def test_fused_cell_equals_its_plain_twin(fused_cell: list[torch.dtype]) -> None:
    found = results(kernels, "gates", "cpu", torch.float64)
    assert len(fused_cell) == 3
    expected = results(plain_kernels, "gates", "cpu", torch.float64)
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


def test_state_of_the_fused_cell_stays_wide_in_mixed_precision(
    fused_cell: list[torch.dtype],
) -> None:
    torch.manual_seed(0)
    hidden = torch.randn(B, H, requires_grad=True)
    gates = [torch.randn(B, 3 * H).bfloat16().requires_grad_() for _ in range(2)]
    with torch.autocast("cpu", torch.bfloat16):
        state = kernels.gru_cell(*gates, hidden)
    gradients = torch.autograd.grad(state.sum(), [*gates, hidden])
    assert set(fused_cell) == {torch.float32}
    assert [value.dtype for value in (state, *gradients)] == [
        torch.float32, torch.bfloat16, torch.bfloat16, torch.float32,
    ]  # fmt: skip
    torch.testing.assert_close(state, plain_kernels.gru_cell(*(g.float() for g in gates), hidden))


def test_signatures_of_the_fused_cell() -> None:
    """The stand-ins have the operators' arguments and results."""
    forward, backward = (
        getattr(torch.ops.aten, name).default._schema
        for name in ("_thnn_fused_gru_cell", "_thnn_fused_gru_cell_backward")
    )
    assert [argument.name for argument in forward.arguments[:3]] == [
        "input_gates", "hidden_gates", "hx",
    ]  # fmt: skip
    assert [argument.name for argument in backward.arguments] == [
        "grad_hy",
        "workspace",
        "has_bias",
    ]
    assert (len(forward.returns), len(backward.returns)) == (2, 5)
