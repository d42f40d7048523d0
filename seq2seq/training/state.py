"""Everything that changes while a model is trained, and how it is saved and restored."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seq2seq.config import ScheduleConfig, TrainingConfig
from seq2seq.data.stream import BatchStream
from seq2seq.runs.checkpoint import (
    Checkpoint,
    best_first,
    check_model,
    intact,
    list_checkpoints,
    save_checkpoint,
)
from seq2seq.runs.directory import RunDirectory
from seq2seq.training.optimizer import Optimizer

log = logging.getLogger(__name__)


@dataclass
class Schedule:
    """Factors of the peak learning rate; only the plateau schedule has a state of its own.

    inverse_sqrt is sqrt(warmup / step) (Vaswani et al. 2017, eq. 3, up to its constant). cosine
    and linear decay over the steps, or over the clock if `max_minutes` ends training sooner.
    """

    config: ScheduleConfig
    max_steps: int
    max_minutes: float | None = None
    plateau: float = 1.0
    waited: int = 0

    def factor(self, step: int, minutes: float = 0.0) -> float:
        """Return the fraction of the peak rate for an update; steps count from 1."""
        config = self.config
        if step <= config.warmup_steps:
            return step / config.warmup_steps
        if config.kind == "constant":
            return 1.0
        if config.kind == "plateau":
            return max(config.min_factor, self.plateau)
        if config.kind == "inverse_sqrt":
            return max(config.min_factor, math.sqrt(config.warmup_steps / step))
        last = config.decay_steps or self.max_steps
        by_steps = (step - config.warmup_steps) / max(1, last - config.warmup_steps)
        by_clock = minutes / self.max_minutes if self.max_minutes else 0.0
        done = min(1.0, max(by_steps, by_clock))
        left = (1 + math.cos(math.pi * done)) / 2 if config.kind == "cosine" else 1 - done
        return config.min_factor + (1 - config.min_factor) * left

    def observe(self, *, improved: bool) -> None:
        """Record a validation; the plateau schedule lowers the rate after enough bad ones."""
        self.waited = 0 if improved else self.waited + 1
        if self.config.kind == "plateau" and self.waited > self.config.plateau_patience:
            self.plateau *= self.config.plateau_factor
            self.waited = 0

    def state(self) -> dict[str, float]:
        """Return what resuming needs."""
        return {"plateau": self.plateau, "waited": self.waited}

    def restore(self, state: dict[str, float]) -> None:
        """Continue from a saved state."""
        self.plateau, self.waited = state["plateau"], int(state["waited"])


@dataclass
class Progress:
    """Counts of a training run; every checkpoint has all of them."""

    step: int = 0
    tokens: int = 0
    minutes: float = 0.0
    best: float | None = None
    waited: int = 0  # validations without a better metric
    skipped: int = 0  # consecutive updates that were not finite
    loss_sum: float = 0.0  # since the last record
    plain_sum: float = 0.0
    loss_tokens: int = 0


class TrainingState:
    """Model, optimizer, schedule, position in the data, and counts.

    Random generators have no state to save: each update seeds them (see seed_generators).
    """

    def __init__(self, model: nn.Module, stream: BatchStream, config: TrainingConfig) -> None:
        self.model, self.stream = model, stream
        self.optimizer = Optimizer(model, config)
        self.schedule = Schedule(config.schedule, config.max_steps, config.max_minutes)
        self.progress = Progress()

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Put the model in evaluation mode for a while, with the moving average if there is one."""
        with self.optimizer.averaged_weights():
            self.model.eval()
            try:
                yield
            finally:
                self.model.train()

    def save(
        self, path: Path, metrics: dict[str, float] | None = None, *, stopped: bool = False
    ) -> None:
        """Write a checkpoint, with the metrics if exactly these weights were validated.

        `stopped` marks a checkpoint that a signal asked for, out of turn.
        """
        state: dict[str, Any] = {
            "step": self.progress.step,
            "progress": vars(self.progress),
            "schedule": self.schedule.state(),
            "stream": self.stream.state_dict(),
            "made_with": self._made_with(),
            "stopped": stopped,
        }
        if metrics is not None:
            state["validation"] = metrics
        save_checkpoint(path, self.optimizer.weights(), self.optimizer.state(), state)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue exactly from a checkpoint; the moving average may be switched on or off."""
        state, weights = checkpoint.state, checkpoint.weights()
        check_model(self.model, weights, origin=checkpoint.path)
        self.optimizer.restore(weights, checkpoint.training())
        self.progress = Progress(**state["progress"])
        self.schedule.restore(state["schedule"])
        self.stream.load_state_dict(state["stream"])
        for key, here in self._made_with().items():
            before = state.get("made_with", {}).get(key, here)
            if before != here:
                log.warning(
                    "saved with %s %s, resumed with %s: results will differ in the last bits from "
                    "those of an uninterrupted run", key, before, here,
                )  # fmt: skip

    def _made_with(self) -> dict[str, Any]:
        """Return what, besides the recipe, results depend on to the last bit."""
        return {
            "torch": torch.__version__,
            "device": next(self.model.parameters()).device.type,
            "threads": torch.get_num_threads(),
        }


def seed_generators(seed: int, step: int, rank: int) -> None:
    """Seed torch's generators for one update, differently at each step and rank.

    So no generator state has to be saved for resuming, even with another number of ranks.
    """
    words = np.random.SeedSequence((seed, step, rank)).generate_state(2, np.uint32)
    torch.manual_seed(int(words[0]) << 31 | int(words[1]) >> 1)


def checkpoints_to_average(run: RunDirectory, config: TrainingConfig) -> list[Checkpoint]:
    """Return the last or best checkpoints; none if no validation had a finite metric."""
    # Without those that a signal made: how often a run was stopped must not change its result.
    regular = [c for c in list_checkpoints(run.checkpoints) if not c.stopped]
    if config.average == "last":
        return regular[-config.keep_last :]
    return best_first(regular, config.metric)[: config.keep_best]


def saved_average(run: RunDirectory, steps: list[int]) -> Checkpoint | None:
    """Return the saved mean of the checkpoints of these steps, if it is intact."""
    saved = list_checkpoints(run.checkpoints, pattern=run.average_path.name)
    return next(intact(c for c in saved if c.state["steps"] == steps), None)


def save_average(
    run: RunDirectory, steps: list[int], weights: dict[str, Tensor], metrics: dict[str, float]
) -> None:
    """Write the mean as a checkpoint that can translate but not be resumed."""
    state = {"step": steps[-1], "steps": steps, "validation": metrics}
    save_checkpoint(run.average_path, weights, {}, state)
