"""Any file system call fails, once or permanently: no checkpoint is lost and training resumes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from conftest import ToyCorpus, to_read
from faults import ERRORS, Calls, faulty
from properties import fuzzing
from same_runs import assert_same
from torch import Tensor

from seq2seq.config import Config
from seq2seq.data.batching import Batch
from seq2seq.errors import UserError
from seq2seq.pipeline import train
from seq2seq.runs.checkpoint import list_checkpoints, prune, save_checkpoint
from seq2seq.runs.directory import RunDirectory
from seq2seq.training.trainer import Trainer

SHORT = (
    "training.max_steps=6",
    "training.accumulate=1",
    "training.scheduled_sampling=0",
    "training.checkpoint_every=2",
    "training.validate_every=4",
    "training.validation_sentences=2",
    "training.log_every=1",
    "training.keep_last=1",
    "training.average=last",
)


def tensors(step: int) -> dict[str, Tensor]:
    return {"weight": torch.full((3,), float(step))}


def save_and_prune(folder: Path, step: int) -> None:
    save_checkpoint(folder / f"step-{step:06d}", tensors(step), tensors(-step), {"step": step})
    prune(folder, metric="bleu", keep_last=2, keep_best=1)


def steps(folder: Path) -> list[int]:
    """Return the steps of the checkpoints, all of which must be intact."""
    found = [checkpoint.verify() for checkpoint in list_checkpoints(folder)]
    assert all(torch.equal(c.weights()["weight"], tensors(c.step)["weight"]) for c in found)
    return [checkpoint.step for checkpoint in found]


@pytest.mark.parametrize("step", [3, 4], ids=["replaced", "new"])
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_failed_save_loses_no_checkpoint(tmp_path: Path, lasting: bool, step: int) -> None:
    for earlier in (1, 2, 3):
        save_and_prune(tmp_path / "before", earlier)
    at, struck = 0, True
    while struck:
        at += 1
        folder = tmp_path / str(at)
        shutil.copytree(tmp_path / "before", folder)
        number = ERRORS[at % len(ERRORS)]
        raised = None
        with faulty(Calls(at, number, lasting=lasting)) as calls:
            try:
                save_and_prune(folder, step)
            except OSError as error:
                raised = error
        struck = calls.struck
        if raised is not None:
            assert raised.errno == number
            assert str(folder) in str(raised.filename)
        assert steps(folder)[-2:] in ([2, 3], [3, 4])
        assert lasting or not list(folder.glob(".*.partial"))
        for later in (step, 5):
            save_and_prune(folder, later)
        assert steps(folder) == [step, 5]
        assert len(list(folder.iterdir())) == 2
    assert at > 15
    assert calls.names.count("save_file") == 2


@pytest.fixture(scope="module")
def straight(toy: ToyCorpus, shared: Path) -> Iterator[Path]:
    """Return an undisturbed run."""
    yield from to_read(shared / "without-faults", lambda path: train(toy.config(path, *SHORT)))


def sweep(
    toy: ToyCorpus,
    tmp_path: Path,
    straight: Path,
    start: Path | None,
    *,
    lasting: bool,
    stride: int,
) -> list[str]:
    """Make calls of a training fail, then resume it; return the error messages.

    `start` is a run to resume; without it there is nothing, not even prepared data. The result
    must be that of undisturbed training. Calls that fail once, and those that fail from then on,
    take turns.
    """
    at, struck, messages = 1 + lasting * (stride // 2), True, []
    while struck:
        run = RunDirectory(tmp_path / f"run-{at}")
        config = toy.config(run.path, *SHORT)
        if start is not None:
            shutil.copytree(start, run.path)
        else:
            config = toy.config(run.path, *SHORT, f"data.cache={run.path}-cache")
        number = ERRORS[at % len(ERRORS)]
        with faulty(Calls(at, number, lasting=lasting)) as calls:
            try:
                go_on(config)
            except (OSError, UserError) as error:
                messages.append(str(error))
        struck = calls.struck
        if start is not None:
            assert run.recover() is not None
        go_on(config)
        assert_same(straight, run.path)
        left = [p.name for p in run.path.rglob(".*") if p.name != ".lock"]
        assert left == []
        shutil.rmtree(run.path)
        at += stride
    return messages


def go_on(config: Config) -> None:
    run = RunDirectory(Path(config.run_dir))
    train(config, resume=run.config_path.exists())


@pytest.fixture(scope="module")
def begun(toy: ToyCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that crashed after its first checkpoints."""
    path = tmp_path_factory.mktemp("faults") / "begun"
    update = Trainer.update

    def crashing(self: Trainer, batches: list[Batch]) -> None:
        if self.progress.step == 5:
            raise InterruptedError
        update(self, batches)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "update", crashing)
        with pytest.raises(InterruptedError):
            train(toy.config(path, *SHORT))
    assert list_checkpoints(path / "checkpoints")
    return path


def test_training_resumes_after_some_faults(
    toy: ToyCorpus, straight: Path, begun: Path, tmp_path: Path
) -> None:
    messages = sweep(toy, tmp_path, straight, begun, lasting=False, stride=17)
    assert all(str(tmp_path) in message for message in messages)


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_training_resumes_after_any_fault(
    toy: ToyCorpus, straight: Path, begun: Path, tmp_path: Path, lasting: bool
) -> None:
    stride = 1 if fuzzing() else 8
    messages = sweep(toy, tmp_path, straight, begun, lasting=lasting, stride=stride)
    assert all(str(tmp_path) in message for message in messages)


@pytest.mark.slow
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_training_starts_after_a_fault(
    toy: ToyCorpus, straight: Path, tmp_path: Path, lasting: bool
) -> None:
    messages = sweep(toy, tmp_path, straight, None, lasting=lasting, stride=36)
    assert all(str(tmp_path) in message for message in messages)
