"""The whole model against the NumPy oracle, and its invariances."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
import torch
from oracle.cases import (
    CHOICES,
    OPTIONS,
    SCORES,
    STYLES,
    TARGET_VOCAB,
    TinyBatch,
    every_case,
    pairs,
    random_choice,
    tiny_batch,
    tiny_config,
    tiny_model,
)
from oracle.learning import exact_match, small_config, train
from oracle.model import OracleModel
from torch import Tensor

from seq2seq.config import ModelConfig, Score, Style, parse_config
from seq2seq.errors import ConfigError
from seq2seq.model.translation_model import TranslationModel

Gradients = dict[str, Tensor]


def run(model: TranslationModel, batch: TinyBatch) -> tuple[Tensor, Tensor | None]:
    readout, weights = model(batch.source_BS, batch.mask_BS, batch.inputs_BT)
    return model.logits(readout), weights


def rows(batch: TinyBatch, chosen: list[int]) -> TinyBatch:
    """Return some sentences, without padding that only the others need."""
    width = int(batch.mask_BS[chosen].sum(1).max())
    return TinyBatch(
        batch.source_BS[chosen, :width], batch.mask_BS[chosen, :width], batch.inputs_BT[chosen]
    )


def gradients(model: TranslationModel, batch: TinyBatch, sentence: int) -> Gradients:
    """Return the gradient of one sentence's loss by parameter name."""
    model.zero_grad()
    logits, _ = run(model, batch)
    logits[sentence].log_softmax(-1)[:, 5].sum().backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def close(found: Tensor | None, expected: Tensor | None, tolerance: float = 1e-12) -> None:
    if found is None or expected is None:
        assert found is expected
    else:
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@every_case
@torch.no_grad()
def test_logits_and_weights_match_formulas(config: ModelConfig) -> None:
    model, batch = tiny_model(config), tiny_batch()
    logits, weights = run(model, batch)
    twin = OracleModel.of(model)
    for row, source in enumerate(batch.sources):
        expected, shares = twin.logits(source, batch.inputs_BT[row].tolist())
        np.testing.assert_allclose(logits[row], expected, rtol=0, atol=1e-10)
        assert (weights is None) == (shares is None) == (config.attention.score == "none")
        if weights is not None and shares is not None:
            np.testing.assert_allclose(weights[row, :, : len(source)], shares, rtol=0, atol=1e-10)


def test_cases_are_legal_and_cover_each_pair_of_values() -> None:
    """A pair that no case has is one that no legal choice has, as far as random ones tell."""
    for choice in CHOICES:
        assert random_choice(random.Random(0), choice, tries=1) == choice
    covered = {pair for choice in CHOICES for pair in pairs(choice.items())}
    values = [(option, value) for option in OPTIONS for value in OPTIONS[option]]
    every_pair = [(one, other) for one, other in pairs(values) if one[0] != other[0]]
    assert len(covered) > 0.8 * len(every_pair)
    generator = random.Random(2)
    for pair in (pair for pair in every_pair if pair not in covered):
        assert random_choice(generator, dict(pair)) is None, pair


@every_case
def test_every_parameter_learns(config: ModelConfig) -> None:
    model, batch = tiny_model(config), tiny_batch()
    logits, _ = run(model, batch)
    labels = torch.randint(4, 9, batch.inputs_BT.shape, generator=torch.manual_seed(0))
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 1e-10, f"{name} has no gradient"


def test_initial_output_bias_gives_unigram_frequencies() -> None:
    model = tiny_model(tiny_config())
    counts = torch.arange(TARGET_VOCAB)
    model.init_output_bias(counts)
    found = model.logits(torch.zeros(1, model.config.readout_width).double()).softmax(-1)[0]
    expected = (counts + 1) / (counts + 1).sum()
    torch.testing.assert_close(found, expected.double(), rtol=1e-6, atol=0)


@every_case
@torch.no_grad()
def test_weights_sum_to_one_and_are_zero_at_padding(config: ModelConfig) -> None:
    batch = tiny_batch(padding=3)
    _, weights = run(tiny_model(config), batch)
    if weights is None:
        assert config.attention.score == "none"
        return
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]).double())
    padded = ~batch.mask_BS.unsqueeze(1).expand_as(weights)
    assert (weights[padded] == 0).all()
    assert (weights[~padded] > 0).all()


@every_case
@torch.no_grad()
def test_padding_does_not_change_output(config: ModelConfig) -> None:
    model, batch = tiny_model(config), tiny_batch()
    wider = tiny_batch(padding=4)
    rubbish = torch.where(wider.mask_BS, wider.source_BS, 7)  # not the padding piece
    logits, weights = run(model, batch)
    for source in (wider.source_BS, rubbish):
        wide_logits, wide_weights = run(model, dataclasses.replace(wider, source_BS=source))
        close(wide_logits, logits)
        close(None if wide_weights is None else wide_weights[:, :, :-4], weights)


@every_case
@torch.no_grad()
def test_rest_of_batch_does_not_change_output(config: ModelConfig) -> None:
    model, batch = tiny_model(config), tiny_batch()
    logits, _ = run(model, batch)
    for row in range(len(logits)):
        close(run(model, rows(batch, [row]))[0][0], logits[row])


@every_case
@torch.no_grad()
def test_permuted_batch_gives_permuted_output(config: ModelConfig) -> None:
    model, batch = tiny_model(config), tiny_batch()
    order = [2, 0, 1]
    logits, weights = run(model, batch)
    permuted_logits, permuted_weights = run(model, rows(batch, order))
    close(permuted_logits, logits[order])
    close(permuted_weights, None if weights is None else weights[order])


@every_case
@torch.no_grad()
def test_logits_do_not_depend_on_later_targets(config: ModelConfig) -> None:
    # With one source piece only, pre_attention without the residual never sees the target.
    model, batch = tiny_model(config), tiny_batch((4, 2, 5), target_length=4)
    changed_BT = batch.inputs_BT.clone()
    changed_BT[:, 2:] = torch.where(changed_BT[:, 2:] == 4, 5, 4)
    logits, _ = run(model, batch)
    others, _ = run(model, dataclasses.replace(batch, inputs_BT=changed_BT))
    close(others[:, :2], logits[:, :2])
    assert (others[:, 2] - logits[:, 2]).abs().amax(-1).min() > 1e-9


@every_case
def test_gradient_of_a_sentence_does_not_depend_on_batch(config: ModelConfig) -> None:
    model, batch = tiny_model(config), tiny_batch(padding=2)
    alone = gradients(model, rows(batch, [0]), 0)
    beside_others = gradients(model, batch, 0)
    assert alone.keys() == beside_others.keys()
    for name in alone:
        close(beside_others[name], alone[name])


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("style", STYLES)
@torch.no_grad()
def test_source_of_500_pieces_beside_one_piece(score: Score, style: Style) -> None:
    model = tiny_model(tiny_config(style=style, **{"attention.score": score}))
    batch = tiny_batch((500, 1))
    logits, weights = run(model, batch)
    assert logits.isfinite().all()
    close(logits[1], run(model, rows(batch, [1]))[0][0])
    if weights is not None:
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]).double())
        assert (weights[1, :, 0] == 1).all()


@every_case
def test_bf16_is_close_to_full_precision(config: ModelConfig) -> None:
    model, batch = tiny_model(config, dtype=torch.float32), tiny_batch()
    logits, weights = run(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        half_logits, half_weights = run(model, batch)
    # On the mean: a norm of nearly equal numbers magnifies the rounding of single ones.
    assert (half_logits - logits).abs().mean() < 0.05
    if weights is not None and half_weights is not None:
        assert half_weights.dtype == torch.float32
        torch.testing.assert_close(half_weights, weights, rtol=0.05, atol=0.05)
    half_logits.float().square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_tied_and_joint_embeddings_are_one_matrix() -> None:
    model = TranslationModel(tiny_config(tie_target=True, joint_embeddings=True), 11, 11)
    assert model.source_embedding.weight is model.target_embedding.weight
    assert model.target_embedding.weight is model.output_weight


def test_uniform_init_is_within_a_tenth() -> None:
    model = TranslationModel(tiny_config(init="uniform"), 11, 9)
    for name, parameter in model.named_parameters():
        assert 0 < parameter.abs().max() <= 0.1, name


@pytest.mark.parametrize("style", STYLES)
def test_residual_is_default_for_pre_attention_only(style: Style) -> None:
    assert tiny_config(style=style).residual == (style == "pre_attention")


RECIPE = """
run_dir: nowhere
data: {train: [{path: a.tsv}], valid: {path: b.tsv}}
model: {embedding_size: 4, encoder_size: 3, decoder_size: 6}
"""


@pytest.mark.parametrize(
    ("overrides", "keys"),
    [
        (
            "attention.score=dot decoder_size=5",
            "attention.score decoder_size attention.key_size attention.project_query",
        ),
        ("attention.score=scaled_dot attention.key_size=4", "attention.score attention.key_size"),
        ("attention.score=multi_head attention.heads=4", "attention.heads"),
        (
            "attention.score=multi_head attention.heads=3 attention.value_size=4",
            "attention.heads value",
        ),
        ("attention.heads=2", "attention.heads multi_head"),
        ("tie_target=true readout_size=6", "tie_target readout_size embedding_size"),
        ("joint_embeddings=true", "model.joint_embeddings data.tokenizer.joint"),
        (
            "style=pre_attention attention.score=none attention.residual=false",
            "style attention.score attention.residual",
        ),
        ("attention.score=cosine", "model.attention.score cosine"),
        ("style=vaswani", "model.style vaswani"),
        ("encoder_layers=0", "model.encoder_layers"),
        ("attention.head=2", "model.attention.head heads"),
        ("dropout=1.0", "model.dropout"),
    ],
)
def test_illegal_combination_error_names_keys(overrides: str, keys: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(RECIPE, [f"model.{override}" for override in overrides.split()])
    for key in keys.split():
        assert key in str(caught.value)


@pytest.mark.parametrize(
    "overrides",
    [
        "attention.score=dot decoder_size=5 attention.key_size=5",
        "attention.score=dot decoder_size=5 attention.project_query=true",
        "style=pre_attention attention.score=none",
        "tie_target=true",
        "joint_embeddings=true",
    ],
)
def test_fixes_named_in_errors_are_legal(overrides: str) -> None:
    joint = "data.tokenizer.joint=true"
    parse_config(RECIPE, [joint, *(f"model.{override}" for override in overrides.split())])


@pytest.mark.parametrize(
    ("score", "style", "input_feeding", "reverse"),
    [
        ("additive", "bahdanau", True, True),
        ("general", "luong", True, True),
        ("multi_head", "pre_attention", True, True),
        ("concat", "luong", False, False),
        ("general", "pre_attention", True, False),
    ],
)
def test_tiny_model_learns_to_copy_and_reverse(
    score: Score, style: Style, input_feeding: bool, reverse: bool
) -> None:
    config = small_config(score, style, input_feeding=input_feeding)
    model, seen = train(config, reverse=reverse, steps=150)
    assert exact_match(model, seen, reverse=reverse) >= 0.95
