"""Exports are runs of their own, with ONNX files; both backends translate alike."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ToyCorpus, toy_pairs
from foreign import alter_state, checkpoint_of

from seq2seq import cli
from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.errors import ConfigError, DataError
from seq2seq.export import META, export
from seq2seq.inference import onnx_backend
from seq2seq.inference.onnx_backend import KINDS, OnnxBackend
from seq2seq.inference.sampling import Sampling
from seq2seq.inference.translator import Translator
from seq2seq.onnx import PRECISIONS

NAMES = {f"{kind}.{p}.onnx" for kind in KINDS for p in PRECISIONS} | {META}


@pytest.fixture
def run(single: Path, tmp_path: Path) -> Path:
    """Return a run with one checkpoint."""
    return Path(shutil.copytree(single, tmp_path / "run"))


def translation(*paths: Path, **options: Any) -> str:
    return Translator.load(*paths, **options).translate(["gato come"])[0][0].text


def command(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


# --- seq2seq export


@pytest.mark.parametrize("precision", ["fp32", "int8", None])
def test_export_to_a_directory(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], precision: str | None
) -> None:
    asked = [] if precision is None else ["--precision", precision]
    for _ in range(2):
        assert command("export", run, "-o", tmp_path / "to/dog", *asked) == 0
    names = {name for name in NAMES if precision in (None, name.split(".")[1]) or name == META}
    found = {path.relative_to(tmp_path / "to/dog") for path in (tmp_path / "to/dog").rglob("*.*")}
    assert {path.name for path in found if path.parts[0] == "graph"} == names
    assert {str(path) for path in found if path.parts[0] != "graph"} == {
        "config.yaml", "source.model", "target.model",
        *(f"checkpoints/step-000150/{n}" for n in ("model.safetensors", "state.json")),
    }  # fmt: skip
    assert f"translate with: seq2seq translate {tmp_path / 'to/dog'}" in capsys.readouterr().out
    assert translation(tmp_path / "to/dog") == translation(run) == "cat eats"
    weights = [checkpoint_of(each) / "model.safetensors" for each in (run, tmp_path / "to/dog")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_export_as_json(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "dog"
    assert command("export", run, "-o", output, "--json", "--precision", "fp32") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["path"], found["checkpoint"]) == (str(output), "step-000150")
    assert found["int8_bleu_loss"] is None
    for name, size in found["bytes"].items():
        assert (output / name).stat().st_size == size
    assert f"graph/{META}" in found["bytes"]


def test_export_refuses_other_runs_and_what_cannot_be_written(
    run: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataError, match="a run with checkpoints of its own; name another"):
        export(run, trained)
    (tmp_path / "file").write_text("")
    for path in ("file", "file/dog"):
        with pytest.raises(DataError, match="cannot be written"):
            export(run, tmp_path / path)
    assert command("export", run) == 2
    assert "export requires --output DIR or --web DIR" in capsys.readouterr().err


def test_int8_is_measured_on_the_data_that_is_named(
    run: Path,
    toy: ToyCorpus,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.INFO)
    assert "int8_bleu_loss" not in export(run, tmp_path / "dog").state
    assert "int8 was not measured, so --precision auto will not use it" in caplog.text
    pairs = [line.split("\t")[:2] for line in (toy.folder / "valid.tsv").read_text().splitlines()]
    sides = tmp_path / "valid.es", tmp_path / "valid.en"
    for side, texts in zip(sides, zip(*pairs, strict=True), strict=True):
        side.write_text("".join(f"{text}\n" for text in texts))
    for named in ([toy.folder / "valid.tsv"], [sides[0], "--target", sides[1]]):
        assert command("export", run, "-o", tmp_path / "dog", "--json", "--valid", *named) == 0
        cost = json.loads(capsys.readouterr().out)["int8_bleu_loss"]
        assert cost is not None
    for wrong in (["--target", sides[1]], ["--valid", "none"]):
        assert command("export", run, "-o", tmp_path / "dog", *wrong) == 2
        assert "--valid" in (error := capsys.readouterr().err) or "no such file" in error


def test_what_is_known_of_int8_is_kept_with_the_weights(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alter_state(run, lambda state: state.update(int8_bleu_loss=0.125))
    assert export(run, tmp_path / "dog").state["int8_bleu_loss"] == 0.125
    assert export(tmp_path / "dog", tmp_path / "again").state["int8_bleu_loss"] == 0.125
    assert "int8_bleu_loss" not in export(run, tmp_path / "small", compact=True).state


def test_exported_directory_is_a_run(
    exported: Path, toy: ToyCorpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("gato come\nperro\n")
    assert command("translate", exported, "-i", lines, "--attention", "--format", "jsonl") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["text"] for line in found] == ["cat eats", "dog"]
    test = toy.folder / "test.tsv"
    assert command("evaluate", exported, test, "-o", tmp_path / "out", "--workers", 2) == 0
    assert "BLEU" in capsys.readouterr().out
    assert len((tmp_path / "out").read_text().splitlines()) == 20
    assert command("align", exported, test, "-o", tmp_path / "links") == 0
    assert (tmp_path / "links").read_text().startswith("0-0")
    assert command("explain", exported, "gato") == 0


# --- one translation, whatever computes it

SENTENCES = [source for source, _ in toy_pairs(500, 77)]
SEARCHES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 5},
    "list": {"beam_size": 5, "nbest": 5, "no_repeat_ngram": 2},
    "coverage": {"beam_size": 3, "coverage_penalty": 0.3, "length_penalty": 0.6},
}


@pytest.fixture(scope="module")
def both(trained: Path) -> tuple[Translator, Translator]:
    return Translator.load(trained, backend="onnx"), Translator.load(trained, backend="torch")


@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_selected_sentences_are_decoded_from_their_start(single: Path, backend: str) -> None:
    [model] = Translator.load(single, device="cpu", backend=backend).backends
    decoding = model.decoding(np.array([[4, 5, EOS], [6, EOS, PAD], [7, 8, EOS]]))
    tokens, chosen = np.array([BOS] * 3), np.array([0, 2])
    before = decoding.step(tokens, decoding.start(), weights=True)
    fewer = decoding.select(chosen)
    after = fewer.step(tokens[:2], fewer.start(), weights=True)
    assert after.log_probs_RC == pytest.approx(before.log_probs_RC[chosen], abs=1e-5)
    if backend == "onnx":  # which moves the memory: nothing may refer to the sentences of before
        assert decoding is fewer


@pytest.mark.parametrize("name", SEARCHES)
def test_backends_translate_alike(both: tuple[Translator, Translator], name: str) -> None:
    options = both[0].options(**SEARCHES[name], keep_weights=True)
    found, expected = (translator.translate(SENTENCES, options) for translator in both)
    for one, other in zip(found, expected, strict=True):
        assert [each.text for each in one] == [each.text for each in other]
        assert [each.score for each in one] == pytest.approx([e.score for e in other], abs=1e-4)
        for mine, yours in zip(one, other, strict=True):
            for part, same in zip(mine.parts, yours.parts, strict=True):
                np.testing.assert_allclose(part.weights, same.weights, rtol=0, atol=1e-4)


def test_backends_sample_alike(both: tuple[Translator, Translator]) -> None:
    sampling = Sampling(num_samples=2, temperature=1.0, seed=3)
    found, expected = (
        [sample.text for line in each.translate(SENTENCES, sampling=sampling) for sample in line]
        for each in both
    )
    # Sums of probabilities differ by rounding, and a draw may fall between both: with two of
    # thirty seeds it did, for one sample of the thousand.
    assert len(found) == len(expected) == 2 * len(SENTENCES)
    assert sum(one != other for one, other in zip(found, expected, strict=True)) <= 1


def test_backends_force_alike(both: tuple[Translator, Translator]) -> None:
    targets = [target for _, target in toy_pairs(500, 77)]
    found, expected = (each.force_decode(SENTENCES, targets) for each in both)
    for part, same in zip(found, expected, strict=True):
        assert part.log_prob == pytest.approx(same.log_prob, abs=1e-4)
        np.testing.assert_allclose(part.weights, same.weights, rtol=0, atol=1e-4)


def test_int8_translates_nearly_alike(both: tuple[Translator, Translator], trained: Path) -> None:
    reduced = Translator.load(trained, precision="int8")
    found, expected = (each.translate(SENTENCES) for each in (reduced, both[0]))
    equal = sum(one[0].text == other[0].text for one, other in zip(found, expected, strict=True))
    assert equal >= 0.95 * len(SENTENCES)


@pytest.mark.parametrize("vnni", [True, False])
def test_int8_products_are_summed_in_32_bits(
    trained: Path, monkeypatch: pytest.MonkeyPatch, vnni: bool
) -> None:
    monkeypatch.setattr(onnx_backend, "has_vnni", lambda: vnni)
    [backend] = Translator.load(trained, precision="int8").backends
    assert isinstance(backend, OnnxBackend)
    for session in (backend.encoder, backend.embedding, backend.step):
        options = session.get_session_options()
        entry = options.get_session_config_entry("session.x64quantprecision")
        assert entry == ("0" if vnni else "1")


def test_backend_is_onnx(trained: Path) -> None:
    assert [type(backend) for backend in Translator.load(trained).backends] == [OnnxBackend]


def test_checkpoint_is_exported(trained: Path, tmp_path: Path) -> None:
    for name in ("step-000050", "average"):
        made = export(trained / "checkpoints" / name, tmp_path / name, ["fp32"])
        assert made.path == tmp_path / name / "checkpoints" / name
        assert json.loads((tmp_path / name / "graph" / META).read_text())["checkpoint"] == name


def test_directories_of_others_are_left_alone(run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/config.yaml").write_text("mine: 1\n")
    with pytest.raises(DataError, match="mine: not empty, and not an earlier export"):
        export(run, tmp_path / "mine")
    assert (tmp_path / "mine/config.yaml").read_text() == "mine: 1\n"
    for inside in ("graph", "checkpoints"):
        with pytest.raises(DataError, match="within the run itself"):
            export(run, run / inside)
    with pytest.raises(ConfigError, match="unknown precision 'fp16'; use fp32 or int8"):
        export(run, tmp_path / "new", ["fp16"])  # type: ignore[list-item]
    (run / "target.model").unlink()
    with pytest.raises(DataError, match=r"target.model: cannot be read"):
        export(run, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"backend": "onx"}, "unknown backend 'onx'; use one of auto, onnx, torch"),
        ({"precision": "fp8"}, "unknown precision 'fp8'"),
        ({"threads": -1}, "threads: expected 1 or more, found -1"),
    ],
)
def test_unknown_choices_are_refused(trained: Path, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Translator.load(trained, **wrong)


def test_one_text_instead_of_lines_is_refused(trained: Path) -> None:
    with pytest.raises(DataError, match=r"pass \[text\]"):
        Translator.load(trained).translate("gato")
