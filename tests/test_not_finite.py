"""Losses that are not finite, in complete runs."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
from conftest import ToyCorpus
from same_runs import assert_same, records
from torch import Tensor

from seq2seq.errors import ConfigError
from seq2seq.pipeline import train
from seq2seq.runs.checkpoint import list_checkpoints
from seq2seq.training.optimizer import Optimizer
from seq2seq.training.trainer import Trainer

SHORT = (
    "training.max_steps=14",
    "training.checkpoint_every=2",
    "training.validate_every=100",
    "training.log_every=1",
    "training.max_skipped=4",
)


def steps(path: Path) -> list[int]:
    return [checkpoint.step for checkpoint in list_checkpoints(path / "checkpoints")]


def spoil(patch: pytest.MonkeyPatch, first: int, last: int) -> None:
    """Make the loss of some updates infinite."""
    make = Optimizer.step

    def spoilt(self: Optimizer, step: int, rate: float, loss: Tensor) -> Tensor:
        if first <= step <= last:
            loss.fill_(math.inf)
        return make(self, step, rate, loss)

    patch.setattr(Optimizer, "step", spoilt)


def test_skipped_updates_survive_interruptions(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    with monkeypatch.context() as patch:
        spoil(patch, 5, 7)
        assert train(toy.config(tmp_path / "straight", *SHORT)) == "finished"
        update = Trainer.update
        assert [record["step"] for record in records(tmp_path / "straight")][4:6] == [8, 9]
        path, resume = tmp_path / "run", False
        for attempt in itertools.count(3):
            counter = itertools.count()

            def crashing(
                self: Trainer, batches: Any, counter: Any = counter, attempt: int = attempt
            ) -> None:
                if next(counter) == attempt:
                    raise KeyboardInterrupt
                update(self, batches)

            patch.setattr(Trainer, "update", crashing)
            try:
                train(toy.config(path, *SHORT), resume=resume)
                break
            except KeyboardInterrupt:
                resume = True
                assert 6 not in steps(path)
    assert_same(tmp_path / "straight", path)
    assert [f"step {step}: loss inf" in caplog.text for step in (4, 5, 6, 7, 8)] == [
        False, True, True, True, False,
    ]  # fmt: skip


def test_diverged_training_keeps_earlier_checkpoints(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        spoil(patch, 7, 99)
        with pytest.raises(ConfigError, match=r"4 updates in a row were not finite; lower"):
            train(toy.config(path, *SHORT, "training.keep_last=2"))
        assert steps(path) == [4, 6]
        with pytest.raises(ConfigError, match="4 updates in a row"):
            train(toy.config(path, *SHORT, "training.keep_last=2"), resume=True)
        assert steps(path) == [4, 6]
    assert train(toy.config(path, *SHORT), resume=True) == "finished"


def test_validation_among_skipped_updates_displaces_no_checkpoint(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, few = tmp_path / "run", ("training.validate_every=8", "training.keep_last=1")
    spoil(monkeypatch, 7, 99)
    with pytest.raises(ConfigError, match="4 updates in a row"):
        train(toy.config(path, *SHORT, *few))
    assert steps(path) == [6, 8]


def test_exploding_weights(toy: ToyCorpus, tmp_path: Path) -> None:
    """The update that ruins the weights is finite, and so are the weights after it."""
    path = tmp_path / "run"
    train(toy.config(path, *SHORT, "training.max_steps=4"))
    with pytest.raises(ConfigError, match="not finite"):
        train(toy.config(path, *SHORT, "training.learning_rate=1e37"), resume=True)
    assert 4 in steps(path)
    for checkpoint in list_checkpoints(path / "checkpoints"):
        if checkpoint.step > 4:
            checkpoint.path.rename(tmp_path / checkpoint.path.name)
    assert train(toy.config(path, *SHORT), resume=True) == "finished"
