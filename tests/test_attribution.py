"""Attributions, compared with finite differences, with their baseline, and with forced decoding."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from explaining import MODELS, every_model, with_model
from torch import Tensor, nn
from torch.func import functional_call

from seq2seq.analysis import Method, attribution
from seq2seq.analysis.attribution import MEANINGS, attribute, forced_batch
from seq2seq.analysis.explain import PADDING, explain
from seq2seq.analysis.show import print_explanation, render_page
from seq2seq.cli import main
from seq2seq.config import ModelConfig
from seq2seq.data.batching import Batch
from seq2seq.data.tokenizer import PAD
from seq2seq.errors import ConfigError
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import source_words
from seq2seq.model.translation_model import TranslationModel

SENTENCE = "gato come pan [rojo]"
TARGET = "cat eats red bread"


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained, backend="torch")


@torch.no_grad()
def forced(
    model: TranslationModel, source: list[int], target: list[int], factors_S: Tensor
) -> Tensor:
    """Return log p [T] of the target pieces; embeddings of the source are multiplied first."""
    batch = forced_batch(model, [source], target)
    embedded_1SE = model.source_embedding(batch.source_BS) * factors_S.unsqueeze(1)
    # The same embeddings, as those of pieces that the model does not have.
    weight_VE = torch.cat([model.source_embedding.weight, embedded_1SE[0]])
    places_1S = len(model.source_embedding.weight) + torch.arange(len(factors_S)).unsqueeze(0)
    inputs = (places_1S, batch.source_mask_BS, batch.inputs_BT)
    readout_BTO, _ = functional_call(model, {"source_embedding.weight": weight_VE}, inputs)
    log_probs_TV = model.logits(readout_BTO)[0].log_softmax(-1)
    return log_probs_TV.gather(1, batch.labels_BT.t())[:, 0]


def prepared(translator: Translator) -> tuple[TranslationModel, list[int], list[int]]:
    """Return the model in double precision, and the sentence and its translation as pieces."""
    source, target = translator.source.encode(SENTENCE), translator.target.encode(TARGET)
    return translator.models[0].double(), source, target


@every_model
def test_gradient_is_that_of_finite_differences(
    translator: Translator, config: ModelConfig
) -> None:
    model, source, target = prepared(with_model(translator, config))
    found_TS = attribute(model, source, target, "gradient", [])
    ones_S, step = torch.ones(len(source) + 1, dtype=torch.float64), 1e-6
    assert found_TS.shape == (len(target) + 1, len(source) + 1)
    for place in range(len(source) + 1):
        above_S, below_S = ones_S.clone(), ones_S.clone()
        above_S[place] += step
        below_S[place] -= step
        above_T, below_T = (forced(model, source, target, each) for each in (above_S, below_S))
        expected_T = (above_T - below_T) / (2 * step)
        torch.testing.assert_close(found_TS[:, place], expected_T, rtol=1e-5, atol=1e-7)


@every_model
def test_integrated_gradients_are_complete(translator: Translator, config: ModelConfig) -> None:
    model, source, target = prepared(with_model(translator, config))
    found_TS = attribute(model, source, target, "integrated", [])
    ones_S = torch.ones(len(source) + 1, dtype=torch.float64)
    difference_T = forced(model, source, target, ones_S) - forced(model, source, target, 0 * ones_S)
    torch.testing.assert_close(found_TS.sum(1), difference_T, rtol=0.01, atol=0.01)
    assert float(difference_T.abs().max()) > 0.1


@every_model
def test_occlusion_is_force_scoring_without_the_word(
    translator: Translator, config: ModelConfig
) -> None:
    translator = with_model(translator, config)
    found = explain(translator, SENTENCE, target=TARGET, attribution="occlusion")
    words = found.attributed_words()
    assert words is not None
    assert words.source == ["gato", "come", "pan", "[", "rojo", "]", "</s>"]
    rows = torch.stack([s.attribution_S for s in found.steps if s.attribution_S is not None])
    whole_T = np.array(found.part.log_probs)
    for place, word in enumerate(["gato", "come", "pan"]):
        changed = " ".join(SENTENCE.replace(word, "").split())
        [part] = translator.force_decode([changed], [TARGET])
        assert part.log_probs is not None
        of_word = [place in of for of in source_words(found.part).of_pieces[:-1]]
        effect_T = rows[:, : len(of_word)][:, of_word].sum(1)
        np.testing.assert_allclose(effect_T, whole_T - part.log_probs, rtol=0, atol=1e-4)
    assert not rows[:, found.source.length - 1 :].any()  # the end and the padding


@every_model
@pytest.mark.parametrize("method", ["gradient", "integrated"])
def test_padding_has_no_part(
    translator: Translator, config: ModelConfig, method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, source, target = prepared(with_model(translator, config))
    alone_TS = attribute(model, source, target, method, [])

    def widened(*arguments: Any) -> Batch:
        batch = forced_batch(*arguments)
        return replace(batch, source_BS=nn.functional.pad(batch.source_BS, (0, 4), value=PAD))

    monkeypatch.setattr(attribution, "forced_batch", widened)
    padded_TS = attribute(model, source, target, method, [])
    torch.testing.assert_close(padded_TS[:, :-4], alone_TS, rtol=1e-6, atol=1e-9)
    assert not padded_TS[:, -4:].any()


@every_model
def test_models_share_no_gradient(translator: Translator, config: ModelConfig) -> None:
    """Neither the weights nor the hooks of the model are changed."""
    changed = with_model(translator, config)
    explain(changed, SENTENCE, target=TARGET, attribution="integrated")
    model = changed.models[0]
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("method", MEANINGS)
def test_without_attention(translator: Translator, method: Method) -> None:
    config = next(c for c in MODELS.values() if c.attention.score == "none")
    found = explain(with_model(translator, config), SENTENCE, attribution=method)
    shown = io.StringIO()
    print_explanation(found, shown)
    names = "|".join(map(re.escape, ("▁gato", "▁come", "▁pan", r"(end)")))
    assert (
        len(re.findall(rf"^ +\d+  ({names}) +-?\d+\.\d{{4}}$", shown.getvalue(), re.MULTILINE)) >= 2
    )
    assert f"most by {method}" in shown.getvalue()
    assert f'"method": "{method}"' in render_page(found)


@pytest.mark.parametrize("method", MEANINGS)
def test_command(
    trained: Path, translator: Translator, capsys: pytest.CaptureFixture[str], method: Method
) -> None:
    arguments = ["explain", str(trained), SENTENCE, "--attribution", method]
    assert main([*arguments, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    found = explain(translator, SENTENCE, attribution=method)
    assert data["attribution"] == {"method": method, "meaning": MEANINGS[method]}
    words = found.attributed_words()
    assert words is not None
    assert data["attributed_words"]["source"] == data["words"]["source"]
    np.testing.assert_allclose(data["attributed_words"]["weights"], words.weights)
    for step, shown in zip(found.steps, data["steps"], strict=True):
        assert step.attribution_S is not None
        assert len(step.attribution_S) == len(found.source.pieces)
        assert not step.attribution_S[-PADDING:].any()
        np.testing.assert_allclose(shown["attribution"]["data"], step.attribution_S)
    assert main(arguments) == 0
    text = capsys.readouterr().out
    first_S = found.steps[0].attribution_S
    assert first_S is not None
    assert re.search(rf"after mask +weight +{method}", text)
    for value in first_S.tolist():
        assert f" {value:.4f}" in text
    assert f"most by {method}" in text
    assert main([*arguments, "--words"]) == 0
    heaviest = words.source[int(words.weights[0].argmax())]
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if line.startswith(f"{words.target[0]} "))
    assert f"{heaviest} {words.weights[0].max():.2f}" in row


def test_not_with_given_weights(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="attribution: it needs the model's own weights"):
        explain(translator, SENTENCE, look={1: 1}, attribution="gradient")
