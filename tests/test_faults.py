"""Every famous fault is caught by a check, and injecting it leaves the model unchanged."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from conftest import ToyCorpus, toy_pairs
from test_force import STYLES
from test_report import Tags

from seq2seq import cli
from seq2seq.analysis.faults import (
    BATCH,
    FAULTS,
    PADDINGS,
    FaultGallery,
    gallery_text,
    make_gallery,
    picture,
    translate_in_order,
    write_gallery,
)
from seq2seq.analysis.model_checks import MODEL_CHECKS, Probe, examine, make_probe
from seq2seq.config import ModelConfig
from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import references_of
from seq2seq.evaluation.metrics import score
from seq2seq.inference.protocol import Floats
from seq2seq.inference.torch_backend import TorchBackend
from seq2seq.inference.translator import Translator
from seq2seq.model.translation_model import TranslationModel

CAUGHT_BY = {
    "softmax-axis": {"weights sum to 1", "attention moves"},
    "no-mask": {"no weight on padding", "batch invariance"},
    "length-scale": {"batch invariance"},
    "state-reset": {"steps equal training", "history counts"},
    "ignores-source": {"attention moves"},
    "reads-padding": {"batch invariance"},
    "loss-mean": {"loss ignores padding"},
}
# Checks that hold for any weights, trained or not.
STRUCTURAL = {
    "weights sum to 1", "no weight on padding", "batch invariance", "order invariance",
    "beam 1 is greedy", "steps equal training", "history counts", "loss ignores padding",
}  # fmt: skip


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return [Pair(*pair) for pair in toy_pairs(60, 14)]


@pytest.fixture(scope="module")
def probe(trained: Path, pairs: list[Pair]) -> Probe:
    return make_probe(Translator.load(trained, backend="torch"), pairs, sentences=8)


@pytest.fixture(scope="module")
def before(probe: Probe) -> dict[str, torch.Tensor]:
    """Return the weights before any fault is injected."""
    return {name: tensor.clone() for name, tensor in probe.model.state_dict().items()}


@pytest.fixture(scope="module")
def gallery(probe: Probe, pairs: list[Pair], before: object) -> FaultGallery:
    return make_gallery(probe, pairs)


def failed(probe: Probe, names: Iterable[str]) -> set[str]:
    """Return which of these checks a probe fails."""
    checks = {name: MODEL_CHECKS[name] for name in names}
    with mock.patch.dict(MODEL_CHECKS, checks, clear=True):
        return {name for name, found in examine(probe).items() if found.passed is False}


def test_every_fault_is_caught_and_healthy_model_passes(gallery: FaultGallery) -> None:
    assert gallery.all_caught
    assert gallery.healthy.caught_by == []
    assert set(gallery.faulty) == set(CAUGHT_BY) == set(FAULTS)
    for name, result in gallery.faulty.items():
        assert set(result.caught_by) >= CAUGHT_BY[name], name


def test_injecting_faults_leaves_the_model_unchanged(
    probe: Probe, before: dict[str, torch.Tensor], gallery: FaultGallery, pairs: list[Pair]
) -> None:
    model = probe.model
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert {type(m).__module__.split(".")[0] for m in model.modules()} == {"seq2seq", "torch"}
    assert not any("diagnosis" in type(module).__module__ for module in model.modules())
    assert examine(probe.copy()) == gallery.healthy.findings
    assert all(finding.passed is not False for finding in examine(probe).values())
    bleu = score(translate_in_order(probe, pairs), references_of(pairs), "en")["bleu"].score
    assert bleu == gallery.healthy.bleu


@pytest.mark.parametrize("style", STYLES)
def test_faults_are_caught_in_every_style(style: str, probe: Probe) -> None:
    torch.manual_seed(3)
    old = probe.translator
    sizes = {"embedding_size": 16, "encoder_size": 12, "decoder_size": 24, "init": "scaled"}
    config = ModelConfig.model_validate({**sizes, **STYLES[style]})
    model = TranslationModel(config, old.source.vocab_size, old.target.vocab_size)
    translator = Translator([TorchBackend(model)], old.source, old.target, old.config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # for confident predictions
    fresh = Probe(translator, probe.pairs[:5])
    assert not failed(fresh, STRUCTURAL)
    for name, fault in FAULTS.items():
        checks = CAUGHT_BY[name] & STRUCTURAL
        assert failed(fault.inject(fresh.copy()), checks) == checks, name
    assert not failed(fresh, STRUCTURAL)


def test_attention_weights_of_each_fault(gallery: FaultGallery) -> None:
    def weights(name: str) -> Floats:
        found = gallery.faulty[name].picture.weights
        assert found is not None
        return found

    source = gallery.healthy.picture.source_pieces
    real = source.index("</s>") + 1
    assert source[real:]
    assert set(source[real:]) == {"<pad>"}
    healthy = gallery.healthy.picture.weights
    assert healthy is not None
    assert np.abs(healthy[:, real:]).max() == 0
    np.testing.assert_allclose(healthy.sum(1), 1, rtol=1e-6)
    assert (weights("softmax-axis")[:, :real] == 1).all()
    assert weights("no-mask")[:, real:].min() > 0
    np.testing.assert_allclose(weights("ignores-source")[:, :real], 1 / real, rtol=1e-6)
    reset = weights("state-reset")
    np.testing.assert_allclose(
        reset, np.repeat(reset[:1], len(reset), 0), rtol=1e-5
    )  # Bahdanau: one query for all
    entropy = {
        name: -(w * np.log(w.clip(1e-9))).sum(1).mean()
        for name, w in (("healthy", healthy), ("pale", weights("length-scale")))
    }
    assert entropy["pale"] > entropy["healthy"]


def test_bleu_of_each_fault(gallery: FaultGallery) -> None:
    bleu = {name: result.bleu for name, result in gallery.faulty.items()}
    assert bleu["softmax-axis"] < gallery.healthy.bleu - 20
    assert bleu["state-reset"] < gallery.healthy.bleu - 20
    assert bleu["loss-mean"] == gallery.healthy.bleu


def test_loss_that_counts_padding_shrinks(gallery: FaultGallery) -> None:
    for place in (0, 1):
        healthy = [pair[place] for pair in gallery.healthy.losses]
        faulty = [pair[place] for pair in gallery.faulty["loss-mean"].losses]
        assert healthy == pytest.approx([healthy[0]] * len(PADDINGS), rel=1e-4)
        assert faulty == sorted(faulty, reverse=True)
        # The sum over real pieces is constant, so the loss falls with the number of columns.
        shares = [faulty[0] / value for value in faulty]
        width = (shares[-1] - 1) / PADDINGS[-1]
        assert shares == pytest.approx([1 + width * columns for columns in PADDINGS], rel=1e-3)
        assert faulty[-1] < faulty[0] / 2


def test_translation_in_order_matches_translator(probe: Probe, pairs: list[Pair]) -> None:
    many = pairs * 2
    assert len(many) > 2 * BATCH
    options = probe.translator.options(beam_size=1)
    expected = probe.translator.translate([pair.source for pair in many], options)
    assert translate_in_order(probe, many) == [found[0].text for found in expected]


def test_picture_matches_search(probe: Probe) -> None:
    source = Pair("gato come pan", "cat eats bread")
    found = picture(probe, [source, Pair("gato come pan agua rojo ve", "x")])
    options = probe.translator.options(beam_size=1, keep_weights=True)
    (part,) = probe.translator.translate([source.source], options)[0][0].parts
    assert (found.text, found.target_pieces) == (part.text, part.target_pieces)
    assert found.weights is not None
    assert part.weights is not None
    np.testing.assert_allclose(
        found.weights[:, : len(part.source_pieces)], part.weights, atol=1e-5, rtol=0
    )


def test_model_without_attention_is_rejected(probe: Probe) -> None:
    old = probe.translator
    sizes = {"embedding_size": 8, "encoder_size": 8, "decoder_size": 8}
    config = ModelConfig.model_validate({**sizes, "attention": {"score": "none"}})
    model = TranslationModel(config, old.source.vocab_size, old.target.vocab_size)
    translator = Translator([TorchBackend(model)], old.source, old.target, old.config)
    with pytest.raises(DataError, match=r"attention\.score none"):
        make_gallery(Probe(translator, probe.pairs), probe.pairs)


def test_page_and_figures(gallery: FaultGallery, tmp_path: Path) -> None:
    path = write_gallery(tmp_path / "out", gallery, run="runs/<b>", test="t&t")
    tags = Tags(path.read_text())
    assert not {tag for tag, _ in tags.seen} & {"script", "img", "b"}
    text = "".join(tags.texts)
    for fault in FAULTS.values():
        assert fault.title in text
    assert text.count("Reported in github.com/") == len(FAULTS)
    assert sum(attrs.get("class") == "heat" for _, attrs in tags.seen) == len(FAULTS)
    lines = gallery_text(gallery).splitlines()
    assert len(lines) == len(FAULTS) + 3
    assert "passes all checks" in lines[1]
    assert "NO CHECK" not in "".join(lines)
    assert path.read_text().startswith("<!doctype html>")
    assert not (tmp_path / "out/loss-mean.png").exists()  # it has no heat map
    for name in {"healthy", *CAUGHT_BY} - {"loss-mean"}:
        found = (tmp_path / f"out/{name}.png").read_bytes()
        assert found.startswith(b"\x89PNG")
        assert len(found) < 100_000
    with pytest.raises(DataError, match="cannot be written"):
        write_gallery(path, gallery, run="r", test="t")


def test_command(
    toy: ToyCorpus, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = toy.folder / "valid.tsv"
    out = tmp_path / "out"
    command = ["faults", str(trained), "--test", str(test), "--sentences", "3", "--out", str(out)]
    assert cli.main(command) == 0
    found = capsys.readouterr().out
    assert found.count("\n") == len(FAULTS) + 3
    assert "3 sentences" in found
    assert (out / "faults.html").exists()
    assert cli.main(["faults", str(tmp_path / "none")]) == 2
