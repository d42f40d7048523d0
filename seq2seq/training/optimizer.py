"""One update of all weights: learning rate, clipping, Adam and the moving average.

An update reads and writes rows of memory, each as long as all weights together: the weights, Adam's
two moments and the moving average in `state_SN`, the gradients in `gradients_N`. So ranks can sum
their gradients, or average their states, in one exchange (seq2seq.training.trainer).

Legend: N weights, each tensor filled up to a multiple of 64 bytes; S rows.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from seq2seq.config import ScheduleConfig, TrainingConfig

_WEIGHTS, _FIRST_MOMENT, _SECOND_MOMENT, _AVERAGE = range(4)
_ALIGNMENT = 16  # floats, or 64 bytes: as torch aligns tensors
_LONGEST_WARMUP = 0.2  # of max_minutes: on a slow machine, few updates may fit into that time


@dataclass
class Schedule:
    """Factors of the peak learning rate; only the plateau schedule has a state of its own.

    inverse_sqrt is sqrt(warmup / step) (Vaswani et al. 2017, eq. 3, up to its constant). cosine
    and linear decay over the steps, or over time if `max_minutes` ends training sooner. The warm-up
    takes at most a fifth of `max_minutes`.
    """

    config: ScheduleConfig
    max_steps: int
    max_minutes: float | None = None
    plateau: float = 1.0
    waited: int = 0
    began: float = 0.0  # the minute of the first update; a validation may come before it

    def factor(self, step: int, minutes: float = 0.0) -> float:
        """Return the fraction of the peak rate for an update; steps count from 1."""
        config = self.config
        longest = _LONGEST_WARMUP * (self.max_minutes or math.inf)
        if step <= config.warmup_steps and minutes - self.began < longest:
            return max(step / config.warmup_steps, (minutes - self.began) / longest)
        if config.kind == "constant":
            return 1.0
        if config.kind == "plateau":
            return max(config.min_factor, self.plateau)
        if config.kind == "inverse_sqrt":
            return max(config.min_factor, min(1.0, math.sqrt(config.warmup_steps / step)))
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
        """Return the state to resume from."""
        by_clock = {"began": self.began} if self.max_minutes else {}
        return {"plateau": self.plateau, "waited": self.waited, **by_clock}

    def restore(self, state: dict[str, float]) -> None:
        """Continue from a saved state."""
        self.plateau, self.waited = state["plateau"], int(state["waited"])
        self.began = state.get("began", 0.0)


class Optimizer:
    """Adam or AdamW with clipping and a moving average; the model's weights become views."""

    def __init__(self, model: nn.Module, config: TrainingConfig) -> None:
        self.config = config
        self.averages = bool(config.ema)  # whether there is a moving average
        # Vectors (biases, norms) come last: weight decay leaves them out.
        ordered = sorted(model.named_parameters(), key=lambda named: named[1].dim() <= 1)
        self.parameters = dict(ordered)
        values = list(self.parameters.values())
        device = values[0].device
        sizes = [math.ceil(p.numel() / _ALIGNMENT) * _ALIGNMENT for p in values]
        *self._starts, columns = accumulate(sizes, initial=0)
        matrices = sum(size for p, size in zip(values, sizes, strict=True) if p.dim() > 1)
        self._parts = ((slice(0, matrices), config.weight_decay), (slice(matrices, columns), 0.0))
        self.state_SN = torch.zeros(_AVERAGE + self.averages, columns, device=device)
        self.gradients_N = torch.zeros(columns, device=device)
        self.updates = torch.zeros(len(self._parts), device=device)  # the same for each part
        self.restore({name: parameter.detach() for name, parameter in ordered}, {})
        self._use(_WEIGHTS)
        for name, view in self._views(self.gradients_N).items():
            self.parameters[name].grad = view

    def zero_grad(self) -> None:
        """Set all gradients to zero."""
        self.gradients_N.zero_()

    @torch.no_grad()
    def step(self, step: int, rate: float, loss: Tensor) -> Tensor:
        """Make update number `step`, from 1, with clipped gradients; return their norm.

        If the loss or the norm is not finite, nothing changes. The device decides, so that the host
        need not wait for it.
        """
        config, state_SN = self.config, self.state_SN
        norm: Tensor = torch.linalg.vector_norm(self.gradients_N).double()
        finite = torch.isfinite(norm + loss).float()
        # As torch.nn.utils.clip_grad_norm_ does; Adam divides the gradient by this.
        scale = ((norm + 1e-6) / (config.clip_norm or math.inf)).clamp(min=1.0).float()
        for (part, weight_decay), updates in zip(self._parts, self.updates, strict=True):
            adam(
                [state_SN[_WEIGHTS, part]], [self.gradients_N[part]],
                [state_SN[_FIRST_MOMENT, part]], [state_SN[_SECOND_MOMENT, part]], [], [updates],
                fused=True, lr=rate, beta1=config.betas[0], beta2=config.betas[1], eps=config.eps,
                weight_decay=weight_decay, amsgrad=False, maximize=False,
                decoupled_weight_decay=config.optimizer == "adamw",
                grad_scale=scale, found_inf=1 - finite,
            )  # fmt: skip
        if self.averages:
            decay = config.ema
            if config.initial is None:
                # At first the average moves quickly, so that it forgets the random initial weights.
                decay = min(decay, (1 + step) / (10 + step))
            state_SN[_AVERAGE].lerp_(state_SN[_WEIGHTS], finite * (1 - decay))
        return norm

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Let the model compute with its averaged weights, if there are any, until the end."""
        self._use(_AVERAGE if self.averages else _WEIGHTS)
        try:
            yield
        finally:
            self._use(_WEIGHTS)

    def weights(self) -> dict[str, Tensor]:
        """Return the weights for translation: the averaged ones, if there are any."""
        return self._views(self.state_SN[_AVERAGE if self.averages else _WEIGHTS])

    def state(self) -> dict[str, Tensor]:
        """Return the state to resume from, besides these weights."""
        rows = {"raw": _WEIGHTS} if self.averages else {}
        if self.updates[0]:
            rows |= {"exp_avg": _FIRST_MOMENT, "exp_avg_sq": _SECOND_MOMENT}
        state = {
            f"{key}.{name}": view
            for key, row in rows.items()
            for name, view in self._views(self.state_SN[row]).items()
        }
        if self.updates[0]:
            state |= {f"step.{name}": self.updates[0].clone() for name in self.parameters}
        return state

    def restore(self, weights: dict[str, Tensor], state: dict[str, Tensor]) -> None:
        """Continue from saved weights and state; the moving average may be switched on or off."""
        self._copy(_WEIGHTS, {name: state.get(f"raw.{name}", weights[name]) for name in weights})
        if self.averages:
            self._copy(_AVERAGE, weights)
        for name in self.parameters:
            if f"step.{name}" in state:
                self._views(self.state_SN[_FIRST_MOMENT])[name].copy_(state[f"exp_avg.{name}"])
                self._views(self.state_SN[_SECOND_MOMENT])[name].copy_(state[f"exp_avg_sq.{name}"])
                self.updates.copy_(state[f"step.{name}"])

    def _views(self, row_N: Tensor) -> dict[str, Tensor]:
        """Return the part of a row that belongs to each parameter, in its shape."""
        return {
            name: row_N[start : start + parameter.numel()].view(parameter.shape)
            for start, (name, parameter) in zip(self._starts, self.parameters.items(), strict=True)
        }

    def _copy(self, row: int, tensors: dict[str, Tensor]) -> None:
        for name, view in self._views(self.state_SN[row]).items():
            view.copy_(tensors[name])

    def _use(self, row: int) -> None:
        """Let the model compute with the weights of a row."""
        for name, view in self._views(self.state_SN[row]).items():
            self.parameters[name].data = view
