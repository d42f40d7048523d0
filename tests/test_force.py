"""Forced decoding: the model's probabilities and attention for a given translation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import toy_pairs
from prefix_model import EOS, prefix_model

from seq2seq.config import ModelConfig
from seq2seq.data.batching import make_batch
from seq2seq.errors import CheckpointError, DataError
from seq2seq.inference.protocol import SearchOptions
from seq2seq.inference.search import force_decode
from seq2seq.inference.torch_backend import TorchBackend
from seq2seq.inference.translator import Translator
from seq2seq.model.translation_model import TranslationModel

STYLES = {
    "bahdanau": {"style": "bahdanau", "attention": {"score": "additive", "size": 7}},
    "seen": {"attention": {"score": "additive", "size": 7, "previous_piece": True}},
    "conditional": {"style": "conditional", "decoder_layers": 2},
    "luong": {"style": "luong", "attention": {"score": "general"}, "decoder_layers": 2},
    "unfed": {"style": "luong", "input_feeding": False, "attention": {"score": "concat"}},
    "heads": {"style": "luong", "attention": {"score": "multi_head", "heads": 2}},
    "pre_attention": {"style": "pre_attention", "attention": {"score": "scaled_dot"}},
}


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained)


def test_endless_target_is_refused(translator: Translator) -> None:
    with pytest.raises(DataError, match=r"target 2 of 2: 1\d{4} pieces are too many"):
        translator.force_decode(["gato", "pan"], ["cat", "bread " * 10_000])


@pytest.mark.parametrize("targets", [[[4, 5, 4, 4], [], [6]], [[1], [4, 6], [5] * 9]])
def test_force_follows_the_target(targets: list[list[int]]) -> None:
    model = prefix_model(3, [4, 2, 6])
    options = SearchOptions(
        length_penalty=0.7, coverage_penalty=0.3, max_length_offset=1, no_repeat_ngram=1,
        keep_weights=True,
    )  # fmt: skip
    found = force_decode(model, targets, options)
    for sentence, (tokens, hypothesis) in enumerate(zip(targets, found, strict=True)):
        length = [4, 2, 6][sentence]
        rows, total = [], 0.0
        for step, piece in enumerate([*tokens, EOS]):
            prefix = (2, *tokens[:step])
            logits = model.logits(sentence, prefix)
            total += logits[piece] - np.log(np.exp(logits).sum())
            rows.append(model.weights(sentence, prefix, length))
        assert hypothesis.tokens == tokens
        assert hypothesis.finished
        assert hypothesis.log_prob == pytest.approx(total)
        coverage = np.log(np.minimum(np.sum(rows, 0), 1)).sum()
        norm = ((5 + len(tokens) + 1) / 6) ** 0.7
        assert hypothesis.score == pytest.approx(total / norm + 0.3 * coverage, rel=1e-5)
        assert hypothesis.weights is not None
        np.testing.assert_allclose(hypothesis.weights, rows)


@pytest.mark.parametrize("style", STYLES)
def test_force_matches_teacher_forcing(style: str) -> None:
    torch.manual_seed(1)
    sizes = {"embedding_size": 8, "encoder_size": 6, "decoder_size": 12, "init": "scaled"}
    model = TranslationModel(ModelConfig.model_validate({**sizes, **STYLES[style]}), 20, 23).eval()
    sources = [[5, 6, 7, 8, 9], [4], [10, 11, 12]]
    targets = [[4, 5], [6, 7, 8, 9, 10, 11], []]
    batch = make_batch(sources, targets, [0, 1, 2])
    with torch.no_grad():
        readout_BTO, weights_BTS = model(batch.source_BS, batch.source_mask_BS, batch.inputs_BT)
        log_probs_BTV = model.logits(readout_BTO).log_softmax(-1)
    decoding = TorchBackend(model).decoding(batch.source_BS.numpy())
    found = force_decode(decoding, targets, SearchOptions(keep_weights=True))
    assert weights_BTS is not None
    for row, hypothesis in enumerate(found):
        steps, length = len(targets[row]) + 1, len(sources[row]) + 1
        chosen = log_probs_BTV[row, :steps].gather(1, batch.labels_BT[row, :steps, None])
        assert hypothesis.log_prob == pytest.approx(float(chosen.sum()), abs=1e-4)
        assert hypothesis.weights is not None
        np.testing.assert_allclose(
            hypothesis.weights, weights_BTS[row, :steps, :length], rtol=1e-4, atol=1e-6
        )


def test_forcing_a_found_translation_gives_its_score(translator: Translator) -> None:
    sources = [source for source, _ in toy_pairs(9, 5)]
    options = translator.options(keep_weights=True)
    found = [best[0].parts[0] for best in translator.translate(sources, options)]
    forced = translator.force_decode(sources, [part.text for part in found])
    for one, other in zip(found, forced, strict=True):
        assert (one.source_pieces, one.text) == (other.source_pieces, other.text)
        if one.target_pieces == other.target_pieces:
            assert one.score == pytest.approx(other.score, abs=1e-4)
            assert one.weights is not None
            assert other.weights is not None
            np.testing.assert_allclose(one.weights, other.weights, atol=1e-4, rtol=0)
    assert sum(a.target_pieces == b.target_pieces for a, b in zip(found, forced, strict=True)) > 6


def test_force_does_not_depend_on_batch(trained: Path, other: Path) -> None:
    both = Translator.load(trained, other)
    sources, targets = zip(*toy_pairs(12, 6), strict=True)
    budget = both.config.inference.model_copy(update={"batch_tokens": 1})
    together = both.force_decode(sources, targets)
    both.config = both.config.model_copy(update={"inference": budget})
    for one, other_one in zip(together, both.force_decode(sources, targets), strict=True):
        assert one.log_prob == pytest.approx(other_one.log_prob, abs=1e-4)
        assert one.weights is not None
        assert other_one.weights is not None
        np.testing.assert_allclose(one.weights, other_one.weights, atol=1e-5, rtol=0)


def test_unusual_lines(translator: Translator) -> None:
    long = "gato " * 60  # more than inference.max_source_length
    parts = translator.force_decode(["", "gato", long, " \t"], ["cat", "", "cat", ""])
    assert [part.text for part in parts] == ["cat", "", "cat", ""]
    assert [len(part.source_pieces) for part in parts] == [1, 2, 61, 1]
    assert [tuple(part.weights.shape) for part in parts if part.weights is not None] == [
        (len(part.target_pieces), len(part.source_pieces)) for part in parts
    ]
    assert parts[1].log_prob < translator.force_decode(["gato"], ["cat"])[0].log_prob
    assert translator.force_decode([], []) == []
    with pytest.raises(DataError, match="2 sources for 1 targets"):
        translator.force_decode(["a", "b"], ["c"])


def test_nonfinite_weights_raise(trained: Path) -> None:
    translator = Translator.load(trained, backend="torch")
    with torch.no_grad():
        translator.models[0].output_bias.fill_(float("nan"))
    with pytest.raises(CheckpointError, match="not finite"):
        translator.force_decode(["gato"], ["cat"])
