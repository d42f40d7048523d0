"""What follows if attention weights are given, against the model with its weights replaced."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from explaining import MODELS, with_model
from oracle.cases import for_each, tiny_config
from torch import Tensor

from seq2seq.analysis.explain import explain
from seq2seq.cli import main
from seq2seq.config import ModelConfig
from seq2seq.data.batching import make_batch
from seq2seq.data.tokenizer import BOS
from seq2seq.errors import ConfigError, DataError
from seq2seq.inference.translator import Translator
from seq2seq.model.attention import Attention, Memory

SENTENCE = "gato come pan"
TARGET = "cat eats bread"
every_model = for_each({n: c for n, c in MODELS.items() if c.attention.score != "none"})


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained, backend="torch")


@every_model
def test_look_replaces_the_weights_of_the_model(
    translator: Translator, config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oracle replaces the method that makes the weights, `explain` the attention's output."""
    changed = with_model(translator, config)
    found = explain(changed, SENTENCE, beam=1, target=TARGET, look={2: 3})
    tokens = [step.writes.id for step in found.steps[:-1]]
    assert tokens[:1] == translator.target.encode(TARGET)[:1]
    own = explain(changed, SENTENCE, target=TARGET)
    assert own.steps[1].attention is not None
    assert not own.steps[1].attention.looked

    calls = count(1)
    weights_of = Attention.weights

    def weights(attention: Attention, scores: Tensor, memory: Memory) -> Tensor:
        usual = weights_of(attention, scores, memory)
        if next(calls) != 2:
            return usual
        there = torch.zeros_like(usual)
        there[..., 2] = 1
        return there

    model = changed.models[0]
    batch = make_batch([translator.source.encode(SENTENCE)], [()], range(1))
    with monkeypatch.context() as patch, torch.no_grad():
        patch.setattr(Attention, "weights", weights)
        decoding = model.decoding(batch.source_BS, batch.source_mask_BS)
        state = decoding.start()
        for place, (piece, step) in enumerate(zip((BOS, *tokens), found.steps, strict=True)):
            logits_BV, weights_BS, state = decoding.step(torch.tensor([piece]), state)
            log_probs_V = logits_BV[0].log_softmax(-1)
            assert step.log_prob == pytest.approx(float(log_probs_V[step.writes.id]), abs=1e-4)
            assert step.attention is not None
            assert weights_BS is not None
            assert step.attention.looked == (place == 1)
            np.testing.assert_allclose(
                step.attention.mean_weights_S[: weights_BS.shape[1]], weights_BS[0], atol=1e-5
            )
            if place >= 1 and (found.part.finished or place < len(tokens)):
                assert step.rank == 1  # greedy search goes on from there
    assert not found.forced
    assert found.padding_difference < 1e-4


@every_model
def test_context_is_what_is_looked_at(translator: Translator, config: ModelConfig) -> None:
    changed = with_model(translator, config)
    found = explain(changed, SENTENCE, look={1: 2})
    [step, *_] = found.steps
    assert step.attention is not None
    if config.attention.score != "multi_head":
        assert found.source.values_SM is not None
        np.testing.assert_allclose(step.attention.context_M, found.source.values_SM[1], atol=1e-5)
    weights_NS = step.attention.weights_S.view(-1, len(found.source.pieces))
    assert weights_NS[:, 1].tolist() == [1.0] * config.attention.heads
    assert weights_NS.sum() == config.attention.heads


def test_own_weights_change_nothing(translator: Translator) -> None:
    usual = explain(translator, SENTENCE)
    assert usual.part.weights is not None
    look = {place: row.tolist() for place, row in enumerate(usual.part.weights, 1)}
    found = explain(translator, SENTENCE, look=look)
    assert found.part.text == usual.part.text
    assert found.part.log_prob == pytest.approx(usual.part.log_prob, abs=1e-4)
    assert found.part.log_probs == pytest.approx(usual.part.log_probs, abs=1e-4)


def test_another_word_is_translated(translator: Translator) -> None:
    found = {place: explain(translator, SENTENCE, look={1: place}) for place in (1, 2, 3)}
    words = {place: each.part.text.split()[0] for place, each in found.items()}
    assert len(set(words.values())) > 1, words
    one: Any = np.int64(1)
    assert explain(translator, SENTENCE, look={one: one}).part.text == found[1].part.text
    again = explain(translator, SENTENCE)
    assert again.part.text == TARGET  # nothing is left of it


def test_faults(translator: Translator, trained: Path) -> None:
    for look, message in (
        ({9: 1}, "no step 9; the translation has 4, so give 1 to 4"),
        ({0: 1}, "no step 0"),
        ({1: 5}, "no position 5; the source has 4 pieces"),
        ({1: 0}, "no position 0"),
        ({1: 1, 80: 1}, "no step 80; the translation that follows"),
        ({1: [1.0, 0.0]}, "expected 4 weights"),
        ({1: [0.5, 0.0, 0.0, 0.0]}, "expected 4 weights"),
        ({1: [2.0, -1.0, 0.0, 0.0]}, "expected 4 weights"),
        ({1: [float("nan")] * 4}, "expected 4 weights"),
    ):
        with pytest.raises(DataError, match=message):
            explain(translator, SENTENCE, look=look)
    without = tiny_config(**{"attention.score": "none"})
    with pytest.raises(ConfigError, match="the model has no attention"):
        explain(with_model(translator, without), SENTENCE, look={1: 1})


def test_command(trained: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["explain", str(trained), SENTENCE, "--look", "1:3"]
    page = tmp_path / "look.html"
    assert main([*arguments, "--html", str(page), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [step["looked"] for step in found["steps"]][:2] == [True, False]
    assert found["steps"][0]["mean_weights"]["data"][:4] == [0, 0, 1, 0]
    assert '"looked": true' in page.read_text(encoding="utf-8")
    assert main(arguments) == 0
    assert "what follows if the weights of step 1 are as given" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main([*arguments[:-1], "1-3"])
    assert "such as 2:1, found '1-3'" in capsys.readouterr().err
