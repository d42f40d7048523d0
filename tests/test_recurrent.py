"""The GRU against torch.nn.GRU, the NumPy formulas, and its own step-by-step version.

Legend: T time, B batch, I input size, H hidden size, G = 3H gates.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import plain_kernels
import pytest
import torch
from oracle import layers
from oracle.cases import tiny_config
from torch import Tensor
from torch.func import functional_call

from seq2seq.model.layers import GRU
from seq2seq.model.translation_model import TranslationModel

INPUT, HIDDEN, TIME = 4, 3, 5
LENGTHS = (5, 3, 1)

either_direction = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
either_mask = pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])


def random_gru(*, layer_norm: bool = False, dtype: torch.dtype = torch.float64) -> GRU:
    torch.manual_seed(0)
    layer = GRU(INPUT, HIDDEN, layer_norm=layer_norm).to(dtype)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=0.6)
    return layer


def random_inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Return inputs [T, B, I] and first states [B, H]."""
    torch.manual_seed(1)
    inputs_TBI = torch.randn(TIME, len(LENGTHS), INPUT, dtype=torch.float64)
    return inputs_TBI.to(dtype), torch.randn(len(LENGTHS), HIDDEN, dtype=torch.float64).to(dtype)


def right_padded(masked: bool) -> Tensor | None:
    return torch.arange(TIME)[:, None] < torch.tensor(LENGTHS) if masked else None


def twin(layer: GRU, gates: Tensor, hidden: Tensor, mask: Tensor | None, reverse: bool) -> Tensor:
    """Return the states by the formulas, step by step, with gradients by autograd."""
    steps = range(len(gates))
    states = [hidden] * len(steps)
    for t in reversed(steps) if reverse else steps:
        states[t] = plain_step(layer, gates[t], hidden)
        if mask is not None:
            states[t] = torch.where(mask[t].unsqueeze(-1), states[t], hidden)
        hidden = states[t]
    return torch.stack(states)


def plain_step(layer: GRU, gates_BG: Tensor, hidden_BH: Tensor) -> Tensor:
    """Return the next state by the formulas, with gradients by autograd."""
    product = torch.nn.functional.linear(hidden_BH, layer.weight_hidden, layer.bias_hidden)
    if layer.norm_input is not None and layer.norm_hidden is not None:
        gates_BG, product = layer.norm_input(gates_BG), layer.norm_hidden(product)
    return plain_kernels.gru_cell(gates_BG, product, hidden_BH)


def states_and_gradients(
    layer: GRU, run: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    """Return the states of a run and the gradients of inputs, first states and parameters."""
    inputs, hidden = (tensor.requires_grad_() for tensor in random_inputs(dtype))
    states = run(layer.project(inputs), hidden)
    torch.manual_seed(2)
    direction = torch.randn(states.shape, dtype=torch.float64).to(states.dtype)
    wanted = [inputs, hidden, *layer.parameters()]
    return [states, *torch.autograd.grad((states * direction).sum(), wanted)]


@either_direction
@pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "normalized"])
@torch.no_grad()
def test_states_match_formulas(layer_norm: bool, reverse: bool) -> None:
    layer, (inputs, hidden) = random_gru(layer_norm=layer_norm), random_inputs()
    states = layer(layer.project(inputs), hidden, reverse=reverse)
    weights = {name: p.numpy() for name, p in layer.named_parameters()}
    order = slice(None, None, -1 if reverse else 1)
    for row in range(len(LENGTHS)):
        vectors = list(inputs[:, row].numpy())[order]
        expected = layers.gru(weights, vectors, hidden[row].numpy(), layer_norm=layer_norm)
        np.testing.assert_allclose(states[:, row], expected[order], rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_states_and_gradients_match_torch(dtype: torch.dtype) -> None:
    layer = random_gru(dtype=dtype)
    theirs = torch.nn.GRU(INPUT, HIDDEN).to(dtype)
    with torch.no_grad():
        for parameter, other in zip(layer.parameters(), theirs.parameters(), strict=True):
            other.copy_(parameter)
    found = states_and_gradients(layer, layer, dtype)
    inputs, hidden = (tensor.requires_grad_() for tensor in random_inputs(dtype))
    states, _ = theirs(inputs, hidden.unsqueeze(0))
    torch.manual_seed(2)
    direction = torch.randn(states.shape, dtype=torch.float64).to(dtype)
    wanted = [inputs, hidden, *theirs.parameters()]
    expected = [states, *torch.autograd.grad((states * direction).sum(), wanted)]
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    for mine, theirs_too in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs_too, rtol=tolerance, atol=tolerance)


@either_direction
@either_mask
def test_gradient_matches_numerical_gradient(masked: bool, reverse: bool) -> None:
    layer, (inputs, hidden) = random_gru(), random_inputs()
    mask = right_padded(masked)

    def sequence(gates: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        weights = {"weight_hidden": weight, "bias_hidden": bias}
        result: Tensor = functional_call(
            layer, weights, (gates, hidden, mask), {"reverse": reverse}
        )
        return result

    variables = [layer.project(inputs), hidden, layer.weight_hidden, layer.bias_hidden]
    assert torch.autograd.gradcheck(
        sequence, tuple(v.detach().clone().requires_grad_() for v in variables)
    )


@either_direction
@either_mask
@pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "normalized"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gradient_matches_autograd(
    dtype: torch.dtype, layer_norm: bool, masked: bool, reverse: bool
) -> None:
    layer, mask = random_gru(dtype=dtype, layer_norm=layer_norm), right_padded(masked)
    found = states_and_gradients(layer, lambda g, h: layer(g, h, mask, reverse=reverse), dtype)
    expected = states_and_gradients(layer, lambda g, h: twin(layer, g, h, mask, reverse), dtype)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


def test_bf16_is_close_to_full_precision() -> None:
    layer, mask = random_gru(dtype=torch.float32), right_padded(True)
    expected = states_and_gradients(layer, lambda g, h: layer(g, h, mask), torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = states_and_gradients(layer, lambda g, h: layer(g, h, mask), torch.float32)
    assert found[0].dtype == torch.float32
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=0.05, atol=0.05)


def test_step_equals_sequence_of_length_one() -> None:
    layer, (inputs, hidden) = random_gru(), random_inputs()
    gates = layer.project(inputs[:1])
    torch.testing.assert_close(layer(gates, hidden)[0], layer.step(gates[0], hidden))


@either_direction
@pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "normalized"])
def test_masked_positions_keep_the_state_and_affect_no_others(
    layer_norm: bool, reverse: bool
) -> None:
    layer, (inputs, _) = random_gru(layer_norm=layer_norm), random_inputs()
    mask, zeros = right_padded(True), torch.zeros(len(LENGTHS), HIDDEN).double()
    assert mask is not None
    inputs.requires_grad_()
    states = layer(layer.project(inputs), zeros, mask, reverse=reverse)
    (gradient,) = torch.autograd.grad((states * mask.unsqueeze(-1)).square().sum(), inputs)
    for row, length in enumerate(LENGTHS):
        alone = layer(layer.project(inputs[:length, row : row + 1]), zeros[:1], reverse=reverse)
        torch.testing.assert_close(states[:length, row], alone[:, 0])
        kept = zeros[0] if reverse else states[length - 1, row]
        assert (states[length:, row] == kept).all()
        assert not gradient[length:, row].any()
        assert gradient[:length, row].abs().amax(-1).min() > 0


def test_forward_and_backward_do_not_modify_arguments() -> None:
    layer, (inputs, hidden) = random_gru(), random_inputs()
    gates = layer.project(inputs).detach().requires_grad_()
    kept = [gates.detach().clone(), hidden.clone()]
    states = layer(gates, hidden, right_padded(True))
    first = states.detach().clone()
    gradient = torch.ones_like(states)
    one, two = (torch.autograd.grad(states, gates, gradient, retain_graph=True) for _ in range(2))
    assert torch.equal(one[0], two[0])
    assert torch.equal(states, first)
    assert torch.equal(gradient, torch.ones_like(states))
    assert torch.equal(gates, kept[0])
    assert torch.equal(hidden, kept[1])


def test_huge_inputs_saturate_without_nan() -> None:
    layer, (inputs, hidden) = random_gru(dtype=torch.float32), random_inputs(torch.float32)
    inputs = (inputs * 1e4).requires_grad_()
    states = layer(layer.project(inputs), hidden)
    assert states.isfinite().all()
    assert states.abs().max() <= max(1.0, float(hidden.abs().max()))
    for gradient in torch.autograd.grad(states.sum(), [inputs, *layer.parameters()]):
        assert gradient.isfinite().all()


def test_layer_norm_at_zero_state_keeps_gradient_bounded() -> None:
    """Biases start at zero; before the norm, they would make it divide by sqrt(eps)."""
    torch.manual_seed(0)
    model = TranslationModel(tiny_config(layer_norm=True, init="scaled"), 11, 9)
    layer, inputs = model.encoder.forwards[0], torch.randn(TIME, len(LENGTHS), INPUT)
    states = layer(layer.project(inputs), torch.zeros(len(LENGTHS), HIDDEN))
    gradients = torch.autograd.grad(states.sum(), list(layer.parameters()))
    names = [name for name, _ in layer.named_parameters()]
    norms = {name: float(g.norm()) for name, g in zip(names, gradients, strict=True)}
    for name, norm in norms.items():
        assert norm < 10 * norms["norm_hidden.bias"], name
