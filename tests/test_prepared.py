"""Prepared models against plain ones, which are tested against NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from oracle.cases import TARGET_VOCAB, every_case, one_of_each, tiny_batch, tiny_model
from torch import Tensor

from seq2seq.config import ModelConfig
from seq2seq.inference.protocol import Decoding
from seq2seq.model.model import TranslationModel
from seq2seq.model.prepared.model import PreparedModel
from seq2seq.model.prepared.product import Lookup, multiplies_int8, product

LENGTHS = (4, 1, 5)
STEPS = 3
CPU = torch.device("cpu")

needs_int8 = pytest.mark.skipif(not multiplies_int8(CPU), reason="a CPU without VNNI")


def by_steps(decoding: Decoding, hypotheses: int) -> tuple[Tensor, Tensor | None]:
    """Return logits [T, R, V] and weights [T, R, S] of random targets, with reordered rows."""
    generator = torch.Generator().manual_seed(1)
    rows_R = torch.arange(len(decoding.source_lengths_B)).repeat_interleave(hypotheses)
    state, steps = decoding.start().select(rows_R), []
    for _ in range(STEPS):
        tokens_R = torch.randint(4, TARGET_VOCAB, (len(rows_R),), generator=generator)
        logits_RV, weights_RS, state = decoding.step(tokens_R, state)
        steps.append((logits_RV, weights_RS))
        parents_R = torch.randint(hypotheses, (len(rows_R),), generator=generator)
        state = state.select(rows_R * hypotheses + parents_R)
    logits, weights = zip(*steps, strict=True)
    known = [w for w in weights if w is not None]
    return torch.stack(logits), torch.stack(known) if known else None


def both(
    model: TranslationModel, dtype: torch.dtype, hypotheses: int, sentences: Sequence[int]
) -> list[tuple[Tensor, Tensor | None]]:
    """Return the outputs of the plain and the prepared model for some sentences of a batch."""
    batch = tiny_batch(LENGTHS)
    plain = model.decoding(batch.source_BS, batch.mask_BS)
    prepared = PreparedModel(model, dtype).decoding(
        batch.source_BS, batch.mask_BS, is_beam=hypotheses > 1
    )
    chosen = torch.tensor(sentences)
    return [by_steps(decoding.select(chosen), hypotheses) for decoding in (plain, prepared)]


@pytest.mark.parametrize("hypotheses", [1, 3])
@every_case
@torch.no_grad()
def test_prepared_model_matches_model(config: ModelConfig, hypotheses: int) -> None:
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        model = tiny_model(config, dtype=dtype)
        (logits, weights), (found, found_weights) = both(model, dtype, hypotheses, (2, 0))
        scale = float(logits.abs().max())
        torch.testing.assert_close(found, logits, rtol=0, atol=tolerance * max(1.0, scale))
        assert (weights is None) == (found_weights is None)
        if weights is not None:
            torch.testing.assert_close(found_weights, weights, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.bfloat16, 0.05), pytest.param(torch.int8, 0.08, marks=needs_int8)],
)
@one_of_each
@torch.no_grad()
def test_lower_precision_is_close(
    config: ModelConfig, dtype: torch.dtype, tolerance: float
) -> None:
    """Errors are relative to the spread of the logits; weights of 0.5 make states chaotic."""
    model = tiny_model(config, dtype=torch.float32)
    (logits, weights), (found, found_weights) = both(model, dtype, 3, (0, 1, 2))
    assert float((found.float() - logits).abs().mean()) < tolerance * float(logits.std())
    if weights is not None and found_weights is not None:
        torch.testing.assert_close(found_weights.sum(-1), weights.sum(-1), rtol=0, atol=1e-5)
        assert torch.equal(found_weights == 0, weights == 0)


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@needs_int8
@pytest.mark.parametrize("bounded", [True, False])
def test_int8_product_errs_by_at_most_half_a_step(bounded: bool) -> None:
    weight, bias = drawn(20, 300, seed=1), drawn(20, seed=2)
    inputs = drawn(7, 300, seed=3).tanh() * (1 if bounded else 30)
    found = product(weight, bias, torch.int8, bounded=bounded)(inputs)
    largest = torch.ones(7, 1) if bounded else inputs.abs().amax(1, keepdim=True)
    step_of_inputs, step_of_weights = largest / 127, weight.abs().amax(1) / 127
    most = (
        weight.abs().sum(1) * step_of_inputs / 2
        + inputs.abs().sum(1, keepdim=True) * step_of_weights / 2
        + 300 * step_of_inputs * step_of_weights / 4
    )
    error = (found - (inputs @ weight.t() + bias)).abs()
    assert (error <= most + 1e-4).all()
    assert error.mean() < most.mean() / 10  # errors of both signs


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, pytest.param(torch.int8, marks=needs_int8)]
)
@pytest.mark.parametrize("bounded", [True, False])
def test_rows_of_a_product_are_independent(dtype: torch.dtype, bounded: bool) -> None:
    multiply = product(drawn(96, 64, seed=1), drawn(96, seed=2), dtype, bounded=bounded)
    inputs = drawn(40, 64, seed=3).tanh()
    others = inputs.clone()
    others[1:] = drawn(39, 64, seed=4).tanh() * (1 if bounded else 1000)
    torch.testing.assert_close(multiply(others)[0], multiply(inputs)[0], rtol=0, atol=0)
    torch.testing.assert_close(multiply(inputs[:1])[0], multiply(inputs)[0], rtol=0, atol=1e-5)
    assert multiply(inputs.view(4, 10, 64)).shape == (4, 10, 96)


def test_products_without_onednn_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, inputs = drawn(32, 16, seed=1), drawn(5, 16, seed=2)
    packed = product(weight, None, torch.float32)(inputs)
    monkeypatch.setattr("seq2seq.model.prepared.product.packs", lambda *_: False)
    torch.testing.assert_close(product(weight, None, torch.float32)(inputs), packed)
    assert product(weight, None, torch.bfloat16, widen=False)(inputs).dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lookup_table_matches_product(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    embedding, weight, bias = drawn(50, 16, seed=1), drawn(24, 16, seed=2), drawn(24, seed=3)
    tokens = torch.tensor([[3, 49], [0, 3]])
    table = Lookup(embedding, weight, bias, dtype)
    monkeypatch.setattr("seq2seq.model.prepared.product._MOST", 50 * 24 - 1)
    each = Lookup(embedding, weight, bias, dtype)
    assert (table.is_table, each.is_table) == (True, False)
    torch.testing.assert_close(table(tokens), each(tokens), rtol=0, atol=1e-6)
    table(tokens).zero_()  # the result belongs to the caller
    torch.testing.assert_close(table(tokens), each(tokens), rtol=0, atol=1e-6)
