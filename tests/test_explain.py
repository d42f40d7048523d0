"""The record of a sentence, compared with NumPy, with translating, and with teacher forcing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from explaining import MODELS, every_model, with_model

from seq2seq.analysis.explain import PADDING, explain
from seq2seq.analysis.explanation import Explanation
from seq2seq.config import ModelConfig
from seq2seq.data.batching import make_batch
from seq2seq.errors import CheckpointError, ConfigError, DataError
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import word_attention

Array = npt.NDArray[np.float64]
SENTENCE = "gato come pan [rojo]"
TARGET = "cat eats red bread"


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained, backend="torch")


def as_json(explanation: Explanation) -> Any:
    return json.loads(json.dumps(explanation.as_json(), allow_nan=False))


def array(found: dict[str, Any] | None) -> Array:
    """Return a tensor of the JSON, whose shape must match; null is minus infinity."""
    assert found is not None
    values = np.array(found["data"], dtype=object)
    values[values == None] = -np.inf  # noqa: E711
    assert values.shape == tuple(found["shape"])
    return values.astype(np.float64)


def softmax(scores: Array) -> Array:
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    result: Array = exponentials / exponentials.sum(-1, keepdims=True)
    return result


def heads(values: Array, count: int) -> Array:
    """Return the parts of vectors [X, D] for each head: [N, X, D / N]."""
    return np.stack(np.split(values, count, axis=-1))


def project_keys(score: str, weights: dict[str, Array], keys: Array) -> Array:
    """Return what a score function computes of the keys."""
    if score == "general":
        return keys @ weights["score.key.weight"].T
    if score == "additive":
        return keys @ weights["score.key.weight"].T + weights["score.key.bias"]
    if score == "concat":
        return keys @ weights["score.weight"][:, -keys.shape[1] :].T
    assert score in ("dot", "scaled_dot", "multi_head")
    return keys


def scores_of(data: dict[str, Any], weights: dict[str, Array], query: Array, keys: Array) -> Array:
    """Return the scores of a query with each key, by the formulas of the papers."""
    score, scale = data["model"]["score"], data["model"]["formula"]["scale"]
    if score == "multi_head":
        count = data["model"]["heads"]
        projected = weights["query.weight"] @ query + weights["query.bias"]
        parts = heads(projected[None], count)
        return (parts @ heads(keys, count).transpose(0, 2, 1))[:, 0] * scale
    if score in ("dot", "scaled_dot"):
        projected = weights.get("score.query.weight", np.eye(len(query))) @ query
        return keys @ projected * (1.0 if scale is None else scale)
    if score == "general":
        return query @ weights["score.key.weight"] @ keys.T
    if score == "additive":
        inside = weights["score.query.weight"] @ query + weights["score.key.bias"]
        return np.tanh(inside + keys @ weights["score.key.weight"].T) @ weights["score.energy"]
    assert score == "concat"
    both = np.concatenate([np.broadcast_to(query, (len(keys), len(query))), keys], 1)
    return np.tanh(both @ weights["score.weight"].T) @ weights["score.energy"]


@every_model
@torch.no_grad()
def test_numpy_reproduces_every_number(translator: Translator, config: ModelConfig) -> None:
    data = as_json(explain(with_model(translator, config), SENTENCE, target=TARGET))
    weights = {name: array(found) for name, found in data["parameters"].items()}
    memory, states = data["memory"], array(data["memory"]["states"])
    mask = array(memory["mask"]).astype(bool)
    assert mask.sum() == memory["length"] == len(mask) - PADDING
    assert not states[~mask].any()
    score = data["model"]["score"]
    if score == "none":
        assert memory["keys"] is memory["values"] is memory["remembered"] is None
    else:
        keys = states @ weights["key.weight"].T if "key.weight" in weights else states
        values = states @ weights["value.weight"].T if "value.weight" in weights else states
        close(array(memory["keys"]), keys)
        close(array(memory["values"]), values + weights.get("value.bias", 0.0))
        close(array(memory["remembered"]), project_keys(score, weights, keys))
    assert len(data["steps"]) > len(TARGET.split())
    for step in data["steps"]:
        query = array(step["query"])
        if score == "none":
            assert "scores" not in step
            context = array(memory["summary"])
        else:
            context = check_weights(data, weights, step, mask)
            close(array(step["context"]), context)
        added = np.zeros_like(context)
        if config.residual:
            added = weights.get("residual.query.weight", np.eye(len(query))) @ query
            close(array(step["residual"]), added)
        else:
            assert step["residual"] is None
        close(array(step["output"]), context + added)


def check_weights(
    data: dict[str, Any], weights: dict[str, Array], step: dict[str, Any], mask: Array
) -> Array:
    """Recompute scores and weights of a step; return the context."""
    keys, values = array(data["memory"]["keys"]), array(data["memory"]["values"])
    scores = scores_of(data, weights, array(step["query"]), keys)
    close(array(step["scores"]), scores)
    masked = np.where(mask, scores, -np.inf)
    np.testing.assert_allclose(array(step["masked_scores"]), masked, rtol=0, atol=1e-5)
    expected = softmax(masked)
    close(array(step["weights"]), expected)
    assert not array(step["weights"])[..., ~mask].any()
    close(array(step["mean_weights"]), expected if expected.ndim == 1 else expected.mean(0))
    if expected.ndim == 1:
        return expected @ values
    contexts = np.einsum("ns,nsm->nm", expected, heads(values, len(expected)))
    result: Array = weights["output.weight"] @ contexts.ravel() + weights["output.bias"]
    return result


def close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@every_model
@torch.no_grad()
def test_teacher_forcing_gives_the_same_weights_and_probabilities(
    translator: Translator, config: ModelConfig
) -> None:
    """Training computes all steps at once, and here without a neighbor in the batch."""
    translator = with_model(translator, config)
    found = explain(translator, SENTENCE, target=TARGET)
    model = translator.models[0]
    target = translator.target.encode(TARGET)
    batch = make_batch([translator.source.encode(SENTENCE)], [target], [0])
    readout_BTO, weights_BTS = model(batch.source_BS, batch.source_mask_BS, batch.inputs_BT)
    log_probs_TV = model.logits(readout_BTO[0]).log_softmax(-1)
    steps = list(zip(found.steps, batch.labels_BT[0].tolist(), log_probs_TV, strict=True))
    for step, label, log_probs_V in steps:
        assert step.writes.id == label
        assert step.log_prob == pytest.approx(float(log_probs_V[label]), abs=1e-5)
        assert step.rank == int((log_probs_V[3:] > log_probs_V[label]).sum()) + 1
    assert found.part.log_prob == pytest.approx(sum(step.log_prob for step in found.steps))
    if weights_BTS is None:
        assert found.part.weights is None
    else:
        assert found.part.weights is not None
        np.testing.assert_allclose(found.part.weights, weights_BTS[0], rtol=0, atol=1e-6)
    assert found.padding_difference < 1e-5


@pytest.mark.parametrize("beam", [1, 3])
def test_explanation_matches_translation(translator: Translator, beam: int) -> None:
    options = translator.options(beam_size=beam, keep_weights=True)
    [[best]] = translator.translate([SENTENCE], options)
    found = explain(translator, SENTENCE, beam=beam)
    part = best.parts[0]
    assert (found.part.text, found.part.source) == (part.text, part.source)
    assert found.part.source_pieces == part.source_pieces
    assert found.part.target_pieces == part.target_pieces
    assert found.part.log_prob == pytest.approx(part.log_prob, abs=1e-4)
    assert part.weights is not None
    np.testing.assert_allclose(found.part.weights, part.weights, rtol=0, atol=1e-6)
    assert not found.forced
    for step in found.steps:
        best_id = max(step.candidates, key=lambda candidate: candidate.probability).id
        assert (best_id == step.writes.id) == (step.rank == 1)


def test_origin_says_that_tokens_have_no_stand_ins(translator: Translator) -> None:
    stand_ins = "found by the search without the stand-ins that translate uses for tokens"
    assert explain(translator, "gato come <b>pan</b>").origin == stand_ins
    assert explain(translator, SENTENCE).origin == "found by the search"
    assert explain(translator, "gato {a}", target="cat {a}").origin == "given"


def test_mask_hides_scores_of_padding(translator: Translator) -> None:
    found = explain(translator, SENTENCE)
    real = found.source.length
    assert [piece.piece for piece in found.source.pieces[real:]] == ["<pad>"] * PADDING
    for step in found.steps:
        assert step.attention is not None
        masked_S = step.attention.masked_scores_S
        assert step.attention.scores_S.isfinite().all()
        assert torch.isneginf(masked_S[real:]).all()
        assert torch.equal(masked_S[:real], step.attention.scores_S[:real])


def test_json_numbers_are_exact(translator: Translator) -> None:
    found = explain(translator, SENTENCE)
    data = as_json(found)
    for name, parameter in translator.models[0].decoder.attention.named_parameters():
        assert data["parameters"][name]["shape"] == list(parameter.shape)
        read = np.array(data["parameters"][name]["data"], dtype=np.float32)
        assert np.array_equal(read, parameter.detach().numpy())
    assert data["model"]["formula"]["letters"].keys() <= set("vbW") | {"W1", "W2"}
    assert set(data["model"]["formula"]["letters"].values()) <= data["parameters"].keys()
    np.testing.assert_allclose(data["words"]["weights"], word_attention(found.part).weights)
    assert data["words"]["source"] == ["gato", "come", "pan", "[", "rojo", "]", "</s>"]


@pytest.mark.parametrize(("score", "scale"), [("scaled_dot", 0.5), ("multi_head", 2**-0.5)])
def test_scale_depends_on_the_key_size(translator: Translator, score: str, scale: float) -> None:
    """It is that of a key of size 4, or of one of its two heads, for any sentence length."""
    for config in (c for c in MODELS.values() if c.attention.score == score):
        for sentence in (SENTENCE, "pan"):
            found = explain(with_model(translator, config), sentence, target="cat")
            assert found.formula.scale == pytest.approx(scale)


def test_other_scores_are_not_scaled(translator: Translator) -> None:
    for config in MODELS.values():
        if config.attention.score not in ("scaled_dot", "multi_head"):
            formula = explain(with_model(translator, config), "pan", target="cat").formula
            assert formula.scale is None
            assert formula.scale_reason


@pytest.mark.parametrize(
    ("sentence", "target", "words"),
    [
        ("", None, "the sentence is empty"),
        (" \n\t", None, "the sentence is empty"),
        ("gato", "  ", "the translation to explain is empty"),
        ("gato " * 25, None, "more than the 24 of inference.max_source_length"),
    ],
)
def test_invalid_input_is_rejected(
    translator: Translator, sentence: str, target: str | None, words: str
) -> None:
    with pytest.raises(DataError, match=words):
        explain(translator, sentence, target=target)


def test_ensemble_is_rejected(trained: Path, other: Path) -> None:
    with pytest.raises(ConfigError, match="give one run"):
        explain(Translator.load(trained, other, backend="torch"), "gato")


@pytest.mark.parametrize("target", [None, "cat"])
def test_non_finite_logits_are_rejected(trained: Path, target: str | None) -> None:
    translator = Translator.load(trained, backend="torch")
    with torch.no_grad():
        translator.models[0].output_bias.fill_(torch.nan)
    with pytest.raises(CheckpointError, match="another checkpoint"):
        explain(translator, "gato", target=target)
    assert not any(module._forward_hooks for module in translator.models[0].modules())


def test_forced_translation_may_be_improbable(translator: Translator) -> None:
    found = explain(translator, "gato", target="house house zebra")
    assert found.forced
    assert found.part.text == "house house zebra"
    assert max(step.rank for step in found.steps) > 5
    assert all(step.writes.id > 3 for step in found.steps[:-1])
    assert found.steps[-1].writes.piece == "</s>"


def test_recording_removes_its_hooks(translator: Translator) -> None:
    explain(translator, SENTENCE)
    assert not any(module._forward_hooks for module in translator.models[0].modules())
