"""Runs whose weights are int8: they translate, can be fine-tuned, and are checked like others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ToyCorpus
from safetensors.numpy import load_file, save_file

from seq2seq.cli import main
from seq2seq.errors import CheckpointError, DataError
from seq2seq.export import export, read_valid
from seq2seq.files import sha256
from seq2seq.inference.translator import Translator
from seq2seq.pipeline import train
from seq2seq.runs.checkpoint import Checkpoint
from seq2seq.runs.directory import RunDirectory

SCALE = "output_weight.row_scale"


@pytest.fixture
def small(toy: ToyCorpus, trained: Path, tmp_path: Path) -> Path:
    valid = read_valid(trained, str(toy.folder / "valid.tsv"))
    export(trained, tmp_path / "small", compact=True, valid=valid)
    return tmp_path / "small"


def checkpoint_of(run: Path) -> Checkpoint:
    return RunDirectory(run).best("bleu")


def test_weights_are_rounded_to_steps_of_their_row(trained: Path, small: Path) -> None:
    before, after = checkpoint_of(trained).arrays(), checkpoint_of(small).arrays()
    assert before.keys() == after.keys()
    assert checkpoint_of(small).shapes() == checkpoint_of(trained).shapes()
    for name, array in before.items():
        step = np.abs(array).max(-1, keepdims=True) / 127 if array.ndim == 2 else 0
        assert (np.abs(after[name] - array) <= step / 2 * 1.001).all()
        assert after[name].dtype == np.float32


def test_directory_holds_no_more_than_translating_needs(trained: Path, small: Path) -> None:
    files = {str(path.relative_to(small)) for path in small.rglob("*") if path.is_file()}
    folder = f"checkpoints/{checkpoint_of(trained).path.name}"
    assert files == {
        "config.yaml", "source.model", "target.model",
        *(f"{folder}/{name}" for name in ("model.safetensors", "state.json", "SHA256SUMS")),
    }  # fmt: skip
    sizes = [
        (checkpoint_of(run).path / "model.safetensors").stat().st_size for run in (trained, small)
    ]
    assert sizes[1] < 0.45 * sizes[0]  # a toy's header is large


def test_costs_are_kept_in_the_state(small: Path) -> None:
    state = checkpoint_of(small).verify().state
    assert set(state) >= {"step", "validation", "compact_bleu_loss", "int8_bleu_loss"}


def test_backends_translate_alike(small: Path) -> None:
    one, other = (Translator.load(small, backend=name) for name in ("onnx", "torch"))  # type: ignore[arg-type]
    lines = ["gato come pan", "él ve agua grande"]
    for [found], [expected] in zip(one.translate(lines), other.translate(lines), strict=True):
        assert found.text == expected.text
        assert found.score == pytest.approx(expected.score, abs=1e-4)


def test_rounding_again_changes_nothing(small: Path, tmp_path: Path) -> None:
    export(small, tmp_path / "again", compact=True)
    before, after = checkpoint_of(small).arrays(), checkpoint_of(tmp_path / "again").arrays()
    for name, array in before.items():
        np.testing.assert_allclose(after[name], array, rtol=1e-6)


def test_exports_replace_each_other_but_no_run(
    trained: Path, small: Path, other: Path, tmp_path: Path
) -> None:
    made = export(other, small, ["fp32"])
    assert [*(small / "checkpoints").iterdir()] == [made.path]
    export(trained, small, compact=True)
    assert not (small / "graph").exists()
    with pytest.raises(DataError, match="a run with checkpoints of its own"):
        export(trained, other)


def test_directories_of_others_are_left_alone(trained: Path, other: Path, tmp_path: Path) -> None:
    foreign, run = tmp_path / "foreign/checkpoints", tmp_path / "run"
    foreign.mkdir(parents=True)
    (foreign / "other.ckpt").write_text("x")
    shutil.copytree(trained, run)
    (run / "data.json").unlink()
    for path in (foreign.parent, run):
        with pytest.raises(DataError, match="a run with checkpoints of its own"):
            export(other, path)
    assert (foreign / "other.ckpt").exists()
    assert RunDirectory(run).newest().state["progress"]


def test_failed_export_leaves_the_one_before(trained: Path, small: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(trained, bad)
    text = (bad / "config.yaml").read_text()
    (bad / "config.yaml").write_text(text.replace("lexical: false", "lexical: true"))
    before = {path: path.read_bytes() for path in small.rglob("*") if path.is_file()}
    for compact in (True, False):
        with pytest.raises(CheckpointError, match=r"missing \['lexical\.weight'\]"):
            export(bad, small, compact=compact)
    assert before == {path: path.read_bytes() for path in small.rglob("*") if path.is_file()}


def test_resuming_is_refused(small: Path, toy: ToyCorpus) -> None:
    config = RunDirectory(small).config()
    moved = config.model_copy(update={"run_dir": str(small)})
    with pytest.raises(CheckpointError, match="exported, so --resume cannot continue it"):
        train(moved, resume=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda arrays: arrays.pop(SCALE), "output_weight has the type I8; training writes F32"),
        (lambda arrays: arrays.update({SCALE: arrays[SCALE][:-1]}), "one scale for each row"),
        (lambda arrays: arrays.update({SCALE: arrays[SCALE].astype("f8")}), "has the type F64"),
        (lambda arrays: arrays.update({"x.row_scale": arrays[SCALE]}), "one scale for each row"),
        (lambda arrays: arrays.update(x=arrays[SCALE]), r"unknown \['x'\]"),
        (lambda arrays: arrays.pop("output_bias"), "missing.*output_bias"),
        (lambda arrays: arrays.update(output_bias=arrays["output_bias"][1:]), "has the shape"),
    ],
)
@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_weights_that_do_not_fit_are_refused(
    small: Path, backend: Any, change: Callable[[dict[str, Any]], Any], words: str
) -> None:
    folder = checkpoint_of(small).path
    arrays = load_file(folder / "model.safetensors")
    change(arrays)
    save_file(arrays, folder / "model.safetensors")
    names = ("model.safetensors", "state.json")
    sums = "".join(f"{sha256(folder / name)}  {name}\n" for name in names)
    (folder / "SHA256SUMS").write_text(sums)
    with pytest.raises(CheckpointError, match=words):
        Translator.load(small, backend=backend)


def test_command(
    toy: ToyCorpus, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, path = str(trained), str(tmp_path / "small")
    valid = ["--valid", str(toy.folder / "valid.tsv")]
    assert main(["export", run, "-o", path, "--compact", "--json", *valid]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {Path(name).name for name in found["bytes"]} == {
        "model.safetensors", "state.json", "SHA256SUMS",
    }  # fmt: skip
    assert isinstance(found["compact_bleu_loss"], float)
    assert main(["export", run, "-o", path, "--compact", *valid]) == 0
    printed = capsys.readouterr().out
    assert "int8 weights: " in printed
    assert main(["export", run, "-o", path, "--compact"]) == 0
    printed = capsys.readouterr().out
    assert "int8 weights: " not in printed
    assert printed.endswith(f"translate with: seq2seq translate {path}\n")
    assert main(["export", run, "--compact", "-o", path, "--precision", "int8"]) == 2
    assert "--compact writes no ONNX files" in capsys.readouterr().err
