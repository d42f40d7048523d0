"""All that changes while a model is trained, and its way into a checkpoint and back."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq.config import ScheduleConfig, TrainingConfig
from seq2seq.data.stream import BatchStream
from seq2seq.runs.checkpoint import Checkpoint, load_weights, save_checkpoint


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


log = logging.getLogger(__name__)

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


@dataclass
class Progress:
    """Where training stands; all of it is in every checkpoint."""

    step: int = 0
    tokens: int = 0
    minutes: float = 0.0
    best: float | None = None
    waited: int = 0  # validations without a better metric
    skipped: int = 0  # updates in a row that were not finite
    loss_sum: float = 0.0  # since the last record
    plain_sum: float = 0.0
    loss_tokens: int = 0


@dataclass
class TrainingState:
    """Model, optimizer, schedule, place in the data and counts.

    Random generators have no state to keep: each update seeds them anew (see Ranks.seed).
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    stream: BatchStream
    ema: float
    device: torch.device
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        """Start the moving average, where one is asked for, from the present weights."""
        self.parameters = dict(self.model.named_parameters())
        self.averaged: dict[str, Tensor] = {}
        if self.ema:
            self.averaged = {name: p.detach().clone() for name, p in self.parameters.items()}

    @torch.no_grad()
    def average_weights(self) -> None:
        """Move the average towards the present weights."""
        # A young average follows quickly, so that it does not project_keys the random start.
        decay = min(self.ema, (1 + self.progress.step) / (10 + self.progress.step))
        for name, tensor in self.averaged.items():
            tensor.lerp_(self.parameters[name], 1 - decay)

    @contextlib.contextmanager
    def translating(self) -> Iterator[None]:
        """Make the model ready to translate for a while, with the moving average where it is."""
        raw = {name: self.parameters[name].detach().clone() for name in self.averaged}
        self._load(self.averaged)
        self.model.eval()
        try:
            yield
        finally:
            self._load(raw)
            self.model.train()

    def save(
        self, path: Path, metrics: dict[str, float] | None = None, *, stopped: bool = False
    ) -> None:
        """Write a checkpoint; the metrics are those of a validation of these very weights.

        `stopped` says that a signal asked for it, out of turn.
        """
        raw = {name: p.detach() for name, p in self.parameters.items()}
        training: dict[str, Tensor] = {}
        for name, parameter in self.parameters.items():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                training[f"{key}.{name}"] = torch.as_tensor(value)
        if self.averaged:
            training |= {f"raw.{name}": tensor for name, tensor in raw.items()}
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
        save_checkpoint(path, self.averaged or raw, training, state)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on exactly where a checkpoint was made; the moving average may be new or gone."""
        tensors, state, weights = checkpoint.training(), checkpoint.state, checkpoint.weights()
        if self.averaged:
            self.averaged = {name: _own(weights[name], self.device) for name in self.averaged}
        raw = {name: tensors.get(f"raw.{name}", tensor) for name, tensor in weights.items()}
        load_weights(self.model, raw, origin=checkpoint.path)
        for name, parameter in self.parameters.items():
            if f"step.{name}" in tensors:
                self.optimizer.state[parameter] = {
                    key: _own(tensors[f"{key}.{name}"], self.device) for key in _MOMENTS
                }
        self.progress = Progress(**state["progress"])
        self.schedule.restore(state["schedule"])
        self.stream.load_state_dict(state["stream"])
        for key, here in self._made_with().items():
            before = state.get("made_with", {}).get(key, here)
            if before != here:
                log.warning(
                    "saved with %s %s, going on with %s: the last bits of all figures will differ "
                    "from those of a run that was never stopped", key, before, here,
                )  # fmt: skip

    def _made_with(self) -> dict[str, Any]:
        """Return what the same figures, to the last bit, depend on beside the recipe."""
        return {
            "torch": torch.__version__,
            "device": self.device.type,
            "threads": torch.get_num_threads(),
        }

    @torch.no_grad()
    def _load(self, weights: dict[str, Tensor]) -> None:
        for name, tensor in weights.items():
            self.parameters[name].copy_(tensor)


def _own(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a copy: what is read is mapped to the file, which may go, and to any address."""
    return tensor.to(device, copy=True)


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Return Adam or AdamW; vectors (biases, norms) are not decayed."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=config.learning_rate, betas=config.betas, eps=config.eps, fused=True)
