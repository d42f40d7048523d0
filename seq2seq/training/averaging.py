"""The final model as the mean of several checkpoints."""

from __future__ import annotations

from torch import Tensor

from seq2seq.config import TrainingConfig
from seq2seq.runs.checkpoint import (
    Checkpoint,
    average,
    first_whole,
    list_checkpoints,
    rank,
    save_checkpoint,
)
from seq2seq.runs.directory import RunDirectory


def average_checkpoints(
    run: RunDirectory, config: TrainingConfig
) -> tuple[list[int], dict[str, Tensor]] | None:
    """Return the steps of the last or best checkpoints and the mean of their weights.

    None where no validation had a finite metric.
    """
    chosen = _chosen(run, config)
    return ([checkpoint.step for checkpoint in chosen], average(chosen)) if chosen else None


def saved_average(run: RunDirectory, config: TrainingConfig) -> Checkpoint | None:
    """Return the mean that was saved, if it is whole and of the checkpoints that are there."""
    steps = [checkpoint.step for checkpoint in _chosen(run, config)]
    saved = list_checkpoints(run.checkpoints, pattern=run.average_path.name)
    return first_whole(average for average in saved if average.state["steps"] == steps)


def save_average(
    run: RunDirectory, steps: list[int], weights: dict[str, Tensor], metrics: dict[str, float]
) -> None:
    """Write the mean as a checkpoint that only translates."""
    state = {"step": steps[-1], "steps": steps, "validation": metrics}
    save_checkpoint(run.average_path, weights, {}, state)


def _chosen(run: RunDirectory, config: TrainingConfig) -> list[Checkpoint]:
    # Not those that a signal made: how often a run was stopped must not change its end.
    regular = [c for c in list_checkpoints(run.checkpoints) if not c.stopped]
    if config.average == "last":
        return regular[-config.keep_last :]
    return rank(regular, config.metric)[: config.keep_best]
