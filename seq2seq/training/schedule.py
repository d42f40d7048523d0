"""The learning rate over the steps: warm-up, then constant, or one of four decays."""

from __future__ import annotations

import math
from dataclasses import dataclass

from seq2seq.config import ScheduleConfig


@dataclass
class Schedule:
    """Factors of the highest learning rate; only the plateau has a state of its own.

    inverse_sqrt is sqrt(warmup / step) (Vaswani et al. 2017, eq. 3, up to its constant). cosine
    and linear fall over the steps, or over the clock where `max_minutes` ends training sooner.
    """

    config: ScheduleConfig
    max_steps: int
    max_minutes: float | None = None
    plateau: float = 1.0
    waited: int = 0

    def factor(self, step: int, minutes: float = 0.0) -> float:
        """Return the share of the highest rate for an update; steps count from 1."""
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
        """Take note of a validation; the plateau schedule lowers the rate after enough bad ones."""
        self.waited = 0 if improved else self.waited + 1
        if self.config.kind == "plateau" and self.waited > self.config.plateau_patience:
            self.plateau *= self.config.plateau_factor
            self.waited = 0

    def state(self) -> dict[str, float]:
        """Return what resumption needs."""
        return {"plateau": self.plateau, "waited": self.waited}

    def restore(self, state: dict[str, float]) -> None:
        """Take up a saved state."""
        self.plateau, self.waited = state["plateau"], int(state["waited"])
