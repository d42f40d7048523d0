from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
import torch
from conftest import ToyCorpus

from seq2seq.errors import CheckpointError
from seq2seq.pipeline import train
from seq2seq.runs.checkpoint import (
    Checkpoint,
    list_checkpoints,
    prune,
    save_checkpoint,
    set_aside_damaged,
)
from seq2seq.runs.directory import RunDirectory
from seq2seq.training.trainer import checkpoints_to_average


def save(
    folder: Path, step: int, *, stopped: bool = False, bleu: float | None = None
) -> Checkpoint:
    validation = {} if bleu is None else {"validation": {"bleu": bleu}}
    tensors = {"a": torch.full((50,), float(step))}
    state = {"step": step, "stopped": stopped, **validation}
    return save_checkpoint(folder / f"step-{step:06d}", tensors, tensors, state)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_signal_checkpoint_is_kept_only_while_latest(tmp_path: Path) -> None:
    def keep() -> list[int]:
        prune(tmp_path, metric="bleu", keep_last=2, keep_best=1)
        return [checkpoint.step for checkpoint in list_checkpoints(tmp_path)]

    for step, stopped in ((10, False), (20, False), (23, True)):
        save(tmp_path, step, stopped=stopped)
    assert keep() == [10, 20, 23]
    save(tmp_path, 25, stopped=True)
    assert keep() == [10, 20, 25]
    save(tmp_path, 30)
    assert keep() == [20, 30]


def test_signal_checkpoint_is_not_averaged(toy: ToyCorpus, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    for step, stopped in ((10, False), (15, True), (20, False)):
        save(run.checkpoints, step, stopped=stopped)
    config = toy.config(tmp_path, "training.keep_last=2", "training.average=last").training
    assert [c.step for c in checkpoints_to_average(run, config)] == [10, 20]


@pytest.mark.parametrize("seed", range(60))
def test_damage_falls_back_to_the_previous_checkpoint(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    run = RunDirectory(tmp_path)
    for step in (1, 2):
        save(run.checkpoints, step)
    generator = random.Random(seed)
    file = generator.choice(sorted((run.checkpoints / "step-000002").iterdir()))
    data = bytearray(file.read_bytes())
    place = generator.randrange(len(data))
    damage = generator.choice(["bit", "byte", "cut", "zeros", "gone", "longer"])
    if damage == "bit":
        data[place] ^= 1 << generator.randrange(8)
    elif damage == "byte":
        data[place] = (data[place] + generator.randrange(1, 256)) % 256
    elif damage == "cut":
        del data[place:]
    elif damage == "zeros":
        data[place:] = bytes(len(data) - place)
    elif damage == "longer":
        data += b"\0"
    file.write_bytes(data)
    if damage == "gone":
        file.unlink()
    found = run.newest()
    assert found.step == 1 or (file.name == "SHA256SUMS" and damage == "longer")
    assert "step-000002" in caplog.text or found.step == 2
    assert torch.equal(found.weights()["a"], torch.full((50,), float(found.step)))


def test_damaged_checkpoints_are_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (1, 2, 3, 4):
        save(tmp_path, step)
    (tmp_path / "step-000002/model.safetensors").write_bytes(b"")
    (tmp_path / "step-000003/state.json").unlink()
    (tmp_path / "unusable-step-000003").mkdir()  # left by an earlier run
    # What crashes leave: one between two renames, the others before the first.
    (tmp_path / "step-000004").rename(tmp_path / ".step-000004.replaced")
    for name in (".step-000004.partial", ".step-000001.old", ".step-000001.replaced",
                 ".average.partial"):  # fmt: skip
        (tmp_path / name).mkdir()
    set_aside_damaged(tmp_path)
    assert names(tmp_path) == [
        ".step-000004.replaced", "step-000001", "unusable-step-000002", "unusable-step-000003",
    ]  # fmt: skip
    assert "step-000002: damaged, model.safetensors does not match its checksum" in caplog.text
    assert "step-000003 renamed to unusable-step-000003" in caplog.text
    assert [c.step for c in list_checkpoints(tmp_path)] == [1, 4]
    save(tmp_path, 5)
    prune(tmp_path, metric="bleu", keep_last=2, keep_best=1)
    assert [c.step for c in list_checkpoints(tmp_path)] == [4, 5]
    save(tmp_path, 6)
    prune(tmp_path, metric="bleu", keep_last=2, keep_best=1)
    assert names(tmp_path)[:2] == ["step-000005", "step-000006"]


def test_damaged_checkpoint_never_displaces_an_intact_one(toy: ToyCorpus, tmp_path: Path) -> None:
    """A damaged later step would otherwise count as the latest checkpoint."""
    path = tmp_path / "run"
    short = ("training.keep_last=1", "training.validate_every=100", "training.metric=loss")
    train(toy.config(path, *short, "training.max_steps=8"))
    run = RunDirectory(path)
    assert names(run.checkpoints) == ["step-000008"]
    shutil.copytree(run.checkpoint_path(8), run.checkpoint_path(20))
    (run.checkpoint_path(20) / "model.safetensors").write_bytes(b"")
    train(
        toy.config(path, *short, "training.max_steps=12", "training.checkpoint_every=2"),
        resume=True,
    )
    assert names(run.checkpoints) == ["step-000012", "unusable-step-000020"]
    assert run.newest().step == 12


def test_failed_removal_of_the_old_run_stops_the_new_one(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints of the old run must not be mistaken for those of the new one."""
    path = tmp_path / "run"
    train(toy.config(path, "training.max_steps=4"))

    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", refuse)
        with pytest.raises(PermissionError):
            train(toy.config(path, "training.max_steps=2"), overwrite=True)
    with pytest.raises(CheckpointError, match="a run already exists"):
        train(toy.config(path, "training.max_steps=2"))
    train(toy.config(path, "training.max_steps=2"), overwrite=True)
    assert RunDirectory(path).newest().step == 2
