"""The final model as the mean of several checkpoints."""

from __future__ import annotations

from torch import Tensor

from seq2seq.config import TrainingConfig
from seq2seq.runs.checkpoint import average, list_checkpoints, rank, save_checkpoint
from seq2seq.runs.directory import RunDirectory


def average_checkpoints(
    run: RunDirectory, config: TrainingConfig
) -> tuple[list[int], dict[str, Tensor]] | None:
    """Return the steps of the last or best checkpoints and the mean of their weights.

    None where no validation had a finite metric.
    """
    checkpoints = list_checkpoints(run.checkpoints)
    if config.average == "last":
        chosen = checkpoints[-config.keep_last :]
    else:
        chosen = rank(checkpoints, config.metric)[: config.keep_best]
    return ([checkpoint.step for checkpoint in chosen], average(chosen)) if chosen else None


def save_average(
    run: RunDirectory, steps: list[int], weights: dict[str, Tensor], metrics: dict[str, float]
) -> None:
    """Write the mean as a checkpoint that only translates."""
    state = {"step": steps[-1], "steps": steps, "validation": metrics}
    save_checkpoint(run.average_path, weights, {}, state)
