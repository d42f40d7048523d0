"""Training interrupted anywhere and resumed gives exactly the result of uninterrupted training."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import ToyCorpus, to_read
from same_runs import assert_same, records

from seq2seq.errors import CheckpointError
from seq2seq.pipeline import train
from seq2seq.processes import Ranks
from seq2seq.runs.checkpoint import list_checkpoints
from seq2seq.runs.directory import RunDirectory
from seq2seq.training import replay
from seq2seq.training import trainer as module
from seq2seq.training.trainer import Trainer

RECIPES = {
    "all-of-it": ("training.average=last", "training.keep_last=2", "training.log_every=1"),
    "variational-tokens-epochs": (
        "model.variational_dropout=true",
        "model.style=luong",
        "model.attention.score=general",
        "data.batching.unit=tokens",
        "data.batching.size=150",
        "training.accumulate=3",
        "training.max_epochs=1",
        "training.ema=0",
        "training.average=best",
        "training.keep_best=2",
    ),
    "bpe-early": (
        "data.tokenizer={type: bpe, source_vocab_size: 330, target_vocab_size: 330}",
        "data.word_dropout=0.2",
        "training.learning_rate=0.05",
        "training.metric=loss",
        "training.patience=1",
        "training.validate_every=2",
        "training.schedule.plateau_patience=0",
        "training.max_steps=60",
    ),
    "bf16-inverse-sqrt": (
        "training.precision=bf16",
        "training.max_steps=12",
        "training.schedule.kind=inverse_sqrt",
        "training.optimizer=adamw",
        "training.weight_decay=0.1",
        "model.tie_target=true",
    ),
}


class Crash(Exception):
    pass


def train_with_crashes(
    config: Any, forwards: int, monkeypatch: pytest.MonkeyPatch, *, resume: bool = False
) -> str:
    """Train with repeated crashes after `forwards` and more batches, also within an update."""
    loss = replay.teacher_forced_loss
    for attempt in itertools.count():
        counter = itertools.count()
        limit = forwards + attempt  # makes progress, and crashes at another place each time

        def crashing(
            *arguments: Any, counter: Any = counter, limit: int = limit, **options: Any
        ) -> Any:
            if next(counter) == limit:
                raise Crash
            return loss(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(replay, "teacher_forced_loss", crashing)
            try:
                return train(config, resume=resume)
            except Crash:
                resume = True
    raise AssertionError


@pytest.fixture(scope="module", params=RECIPES)
def straight(
    request: pytest.FixtureRequest, toy: ToyCorpus, shared: Path
) -> Iterator[tuple[str, Path]]:
    """Return the name of a recipe, and a run of it."""
    name, ended = request.param, "early" if request.param == "bpe-early" else "finished"

    def make(path: Path) -> None:
        assert train(toy.config(path, *RECIPES[name])) == ended

    for path in to_read(shared / f"straight-{name}", make):
        yield name, path


def test_resume_is_bit_identical(
    toy: ToyCorpus,
    straight: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, path = straight
    config = toy.config(tmp_path / "run", *RECIPES[name])
    ended = train_with_crashes(config, 5, monkeypatch)
    assert ended == ("early" if name == "bpe-early" else "finished")
    assert_same(path, tmp_path / "run")


def test_same_seed_gives_the_same_run(
    toy: ToyCorpus, straight: tuple[str, Path], tmp_path: Path
) -> None:
    name, path = straight
    train(toy.config(tmp_path / "again", *RECIPES[name]))
    assert_same(path, tmp_path / "again")
    train(toy.config(tmp_path / "other", *RECIPES[name], "training.seed=2", "training.max_steps=3"))
    assert records(path)[0]["step"] == records(tmp_path / "other")[0]["step"]
    assert records(path)[0]["loss"] != records(tmp_path / "other")[0]["loss"]


def test_crash_between_a_record_and_its_checkpoint(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last step has a checkpoint but its validation has not, so it is validated again."""
    overrides = ("training.max_steps=4", "training.checkpoint_every=4")
    train(toy.config(tmp_path / "straight", *overrides))
    save = module.save_checkpoint

    def crashing(*arguments: Any) -> None:
        if "validation" in arguments[-1]:
            raise Crash
        save(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, "save_checkpoint", crashing)
        with pytest.raises(Crash):
            train(toy.config(tmp_path / "run", *overrides))
    assert [r["kind"] for r in records(tmp_path / "run")] == ["train", "validation"]
    train(toy.config(tmp_path / "run", *overrides), resume=True)
    assert_same(tmp_path / "straight", tmp_path / "run")


@pytest.mark.parametrize("saved", [False, True])
def test_crash_while_averaging(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: bool
) -> None:
    overrides = ("training.max_steps=6", "training.average=last", "training.keep_last=2")
    train(toy.config(tmp_path / "straight", *overrides))
    save = module.save_average

    def crashing(*arguments: Any) -> None:
        if saved:
            save(*arguments)
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(module, "save_average", crashing)
        with pytest.raises(Crash):
            train(toy.config(tmp_path / "run", *overrides))
    train(toy.config(tmp_path / "run", *overrides), resume=True)
    assert_same(tmp_path / "straight", tmp_path / "run")


def test_outdated_average_is_recomputed(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, overrides = tmp_path / "run", ("training.average=last", "training.keep_last=2")
    train(toy.config(path, *overrides, "training.max_steps=6"))

    def crash(*_: Any) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(module, "average_weights", crash)
        with pytest.raises(Crash):
            train(toy.config(path, *overrides, "training.max_steps=12"), resume=True)
    train(toy.config(path, *overrides, "training.max_steps=12"), resume=True)
    [average] = list_checkpoints(path / "checkpoints", pattern="average")
    assert average.state["steps"] == [8, 12]


def test_resume_without_a_checkpoint_starts_over(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    overrides = ("training.max_steps=4", "training.log_every=1")
    train(toy.config(tmp_path / "straight", *overrides))
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(module, "save_checkpoint", lambda *_: (_ for _ in ()).throw(Crash))
        with pytest.raises(Crash):
            train(toy.config(path, *overrides))
    assert records(path)
    train(toy.config(path, *overrides), resume=True)
    assert "no checkpoint yet; training starts from the beginning" in caplog.text
    assert_same(tmp_path / "straight", path)


def test_resume_never_starts_over_when_checkpoints_are_lost(toy: ToyCorpus, tmp_path: Path) -> None:
    path = tmp_path / "run"
    config = toy.config(path, "training.max_steps=4", "training.checkpoint_every=2")
    train(config)
    for checkpoint in list_checkpoints(path / "checkpoints"):
        (checkpoint.path / "model.safetensors").write_bytes(b"")
    before = records(path)
    for _ in range(2):
        with pytest.raises(CheckpointError, match="no intact checkpoint"):
            train(config, resume=True)
    assert records(path) == before
    shutil.rmtree(path / "checkpoints")
    with pytest.raises(CheckpointError, match=r"no such folder.*--overwrite"):
        train(config, resume=True)
    (path / "config.yaml").unlink()
    (path / "checkpoints/step-000002").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="a run already exists; replace it with"):
        train(config)


def test_changed_thread_count_is_reported(
    toy: ToyCorpus, tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    train(toy.config(path, "training.max_steps=2"))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    train(toy.config(path, "training.max_steps=3"), resume=True)
    assert "saved with threads 1, resumed with 7: results will differ" in caplog.text


def test_changed_number_of_processes_is_reported(
    toy: ToyCorpus, tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_with = Trainer._made_with

    def made_with_two(self: Trainer) -> dict[str, Any]:
        return made_with(SimpleNamespace(model=self.model, ranks=Ranks(0, 2)))  # type: ignore[arg-type]

    def made_before_it_was_recorded(self: Trainer) -> dict[str, Any]:
        return {key: value for key, value in made_with(self).items() if key != "processes"}

    for steps, made in enumerate((made_with_two, made_before_it_was_recorded), 2):
        path = tmp_path / str(steps)
        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "_made_with", made)
            train(toy.config(path, "training.max_steps=2"))
        train(toy.config(path, "training.max_steps=3"), resume=True)
    assert caplog.text.count("resumed with") == 1
    assert "saved with processes 2, resumed with 1: results will differ" in caplog.text


def test_resume_keeps_no_checkpoint_file_mapped(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mapped tensors would depend on the file and have its alignment."""
    path, update = tmp_path / "run", Trainer.update
    train(toy.config(path, "training.max_steps=2"))

    def updated(self: Trainer, batches: Any) -> None:
        assert ".safetensors" not in Path("/proc/self/maps").read_text()
        tensors = self.optimizer.weights() | self.optimizer.state()
        assert any(name.startswith("exp_avg_sq.") for name in tensors)
        assert all(tensor.data_ptr() % 64 == 0 for tensor in tensors.values())
        update(self, batches)

    monkeypatch.setattr(Trainer, "update", updated)
    train(toy.config(path, "training.max_steps=3"), resume=True)


def test_state_covers_everything_that_changes(toy: ToyCorpus, tmp_path: Path) -> None:
    """Guards against new counters that a checkpoint does not hold, and so cannot restore."""
    path = tmp_path / "run"
    train(toy.config(path, "training.max_steps=4"))
    state = json.loads((path / "checkpoints/step-000004/state.json").read_text())
    assert state.keys() - {"int8_bleu_loss"} == {
        "version", "step", "progress", "schedule", "stream", "made_with", "stopped", "validation",
    }  # fmt: skip
    assert state["progress"].keys() == {
        "step", "tokens", "minutes", "best", "waited", "skipped", "loss_sum", "plain_sum",
        "loss_tokens",
    }  # fmt: skip
    assert state["schedule"].keys() == {"plateau", "waited"}
    assert state["stream"].keys() == {"epoch", "position", "window", "taken", "pairs"}
    assert RunDirectory(path).newest().training().keys() >= {
        "exp_avg.output_weight", "exp_avg_sq.output_weight", "step.output_weight",
        "raw.output_weight",
    }  # fmt: skip
