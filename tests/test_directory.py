from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import ToyCorpus

from seq2seq.config import dump_config
from seq2seq.data.stream import BatchStream
from seq2seq.errors import CheckpointError, ConfigError, DataError
from seq2seq.inference.translator import Translator
from seq2seq.pipeline import train
from seq2seq.runs.checkpoint import list_checkpoints, save_checkpoint
from seq2seq.runs.directory import RunDirectory, check_changes

LINES = ["gato come pan", "el perro rojo", "", "agua grande casa"]


def texts(path: Path) -> list[str]:
    return [found[0].text for found in Translator.load(path).translate(LINES)]


def test_run_has_exactly_its_files(trained: Path) -> None:
    assert {path.name for path in trained.iterdir()} == {
        ".lock", "written.txt", "config.yaml", "data.json", "source.model", "target.model",
        "checkpoints", "metrics.jsonl", "log.txt",
    }  # fmt: skip
    assert {path.name for path in (trained / "checkpoints").iterdir()} == {
        "step-000050", "step-000100", "step-000150", "average",
    }  # fmt: skip


def test_run_can_be_moved(trained: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(trained, copy)
    assert texts(copy) == texts(trained)


def test_best_validated_checkpoint_translates(trained: Path, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "copy")
    shutil.copytree(trained, run.path)
    scores = {c.path: c.state["validation"]["bleu"] for c in list_checkpoints(run.checkpoints)}
    best = run.best("bleu").path
    assert scores[best] == max(scores.values())
    weights = run.newest().weights()
    state = {"step": 150, "validation": {"bleu": 101.0, "loss": 0.0}}
    save_checkpoint(run.average_path, weights, {}, state)
    assert run.best("bleu").path == run.average_path
    (run.average_path / "model.safetensors").write_bytes(b"damaged")
    assert run.best("bleu").path == best
    shutil.rmtree(run.checkpoints)
    with pytest.raises(CheckpointError, match="no intact checkpoint"):
        run.best("bleu")


def test_folder_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no config.yaml"):
        RunDirectory(tmp_path).config()
    (tmp_path / "config.yaml").write_text("old: 1")
    with pytest.raises(CheckpointError, match="trained by another version"):
        RunDirectory(tmp_path).config()


def test_run_is_overwritten_only_on_request(toy: ToyCorpus, tmp_path: Path) -> None:
    config = toy.config(tmp_path / "run", "training.max_steps=2")
    notes = tmp_path / "run/notes.txt"
    train(config)
    notes.write_text("mine")
    before = (tmp_path / "run/checkpoints/step-000002/SHA256SUMS").stat().st_mtime_ns
    with pytest.raises(CheckpointError, match="a run already exists"):
        train(config)
    (tmp_path / "run/config.yaml").unlink()
    with pytest.raises(CheckpointError, match="a run already exists"):
        train(config)
    assert (tmp_path / "run/checkpoints/step-000002/SHA256SUMS").stat().st_mtime_ns == before
    (tmp_path / "run/checkpoints/step-000009").mkdir()
    train(config, overwrite=True)
    assert sorted(p.name for p in (tmp_path / "run/checkpoints").iterdir()) == ["step-000002"]
    assert notes.read_text() == "mine"
    assert (tmp_path / "run/metrics.jsonl").read_text().count("\n") == 1


@pytest.mark.parametrize("overwrite", [False, True])
def test_files_of_others_are_never_deleted(toy: ToyCorpus, tmp_path: Path, overwrite: bool) -> None:
    config, path = toy.config(tmp_path / "run", "training.max_steps=2"), tmp_path / "run"
    theirs = [path / name for name in ("data.json", "checkpoints/last.pt", "wandb/settings")]
    for file in theirs:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
    (path / ".lock").touch()  # as a training leaves it that was refused
    with pytest.raises(CheckpointError, match=r"has checkpoints, data\.json, not written by"):
        train(config, overwrite=overwrite)
    assert not (path / "config.yaml").exists()
    for file in theirs[:2]:
        file.rename(tmp_path / file.name)
    theirs[1].parent.rmdir()
    for again in (overwrite, True):
        train(config, overwrite=again)
        RunDirectory(path).update(config)  # as resuming does
    assert theirs[2].read_text() == "mine"
    with pytest.raises(CheckpointError, match=r"has wandb, not written by training"):
        train(toy.config(path, "training.trackers=[wandb]"), overwrite=True)


@pytest.mark.parametrize("of_an_earlier_version", [True, False])
def test_graph_folder_is_deleted_only_if_an_earlier_version_wrote_it(
    toy: ToyCorpus, tmp_path: Path, of_an_earlier_version: bool
) -> None:
    config, path = toy.config(tmp_path / "run", "training.max_steps=2"), tmp_path / "run"
    train(config)
    (path / "graph").mkdir()
    if of_an_earlier_version:
        (path / "written.txt").unlink()
    train(config, overwrite=True)
    assert (path / "graph").exists() != of_an_earlier_version


def test_run_that_died_while_it_was_created_starts_over(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, path = toy.config(tmp_path / "run", "training.max_steps=2"), tmp_path / "run"

    def dying(*_: object) -> None:
        raise KeyboardInterrupt

    for name in ("recipes.dump_config", "remove_directory"):  # written last, deleted last
        with monkeypatch.context() as patch:
            patch.setattr(f"seq2seq.runs.directory.{name}", dying)
            with pytest.raises(KeyboardInterrupt):
                train(config)
        assert (path / "checkpoints").exists()
        assert not (path / "config.yaml").exists()
    train(config)


def test_run_of_an_earlier_version_is_overwritten(toy: ToyCorpus, tmp_path: Path) -> None:
    config, path = toy.config(tmp_path / "run", "training.max_steps=2"), tmp_path / "run"
    train(config)
    (path / "written.txt").unlink()  # which it did not have
    (path / "wandb").mkdir()  # of someone else: the run has no tracker
    (path / "metrics.jsonl").write_text("old")
    with pytest.raises(CheckpointError, match="a run already exists"):
        train(config)
    train(config, overwrite=True)
    assert "old" not in (path / "metrics.jsonl").read_text()
    assert (path / "wandb").exists()
    for folder in path.glob("checkpoints/step-*"):  # it was stopped before its first one
        shutil.rmtree(folder)
    (path / "written.txt").unlink()
    with pytest.raises(CheckpointError, match="a run already exists"):
        train(config)
    train(config, overwrite=True)


def test_folder_that_was_emptied_is_anyones(toy: ToyCorpus, tmp_path: Path) -> None:
    config, path = toy.config(tmp_path / "run", "training.max_steps=2"), tmp_path / "run"
    train(config)
    for each in path.glob("[!.]*"):  # as a shell's * does
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    (path / "data.json").write_text("mine")
    with pytest.raises(CheckpointError, match=r"has data\.json, not written by training"):
        train(config)
    assert (path / "data.json").read_text() == "mine"


def test_failing_recipe_keeps_the_old_run(toy: ToyCorpus, tmp_path: Path) -> None:
    path = tmp_path / "run"
    train(toy.config(path, "training.max_steps=2"))
    before = dump_config(RunDirectory(path).config())
    for override, words in (
        ("data.tokenizer.source_vocab_size=20", "too small"),
        ("data.train.0.path=none.tsv", "no such file"),
        ("data.cleaning.max_chars=1", "none of"),
    ):
        with pytest.raises(DataError, match=words):
            train(toy.config(path, override), overwrite=True)
    with pytest.raises(ConfigError, match="device"):
        train(toy.config(path, "training.device=tpu"), overwrite=True)
    assert dump_config(RunDirectory(path).config()) == before
    assert RunDirectory(path).newest().step == 2


def test_unwritable_run_dir_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ConfigError, match=r"run_dir: .* cannot be written"),
        RunDirectory(tmp_path / "file/run").lock(),
    ):
        pass


def test_a_run_that_did_not_begin_has_no_log(toy: ToyCorpus, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(toy.recipe(tmp_path / "run"))
    keys = ("data.tokenizer.source_vocab_size=9999", "data.tokenizer.lower_vocab_size=false")
    command = [sys.executable, "-m", "seq2seq", "train", str(recipe), *keys]
    found = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert found.returncode == 2
    assert "kept" in found.stderr  # a message that waits for the run to begin
    assert "source tokenizer: the text fills" in found.stderr
    assert not (tmp_path / "run/log.txt").exists()


@pytest.mark.parametrize(
    ("override", "refused"),
    [
        ("data.word_dropout=0.5", True),
        ("data.batching.size=9", True),
        ("data.train.0.weight=2.0", True),
        ("data.augmentation.accents=0.5", True),
        ("data.train.1.path=x", True),
        ("data.tokenizer.source_vocab_size=400", True),
        ("model.encoder_size=8", True),
        ("model.attention.score=concat", True),
        ("training.seed=2", True),
        ("training.metric=loss", True),
        ("model.dropout=0.5", False),
        ("training.max_steps=30", False),
        ("training.learning_rate=1", False),
        ("inference.beam_size=9", False),
        ("data.cache=elsewhere", False),
        ("data.processes=1", False),
        ("run_dir=moved", False),
    ],
)
def test_which_keys_may_change_on_resume(
    toy: ToyCorpus, caplog: pytest.LogCaptureFixture, override: str, refused: bool
) -> None:
    saved, given = toy.config(Path("run")), toy.config(Path("run"), override)
    key = override.partition("=")[0]
    if refused:
        changed = key.replace("1.path", "1.format")
        with pytest.raises(ConfigError, match=rf"--resume: {changed} was .* start a new run"):
            check_changes(saved, given)
        return
    with caplog.at_level("INFO"):
        check_changes(saved, given)
    assert (key in caplog.text) == (key != "run_dir")


def test_resume_writes_the_new_recipe(toy: ToyCorpus, tmp_path: Path) -> None:
    path = tmp_path / "run"
    train(toy.config(path, "training.max_steps=2"))
    with pytest.raises(ConfigError, match=r"training\.seed"):
        train(toy.config(path, "training.max_steps=2", "training.seed=9"), resume=True)
    train(toy.config(path, "training.max_steps=4", "model.dropout=0.2"), resume=True)
    run = RunDirectory(path)
    assert run.config().training.max_steps == 4
    assert run.newest().step == 4
    with pytest.raises(CheckpointError, match="not a run directory"):
        train(toy.config(tmp_path / "none"), resume=True)
    shutil.rmtree(run.checkpoints)
    with pytest.raises(CheckpointError, match="no intact checkpoint"):
        train(toy.config(path), resume=True)


def test_damaged_latest_checkpoint_is_skipped(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight, damaged = tmp_path / "straight", tmp_path / "damaged"
    train(toy.config(straight, "training.max_steps=8"))
    train(toy.config(damaged, "training.max_steps=8"))
    (damaged / "checkpoints/step-000008/model.safetensors").write_bytes(b"")
    # Only a new run needs them; they would take a window that is not used.
    monkeypatch.setattr(BatchStream, "target_counts", lambda *_: pytest.fail("not needed"))
    train(toy.config(damaged, "training.max_steps=8"), resume=True)
    first, second = (RunDirectory(path).newest() for path in (straight, damaged))
    for name, tensor in first.training().items():
        assert torch.equal(tensor, second.training()[name])
