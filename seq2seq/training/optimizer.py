"""One update of all weights: summed gradients, clipping, Adam and the moving average.

All that an update reads and writes is one block of memory. Its rows are as long as all weights
together: the weights, Adam's two moments, the moving average, and the gradients. Ranks on the CPUs
of one host share the block. Each has a row for its own gradients, and updates its part of the
weights for all of them. With `training.local_updates`, each rank has a block of its own, and now
and then they take the mean of all.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from seq2seq.config import TrainingConfig
from seq2seq.parallel import Ranks

_WEIGHTS, _FIRST_MOMENT, _SECOND_MOMENT, _AVERAGE = range(4)
_ALIGNMENT = 16  # floats, which are 64 bytes: as torch aligns tensors


class Optimizer:
    """Adam or AdamW with clipping and a moving average; the model's weights become views."""

    def __init__(self, model: nn.Module, config: TrainingConfig, ranks: Ranks) -> None:
        """Take over the weights of rank 0; other ranks may have other ones."""
        self.config = config
        # Vectors (biases, norms) come last: weight decay leaves them out.
        ordered = sorted(model.named_parameters(), key=lambda named: named[1].dim() <= 1)
        self.parameters = dict(ordered)
        values = list(self.parameters.values())
        device = values[0].device
        sizes = [math.ceil(p.numel() / _ALIGNMENT) * _ALIGNMENT for p in values]
        *self._starts, columns = accumulate(sizes, initial=0)
        matrices = sum(size for p, size in zip(values, sizes, strict=True) if p.dim() > 1)
        # Other ranks exchange gradients on their own, or none, and each updates all weights.
        shared = ranks.on_one_host and device.type == "cpu" and config.local_updates == 1
        self.group = ranks if shared else Ranks()
        self._ranks = ranks
        states = _AVERAGE + bool(config.ema)
        rows = states + self.group.size
        self._block = self.group.zeros(rows * columns, device).view(rows, columns)
        self._state_SN, self._gradients_RN = self._block[:states], self._block[states:]
        chunk = math.ceil(columns / _ALIGNMENT / self.group.size) * _ALIGNMENT
        begin, end = (min(columns, chunk * (self.group.rank + n)) for n in (0, 1))
        self._mine = slice(begin, end)
        cut = min(max(begin, matrices), end)
        self._parts = ((slice(begin, cut), config.weight_decay), (slice(cut, end), 0.0))
        self._updates = torch.zeros(len(self._parts), device=device)  # the same for each part
        if ranks.is_first:
            initial = {name: parameter.detach() for name, parameter in ordered}
            self.restore(initial, {})
        if config.local_updates > 1:
            ranks.sum_tensor(self._state_SN)  # those of other ranks are zero
        self.group.barrier()
        self._use(_WEIGHTS)
        gradients = self._views(self._gradients_RN[self.group.rank])
        for name, parameter in ordered:
            parameter.grad = gradients[name]

    @property
    def averages(self) -> bool:
        """Whether there is a moving average."""
        return bool(self.config.ema)

    def zero_grad(self) -> None:
        """Forget the gradients of this rank."""
        self._gradients_RN[self.group.rank].zero_()

    def sum_gradients(self) -> float:
        """Add up the gradients once all ranks have computed theirs; return the norm of the sum."""
        mine_RN = self._gradients_RN[:, self._mine]
        for others_N in mine_RN[1:]:
            mine_RN[0] += others_N
        norm = float(torch.linalg.vector_norm(mine_RN[0]))
        return math.sqrt(self.group.all_reduce([norm**2])[0])

    @torch.no_grad()
    def step(self, step: int, rate: float, norm: float) -> None:
        """Make update number `step`, from 1, with summed gradients of this norm."""
        config, block = self.config, self._block
        # As torch.nn.utils.clip_grad_norm_ does; Adam divides the gradient by this.
        scale = max(1.0, (norm + 1e-6) / (config.clip_norm or math.inf))
        for (part, weight_decay), updates in zip(self._parts, self._updates, strict=True):
            adam(
                [block[_WEIGHTS, part]], [self._gradients_RN[0, part]],
                [block[_FIRST_MOMENT, part]], [block[_SECOND_MOMENT, part]], [], [updates],
                fused=True, lr=rate, beta1=config.betas[0], beta2=config.betas[1], eps=config.eps,
                weight_decay=weight_decay, amsgrad=False, maximize=False,
                decoupled_weight_decay=config.optimizer == "adamw",
                grad_scale=updates.new_tensor(scale),
            )  # fmt: skip
        if self.averages:
            decay = config.ema
            if config.initial is None:
                # A young average moves quickly, so that it forgets the random initial weights.
                decay = min(decay, (1 + step) / (10 + step))
            block[_AVERAGE, self._mine].lerp_(block[_WEIGHTS, self._mine], 1 - decay)
        self.group.barrier()

    @torch.no_grad()
    def average_ranks(self) -> None:
        """Give each rank the mean of all ranks' weights, moments and moving averages.

        That is local SGD (Stich 2019, algorithm 1) with Adam for each local update.
        """
        for own in (self._state_SN, self._updates):
            own /= self._ranks.size
            self._ranks.sum_tensor(own)

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Give the model its averaged weights for a while, if there are any."""
        self._use(_AVERAGE if self.averages else _WEIGHTS)
        try:
            yield
        finally:
            self._use(_WEIGHTS)

    def weights(self) -> dict[str, Tensor]:
        """Return the weights that translate: the averaged ones, if there are any."""
        return self._views(self._block[_AVERAGE if self.averages else _WEIGHTS])

    def state(self) -> dict[str, Tensor]:
        """Return what resuming needs besides these weights."""
        rows = {"raw": _WEIGHTS} if self.averages else {}
        if self._updates[0]:
            rows |= {"exp_avg": _FIRST_MOMENT, "exp_avg_sq": _SECOND_MOMENT}
        state = {
            f"{key}.{name}": view
            for key, row in rows.items()
            for name, view in self._views(self._block[row]).items()
        }
        if self._updates[0]:
            state |= {f"step.{name}": self._updates[0].clone() for name in self.parameters}
        return state

    def restore(self, weights: dict[str, Tensor], state: dict[str, Tensor]) -> None:
        """Continue from saved weights and state; the moving average may be switched on or off."""
        self._copy(_WEIGHTS, {name: state.get(f"raw.{name}", weights[name]) for name in weights})
        if self.averages:
            self._copy(_AVERAGE, weights)
        for name in self.parameters:
            if f"step.{name}" in state:
                self._views(self._block[_FIRST_MOMENT])[name].copy_(state[f"exp_avg.{name}"])
                self._views(self._block[_SECOND_MOMENT])[name].copy_(state[f"exp_avg_sq.{name}"])
                self._updates.copy_(state[f"step.{name}"])

    def _views(self, row_N: Tensor) -> dict[str, Tensor]:
        """Return the part of a row that belongs to each parameter, in its shape."""
        return {
            name: row_N[start : start + parameter.numel()].view(parameter.shape)
            for start, (name, parameter) in zip(self._starts, self.parameters.items(), strict=True)
        }

    def _copy(self, row: int, tensors: dict[str, Tensor]) -> None:
        for name, view in self._views(self._block[row]).items():
            view.copy_(tensors[name])

    def _use(self, row: int) -> None:
        """Let the model compute with the weights of a row."""
        for name, view in self._views(self._block[row]).items():
            self.parameters[name].data = view
