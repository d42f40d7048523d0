"""The graphs that translate are built from the weights and kept in the user's cache."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from conftest import ToyCorpus
from foreign import alter_config, alter_state, checkpoint_of

from seq2seq import cli
from seq2seq import export as exporting
from seq2seq.errors import CheckpointError, ConfigError
from seq2seq.files import replaced
from seq2seq.inference import onnx_backend as module
from seq2seq.inference import translator
from seq2seq.inference.torch_backend import TorchBackend
from seq2seq.inference.translator import Translator
from seq2seq.pipeline import train
from seq2seq.runs.checkpoint import add_to_state
from seq2seq.runs.directory import RunDirectory


@pytest.fixture
def run(single: Path, tmp_path: Path) -> Path:
    """Return a run with one checkpoint."""
    return Path(shutil.copytree(single, tmp_path / "run"))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/seq2seq"


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the checkpoints that graphs are built from, as they are built."""
    names: list[str] = []
    build = module.build_graphs

    def note(checkpoint: Any, *arguments: Any) -> dict[str, bytes]:
        names.append(checkpoint.path.name)
        return build(checkpoint, *arguments)

    monkeypatch.setattr(module, "build_graphs", note)
    return names


def translation(*paths: Path, **options: Any) -> str:
    return Translator.load(*paths, **options).translate(["gato come"])[0][0].text


# --- the cache


def test_graphs_are_built_once(run: Path, cache: Path, built: list[str]) -> None:
    before = sorted(path.name for path in run.rglob("*"))
    for _ in range(2):
        assert translation(run) == "cat eats"
    assert built == ["step-000150"]
    assert sorted(path.name for path in run.rglob("*")) == before
    [entry] = cache.glob("graphs-*")
    assert {path.name for path in entry.glob("*.onnx")} == {f"{k}.onnx" for k in module.KINDS}


@pytest.mark.parametrize(
    "change",
    [
        lambda run, patch: alter_config(run, "dropout: 0.1", "dropout: 0.2"),
        lambda run, patch: patch.setattr(module, "BUILDER", 0),
        lambda run, patch: patch.setattr(module, "VERSION", "0"),
    ],
)
def test_other_recipes_and_versions_have_graphs_of_their_own(
    run: Path,
    cache: Path,
    built: list[str],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, pytest.MonkeyPatch], None],
) -> None:
    translation(run)
    change(run, monkeypatch)
    translation(run)
    assert len(built) == len(list(cache.glob("graphs-*"))) == 2


def test_graphs_in_a_run_are_ignored(run: Path, cache: Path, built: list[str]) -> None:
    """Earlier versions wrote graphs into runs, and anyone can."""
    (run / "graph").mkdir()
    (run / "graph/graph.json").write_bytes(b"{")
    (run / "graph/step.fp32.onnx").symlink_to("/dev/zero")
    assert translation(run) == "cat eats"
    assert built == ["step-000150"]
    assert (run / "graph/graph.json").read_bytes() == b"{"


@pytest.mark.parametrize("damage", ["cut", "zeros"])
def test_damaged_entry_is_built_again(
    run: Path, cache: Path, built: list[str], caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    translation(run)
    [path] = cache.glob("graphs-*/step.onnx")
    status = path.stat()
    path.write_bytes(path.read_bytes()[:-1] if damage == "cut" else bytes(status.st_size))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    for _ in range(2):
        assert translation(run) == "cat eats"
    assert len(built) == 2
    [warning] = [record.getMessage() for record in caplog.records]
    assert "is damaged; rebuilding it" in warning


@pytest.mark.parametrize("home", ["file", "/proc/none"])
def test_cache_that_cannot_be_written_is_done_without(
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    built: list[str],
    caplog: pytest.LogCaptureFixture,
    home: str,
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / home))
    with caplog.at_level(logging.DEBUG, module.__name__):
        assert translation(run) == "cat eats"
    found = [each for each in caplog.records if "cannot be written" in each.getMessage()]
    assert [record.levelname for record in found] == ["DEBUG"]
    assert built == ["step-000150"]


def test_home_directory_is_done_without(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "expanduser", Mock(side_effect=RuntimeError("no home directory")))
    assert translation(run) == "cat eats"


def test_full_disk_is_done_without(
    run: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, built: list[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device", str(cache))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    assert translation(run) == "cat eats"
    assert not list(cache.glob("graphs-*"))


def test_cache_is_read_where_it_cannot_be_written(
    run: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, built: list[str]
) -> None:
    translation(run)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(cache))

    monkeypatch.setattr("seq2seq.data.cache.tempfile.TemporaryFile", refuse)
    monkeypatch.setattr("seq2seq.data.cache.locked", refuse)
    assert translation(run) == "cat eats"
    assert len(built) == 1


def test_runtime_that_cannot_load_graphs_is_one_line(
    run: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "build_graphs", lambda *_: dict.fromkeys(module.KINDS, b"?"))
    assert cli.main(["translate", str(run), "-i", str(run / "config.yaml")]) == 2
    assert "install another version of onnxruntime" in capsys.readouterr().err.splitlines()[-1]


def test_two_processes_build_at_once(run: Path, cache: Path) -> None:
    code = "import sys; from seq2seq.cli import main; sys.exit(main(['translate', sys.argv[1]]))"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, run],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    assert [each.communicate("gato come\n")[0] for each in processes] == ["cat eats\n"] * 2
    assert len(list(cache.glob("graphs-*"))) == 1
    assert not list(cache.glob(".*.partial"))


def test_translating_imports_no_torch(run: Path, cache: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from seq2seq.cli import main\nsys.exit(main(['translate', sys.argv[1]]))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, run], input="gato come\n", capture_output=True, text=True
    )
    assert (found.stdout, found.stderr) == ("cat eats\n", "")


# --- which weights


def test_damaged_best_checkpoint_is_passed_over(
    run: Path, trained: Path, cache: Path, built: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(trained / "checkpoints/step-000050", run / "checkpoints/step-000050")
    os.truncate(checkpoint_of(run) / "model.safetensors", 5000)
    for _ in range(2):
        Translator.load(run)
    assert built == ["step-000050"]
    assert "step-000150: damaged, model.safetensors" in caplog.text


def test_better_checkpoint_is_used(run: Path, trained: Path, cache: Path, built: list[str]) -> None:
    translation(run)
    shutil.copytree(trained / "checkpoints/average", run / "checkpoints/average")
    shutil.rmtree(checkpoint_of(run))
    assert translation(run) == "cat eats"
    assert built == ["step-000150", "average"]


def test_checkpoint_of_a_path_is_used(trained: Path, cache: Path, built: list[str]) -> None:
    for _ in range(2):
        early, late = (
            Translator.load(trained / f"checkpoints/step-{step}").translate(["gato come"])[0][0]
            for step in ("000050", "000150")
        )
        assert early.score < late.score
    assert built == ["step-000050", "step-000150"]


def test_folder_without_weights_is_refused(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Earlier versions exported such folders, and `--web` has one."""
    bare = shutil.copytree(exported, tmp_path / "bare")
    shutil.rmtree(bare / "checkpoints")
    lines = str(bare / "config.yaml")
    for command in (["translate", bare, "-i", lines], ["explain", bare, "gato"]):
        assert cli.main([str(word) for word in command]) == 2
        error = capsys.readouterr().err
        assert "bare: has ONNX files for other programs, but no weights; use the" in error


# --- backend and precision


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backend": "onnx", "precision": "bf16"}, "not in bf16; use backend torch"),
        ({"backend": "onnx", "device": "cuda"}, "backend onnx.* not on cuda"),
        ({"backend": "torch", "precision": "int8"}, "precision int8 needs backend onnx"),
    ],
)
def test_options_that_do_not_go_together(trained: Path, options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        translation(trained, **options)


def test_onnx_does_not_look_for_gpus(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator, "is_cpu", lambda device: device == "cpu")
    assert translation(trained, backend="onnx") == "cat eats"
    monkeypatch.setattr(translator, "is_cpu", lambda device: False)
    with pytest.raises(ConfigError, match="not on cuda; use backend torch"):
        translation(trained, backend="onnx", device="cuda")


@pytest.mark.parametrize(
    ("cost", "native", "used"),
    [(0.1, True, "int8"), (-1.0, True, "int8"), (0.2, True, "fp32"), (None, True, "fp32"),
     ("0.1", True, "fp32"), (float("nan"), True, "fp32"), (0.1, False, "fp32")],
)  # fmt: skip
def test_auto_is_int8_where_it_is_native_and_good(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    cost: Any,
    native: bool,
    used: str,
) -> None:
    alter_state(run, lambda state: state.update(int8_bleu_loss=cost))
    monkeypatch.setattr(module, "multiplies_int8", lambda: native)
    with caplog.at_level(logging.DEBUG, module.__name__):
        for precision, expected in (("auto", used), ("fp32", "fp32")):
            caplog.clear()
            Translator.load(run, precision=precision)
            assert f"translating with {checkpoint_of(run)} in {expected}" in caplog.text


def test_auto_is_fp32_with_pytorch_on_a_cpu(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2seq.device.multiplies_bf16", lambda device: True)
    [model] = Translator.load(trained, device="cpu", precision="auto", backend="torch").backends
    assert isinstance(model, TorchBackend)
    assert model.dtype.itemsize == 4


# --- what training measures


def test_training_records_what_int8_costs(trained: Path) -> None:
    best = RunDirectory(trained).best("bleu")
    assert "int8_bleu_loss" in best.verify().state


def test_cost_is_measured_once(toy: ToyCorpus, tmp_path: Path) -> None:
    config = toy.config(tmp_path / "run", "training.max_steps=2")
    train(config)
    state = tmp_path / "run/checkpoints/step-000002/state.json"
    before = state.stat().st_mtime_ns
    assert train(config, resume=True) == "finished"
    assert state.stat().st_mtime_ns == before


def test_checkpoint_gets_its_name_back_when_it_is_written_again(run: Path) -> None:
    """A crash while it was replaced has left it under another name."""
    path = checkpoint_of(run)
    path.rename(replaced(path))
    best = RunDirectory(run).best("bleu")
    assert best.path == replaced(path)
    add_to_state(best, {"int8_bleu_loss": 0.1})
    assert [*path.parent.iterdir()] == [path]
    found = RunDirectory(run).best("bleu")
    assert (found.path, found.state["int8_bleu_loss"]) == (path, 0.1)


def test_training_that_cannot_measure_is_complete(
    toy: ToyCorpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(*_: object) -> None:
        raise CheckpointError("a reason")

    monkeypatch.setattr(exporting, "_int8_cost", refuse)
    assert train(toy.config(tmp_path / "run", "training.max_steps=2")) == "finished"
    assert "run: int8 was not measured (a reason); training is complete" in caplog.text
