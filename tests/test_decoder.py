"""Decoders: step against unroll, beams against separate runs, reordered states."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from oracle.cases import (
    STYLES,
    TARGET_VOCAB,
    every_case,
    tiny_batch,
    tiny_config,
    tiny_model,
)
from torch import Tensor

from seq2seq.config import ModelConfig, Style
from seq2seq.model import decoder, layers
from seq2seq.model.decoder import DecoderState
from seq2seq.model.translation_model import TranslationDecoding, TranslationModel

LENGTHS = (4, 1, 5)
STEPS = 3


def random_targets(count: int) -> Tensor:
    """Return random targets [R, T]."""
    return torch.randint(4, TARGET_VOCAB, (count, STEPS), generator=torch.manual_seed(1))


def by_steps(decoding: TranslationDecoding, targets_RT: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return logits [R, T, V] and weights [R, T, S], one step at a time."""
    sentences = len(decoding.memory.mask_BS)
    rows_R = torch.arange(sentences).repeat_interleave(len(targets_RT) // sentences)
    state = decoding.start().select(rows_R)
    steps = []
    for tokens_R in targets_RT.unbind(1):
        logits_RV, weights_RS, state = decoding.step(tokens_R, state)
        steps.append((logits_RV, weights_RS))
    logits_RTV = torch.stack([logits for logits, _ in steps], 1)
    weights = [w for _, w in steps if w is not None]
    return logits_RTV, torch.stack(weights, 1) if weights else None


def unrolled(model: TranslationModel, targets_BT: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return logits [B, T, V] and weights [B, T, S] of one target a sentence."""
    batch = tiny_batch(LENGTHS)
    readout, weights = model(batch.source_BS, batch.mask_BS, targets_BT)
    return model.logits(readout), weights


def started(model: TranslationModel) -> TranslationDecoding:
    batch = tiny_batch(LENGTHS)
    return model.decoding(batch.source_BS, batch.mask_BS)


def close(found: Tensor | None, expected: Tensor | None) -> None:
    if found is None or expected is None:
        assert found is expected
    else:
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


def all_close(found: DecoderState, expected: DecoderState) -> None:
    for one, other in zip(found.hidden, expected.hidden, strict=True):
        close(one, other)
    close(found.attentional_RO, expected.attentional_RO)


@every_case
@torch.no_grad()
def test_step_matches_unroll(config: ModelConfig) -> None:
    model, targets = tiny_model(config), random_targets(len(LENGTHS))
    logits, weights = by_steps(started(model), targets)
    expected_logits, expected_weights = unrolled(model, targets)
    close(logits, expected_logits)
    close(weights, expected_weights)


@every_case
def test_gradients_match_those_of_separate_products(
    config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unrolling takes the gradient of the weights of all steps as one product."""
    model, targets = tiny_model(config), random_targets(len(LENGTHS))
    logits, _ = unrolled(model, targets)
    torch.manual_seed(2)
    direction = torch.randn_like(logits)
    found = torch.autograd.grad((logits * direction).sum(), list(model.parameters()))
    monkeypatch.setattr(decoder, "matrix_gradients_at_once", nullcontext)
    monkeypatch.setattr(layers, "matrix_gradients_at_once", nullcontext)
    logits, _ = unrolled(model, targets)
    expected = torch.autograd.grad((logits * direction).sum(), list(model.parameters()))
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)


@every_case
def test_gradient_matches_numerical_gradient(config: ModelConfig) -> None:
    """Along a random direction of all weights, for all parts with a gradient written by hand."""
    model, targets = tiny_model(config), random_targets(len(LENGTHS))
    parameters = list(model.parameters())
    torch.manual_seed(2)
    weighting = torch.randn_like(unrolled(model, targets)[0])
    direction = [torch.randn_like(parameter) for parameter in parameters]

    def objective() -> Tensor:
        return (unrolled(model, targets)[0] * weighting).sum()

    def moved(size: float) -> float:
        with torch.no_grad():
            torch._foreach_add_(parameters, direction, alpha=size)
            value = objective()
            torch._foreach_sub_(parameters, direction, alpha=size)
        return float(value)

    gradients = torch.autograd.grad(objective(), parameters)
    slope = sum(float((g * d).sum()) for g, d in zip(gradients, direction, strict=True))
    assert (moved(1e-6) - moved(-1e-6)) / 2e-6 == pytest.approx(slope, rel=1e-5, abs=1e-6)


@every_case
@torch.no_grad()
def test_hypotheses_of_a_sentence_match_separate_runs(config: ModelConfig) -> None:
    model, beam = tiny_model(config), 3
    targets = random_targets(len(LENGTHS) * beam)
    logits, weights = by_steps(started(model), targets)
    for hypothesis in range(beam):
        mine = slice(hypothesis, None, beam)
        expected_logits, expected_weights = unrolled(model, targets[mine])
        close(logits[mine], expected_logits)
        close(None if weights is None else weights[mine], expected_weights)


@every_case
@torch.no_grad()
def test_reordered_hypotheses_keep_their_history(config: ModelConfig) -> None:
    """As in a beam, some hypotheses are repeated and others dropped, with their states."""
    model = tiny_model(config)
    decoding = started(model)
    targets = random_targets(len(LENGTHS) * 2)
    _, _, state = decoding.step(targets[:, 0], decoding.start().select(torch.arange(6) // 2))
    parents = torch.tensor([1, 0, 2, 2, 5, 5])
    logits, weights, _ = decoding.step(targets[:, 1], state.select(parents))
    pasts = torch.stack([targets[parents, 0], targets[:, 1]], 1)
    for hypothesis in range(2):
        mine = slice(hypothesis, None, 2)
        expected_logits, expected_weights = unrolled(model, pasts[mine])
        close(logits[mine], expected_logits[:, 1])
        if weights is not None and expected_weights is not None:
            close(weights[mine], expected_weights[:, 1])


@every_case
@torch.no_grad()
def test_selected_sentences_match_whole_batch(config: ModelConfig) -> None:
    model, chosen = tiny_model(config), torch.tensor([2, 0])
    decoding = started(model)
    targets = random_targets(len(LENGTHS))
    _, _, state = decoding.step(targets[:, 0], decoding.start())
    fewer = decoding.select(chosen)
    assert fewer.memory.mask_BS.sum(1).tolist() == [5, 4]
    all_close(fewer.start(), decoding.start().select(chosen))
    logits, weights, after = decoding.step(targets[:, 1], state)
    few_logits, few_weights, few_after = fewer.step(targets[chosen, 1], state.select(chosen))
    close(few_logits, logits[chosen])
    width = 0 if few_weights is None else few_weights.shape[1]
    close(few_weights, None if weights is None else weights[chosen, :width])
    all_close(few_after, after.select(chosen))


@every_case
@torch.no_grad()
def test_step_does_not_modify_its_arguments(config: ModelConfig) -> None:
    model = tiny_model(config)
    decoding, same = started(model), started(model)
    tokens = random_targets(len(LENGTHS))[:, 0]
    _, _, state = decoding.step(tokens, decoding.start())
    kept = state.select(torch.arange(len(LENGTHS)))
    first, _, _ = decoding.step(tokens, state)
    again, _, _ = decoding.step(tokens, state)
    assert torch.equal(first, again)
    all_close(state, kept)
    for name, tensor in vars(decoding.memory).items():
        other = getattr(same.memory, name)
        assert tensor is other is None or torch.equal(tensor, other), name


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("layers", [1, 2])
@torch.no_grad()
def test_each_layer_has_its_own_initial_state(style: Style, layers: int) -> None:
    model = tiny_model(tiny_config(style=style, decoder_layers=layers))
    hidden = started(model).start().hidden
    assert len(hidden) == layers + (style == "pre_attention")
    assert {tuple(state.shape) for state in hidden} == {(len(LENGTHS), 6)}
    distinct = {tuple(state[0].tolist()) for state in hidden}
    assert len(distinct) == len(hidden)


@torch.no_grad()
def test_zero_initial_states_do_not_depend_on_source() -> None:
    state = started(tiny_model(tiny_config(style="luong", initial_state="zeros"))).start()
    assert not state.hidden[0].any()
    assert state.attentional_RO is not None
    assert not state.attentional_RO.any()


@torch.no_grad()
def test_attentional_state_is_kept_only_for_input_feeding() -> None:
    model = tiny_model(tiny_config(style="luong", input_feeding=False))
    assert started(model).start().attentional_RO is None


@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize("style", STYLES)
@torch.no_grad()
def test_step_matches_unroll_in_bf16(style: Style, feeding: bool) -> None:
    config = tiny_config(style=style, input_feeding=feeding, decoder_layers=2)
    model, targets = tiny_model(config, dtype=torch.float32), random_targets(len(LENGTHS))
    with torch.autocast("cpu", torch.bfloat16):
        logits, _ = by_steps(started(model), targets)
        expected, _ = unrolled(model, targets)
    torch.testing.assert_close(logits, expected, rtol=0.05, atol=0.05)
