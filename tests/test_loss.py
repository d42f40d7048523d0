"""The fused loss against torch, the formula, and numerical gradients.

Legend: N target positions, O readout size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import plain_kernels
import pytest
import torch
from torch import Tensor

from seq2seq.model.kernels import projection_loss

POSITIONS, READOUT, VOCAB = 10, 4, 7
Loss = Callable[[Tensor, Tensor, Tensor, Tensor, float], Tensor]

every_smoothing = pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
# 10 positions: one slice, even slices, a last slice of one, one by one.
every_slicing = pytest.mark.parametrize("slice_rows", [512, 10, 5, 3, 1])


@pytest.fixture
def slicing(monkeypatch: pytest.MonkeyPatch, slice_rows: int) -> None:
    monkeypatch.setattr("seq2seq.model.kernels.SLICE_ROWS", slice_rows)


def random_case(
    *, scale: float = 1.0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the readout [N, O], weight [V, O], bias [V] and labels [N]."""
    torch.manual_seed(0)
    readout = torch.randn(POSITIONS, READOUT, dtype=torch.float64) * scale
    weight = torch.randn(VOCAB, READOUT, dtype=torch.float64)
    bias = torch.randn(VOCAB, dtype=torch.float64)
    labels = torch.randint(0, VOCAB, (POSITIONS,))
    readout, weight, bias = (v.to(dtype).requires_grad_() for v in (readout, weight, bias))
    return readout, weight, bias, labels


def fused(readout: Tensor, weight: Tensor, bias: Tensor, labels: Tensor, eps: float) -> Tensor:
    return projection_loss(readout, weight, bias, labels, label_smoothing=eps)[0]


def unfused(readout: Tensor, weight: Tensor, bias: Tensor, labels: Tensor, eps: float) -> Tensor:
    """Compute the fused loss with torch's own functions."""
    return plain_kernels.projection_loss(readout, weight, bias, labels, label_smoothing=eps)[0]


def value_and_gradients(
    loss: Loss, readout: Tensor, weight: Tensor, bias: Tensor, labels: Tensor, eps: float
) -> list[Tensor]:
    value = loss(readout, weight, bias, labels, eps)
    return [value, *torch.autograd.grad(2.5 * value, [readout, weight, bias])]


@every_smoothing
@every_slicing
@pytest.mark.usefixtures("slicing")
def test_loss_and_gradients_match_torch(smoothing: float) -> None:
    found = value_and_gradients(fused, *random_case(), smoothing)
    expected = value_and_gradients(unfused, *random_case(), smoothing)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


@every_smoothing
@every_slicing
@pytest.mark.usefixtures("slicing")
def test_rows_that_do_not_count_are_left_out(smoothing: float) -> None:
    readout, weight, bias, labels = random_case()
    counted = torch.arange(POSITIONS) % 3 != 1

    def some(readout: Tensor, weight: Tensor, bias: Tensor, labels: Tensor, eps: float) -> Tensor:
        loss, _ = projection_loss(
            readout, weight, bias, labels, label_smoothing=eps, counted_N=counted
        )
        return loss

    found = value_and_gradients(some, readout, weight, bias, labels, smoothing)
    expected = value_and_gradients(
        fused, readout[counted], weight, bias, labels[counted], smoothing
    )
    assert not found[1][~counted].any()
    found[1] = found[1][counted]
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


@every_smoothing
@torch.no_grad()
def test_losses_match_the_formula(smoothing: float) -> None:
    readout, weight, bias, labels = random_case()
    smoothed = plain = 0.0
    for vector, label in zip(readout.numpy(), labels.tolist(), strict=True):
        logits = weight.numpy() @ vector + bias.numpy()
        log_probs = logits - np.log(np.exp(logits).sum())
        plain -= log_probs[label]
        wanted = np.full(VOCAB, smoothing / VOCAB)
        wanted[label] += 1 - smoothing
        smoothed -= wanted @ log_probs
    found = projection_loss(readout, weight, bias, labels, label_smoothing=smoothing)
    assert [float(total) for total in found] == pytest.approx([smoothed, plain], rel=1e-12)


@every_smoothing
def test_gradcheck(smoothing: float) -> None:
    readout, weight, bias, labels = random_case()
    assert torch.autograd.gradcheck(
        lambda f, w, b: fused(f, w, b, labels, smoothing), (readout, weight, bias)
    )


@every_slicing
@pytest.mark.usefixtures("slicing")
@torch.no_grad()
def test_no_grad_gives_the_same_losses() -> None:
    case = random_case()
    quick = projection_loss(*case, label_smoothing=0.1)
    with torch.enable_grad():
        slow = projection_loss(*case, label_smoothing=0.1)
    assert quick[0].grad_fn is None
    assert slow[0].grad_fn is not None
    assert [q.item() for q in quick] == [s.item() for s in slow]


def test_plain_loss_has_no_gradient() -> None:
    smoothed, plain = projection_loss(*random_case(), label_smoothing=0.1)
    assert smoothed.requires_grad
    assert not plain.requires_grad


def test_losses_are_equal_without_smoothing() -> None:
    smoothed, plain = projection_loss(*random_case())
    assert smoothed.item() == plain.item()


@every_smoothing
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_huge_logits_match_torch_and_stay_finite(dtype: torch.dtype, smoothing: float) -> None:
    case = random_case(scale=1e4, dtype=dtype)
    found = value_and_gradients(fused, *case, smoothing)
    expected = value_and_gradients(unfused, *case, smoothing)
    tolerance = 1e-10 if dtype == torch.float64 else 1e-4
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.isfinite().all()
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


@every_slicing
@pytest.mark.usefixtures("slicing")
def test_bf16_readouts_match_approximately() -> None:
    readout, weight, bias, labels = random_case(dtype=torch.float32)
    half = readout.detach().bfloat16().requires_grad_()
    found = value_and_gradients(fused, half, weight, bias, labels, 0.1)
    expected = value_and_gradients(fused, readout, weight, bias, labels, 0.1)
    assert [t.dtype for t in found] == [torch.float32, torch.bfloat16, *[torch.float32] * 2]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.isfinite().all()
        torch.testing.assert_close(mine.float(), theirs, rtol=0.02, atol=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_autocast_matches_approximately(dtype: torch.dtype) -> None:
    readout, weight, bias, labels = random_case(dtype=torch.float32)
    given = readout.detach().to(dtype).requires_grad_()
    expected = value_and_gradients(fused, readout, weight, bias, labels, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        found = value_and_gradients(fused, given, weight, bias, labels, 0.1)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.float(), theirs, rtol=0.02, atol=0.1)


def test_loss_is_additive_over_positions() -> None:
    readout, weight, bias, labels = random_case()
    whole = value_and_gradients(fused, readout, weight, bias, labels, 0.1)
    first = value_and_gradients(fused, readout[:4], weight, bias, labels[:4], 0.1)
    rest = value_and_gradients(fused, readout[4:], weight, bias, labels[4:], 0.1)
    for number in (0, 2, 3):
        torch.testing.assert_close(first[number] + rest[number], whole[number])
    torch.testing.assert_close(torch.cat([first[1], rest[1]]), whole[1])


def test_empty_batch_has_zero_loss() -> None:
    readout, weight, bias, labels = random_case()
    value, *gradients = value_and_gradients(fused, readout[:0], weight, bias, labels[:0], 0.1)
    assert value.item() == 0
    assert not any(gradient.any() for gradient in gradients)


def test_arguments_are_not_modified() -> None:
    case = random_case()
    kept = [tensor.detach().clone() for tensor in case]
    value_and_gradients(fused, *case, 0.1)
    for tensor, before in zip(case, kept, strict=True):
        assert torch.equal(tensor, before)
