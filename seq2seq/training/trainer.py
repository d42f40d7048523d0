"""The loop of updates, validations and checkpoints."""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq.config import TrainingConfig
from seq2seq.data.batching import Batch, BatchStream
from seq2seq.model.translation import TranslationModel
from seq2seq.runs.checkpoint import (
    Checkpoint,
    average,
    load_weights,
    prune,
    rank,
    save_checkpoint,
    whole_checkpoints,
)
from seq2seq.runs.directory import RunDirectory
from seq2seq.training.device import choose_device, choose_dtype
from seq2seq.training.loss import projection_loss
from seq2seq.training.monitor import Monitor
from seq2seq.training.sampling import mix_predictions
from seq2seq.training.schedule import Schedule

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Validation:
    """Metrics of a validation, and samples of (source, reference, translation)."""

    metrics: dict[str, float]
    samples: list[tuple[str, str, str]]


Validate = Callable[[TranslationModel], Validation]


@dataclass
class Progress:
    """Where training stands; all of it is in every checkpoint."""

    step: int = 0
    tokens: int = 0
    minutes: float = 0.0
    best: float | None = None
    waited: int = 0  # validations without a better metric
    window: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("loss", "plain", "tokens"), 0.0)
    )


class Trainer:
    """Trains a model on a stream of batches; `validate` is handed in."""

    def __init__(
        self,
        model: TranslationModel,
        stream: BatchStream,
        config: TrainingConfig,
        run: RunDirectory,
        validate: Validate,
    ) -> None:
        self.device = choose_device(config.device)
        self.dtype = choose_dtype(config.precision, self.device)
        self.model = model.to(self.device)
        self.parameters = dict(model.named_parameters())
        self.stream, self.config, self.run, self.validate = stream, config, run, validate
        self.optimizer = _optimizer(model, config)
        self.schedule = Schedule(config.schedule, config.max_steps)
        self.averaged = (
            {name: p.detach().clone() for name, p in self.parameters.items()} if config.ema else {}
        )
        self.progress = Progress()
        self._stop = ""

    def train(self) -> str:
        """Train to the end; return why training ended: finished, early, interrupted, terminated.

        The first interrupt (Ctrl-C, SIGTERM) lets the update finish and saves; so does every end.
        """
        config, progress = self.config, self.progress
        monitor = Monitor(
            self.run,
            start=progress.step,
            max_steps=config.max_steps,
            tensorboard=config.tensorboard,
        )
        with monitor, self._signals():
            batches = iter(self.stream)
            began, minutes = time.monotonic(), progress.minutes
            marked, window_began = progress.step, time.monotonic()
            while not self._ended():
                self._update([next(batches) for _ in range(config.accumulate)])
                progress.minutes = minutes + (time.monotonic() - began) / 60
                monitor.advance()
                step = progress.step
                if step % config.log_every == 0:
                    elapsed = time.monotonic() - window_began
                    monitor.train(self._record(elapsed, steps=step - marked))
                    marked, window_began = step, time.monotonic()
                if step % config.validate_every == 0 or step == config.max_steps:
                    self._validate(monitor)
                    marked, window_began = step, time.monotonic()
                elif step % config.checkpoint_every == 0:
                    self._save()
            if self._stop in ("interrupted", "terminated"):
                self._save()
            elif config.average != "none":
                self._average(monitor)
        return self._stop or "finished"

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on exactly where a checkpoint was made."""
        tensors, state = checkpoint.training(), checkpoint.state
        weights = checkpoint.weights()
        if self.averaged:
            self.averaged = {name: tensor.to(self.device) for name, tensor in weights.items()}
            weights = {name: tensors[f"raw.{name}"] for name in weights}
        load_weights(self.model, weights, origin=checkpoint.path)
        for name, parameter in self.parameters.items():
            if f"exp_avg.{name}" in tensors:
                self.optimizer.state[parameter] = {
                    key: tensors[f"{key}.{name}"].to(self.device)
                    for key in ("exp_avg", "exp_avg_sq")
                } | {"step": tensors[f"step.{name}"]}
        torch.set_rng_state(tensors["generator.cpu"])
        if self.device.type == "cuda" and "generator.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["generator.cuda"], self.device)
        self.progress = Progress(**state["progress"])
        self.schedule.restore(state["schedule"])
        self.stream.load_state_dict(state["stream"])

    def _update(self, batches: list[Batch]) -> None:
        """Make one update from the sum of the batches' losses over the sum of their tokens."""
        config, progress = self.config, self.progress
        self.model.train()
        tokens = sum(batch.num_target_tokens for batch in batches)
        loss_sum = plain_sum = 0.0
        for batch in batches:
            loss, plain = self._loss(batch.to(self.device))
            (loss / tokens).backward()  # type: ignore[no-untyped-call]
            loss_sum, plain_sum = loss_sum + loss.item(), plain_sum + plain.item()
        limit = config.clip_norm or math.inf
        norm = float(nn.utils.clip_grad_norm_(self.parameters.values(), limit, foreach=True))
        progress.step += 1
        rate = config.learning_rate * self.schedule.factor(progress.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if math.isfinite(norm) and math.isfinite(loss_sum):
            self.optimizer.step()
            self._average_weights()
            progress.tokens += tokens
            for key, value in (("loss", loss_sum), ("plain", plain_sum), ("tokens", tokens)):
                progress.window[key] += value
        else:
            log.warning(
                "step %d: loss %g, gradient norm %g: not applied", progress.step, loss_sum, norm
            )
        self.optimizer.zero_grad(set_to_none=True)

    def _loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return sums over the batch's target pieces: smoothed loss, plain loss."""
        inputs_BT = batch.inputs_BT
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            if self.config.scheduled_sampling:
                share = self.config.scheduled_sampling * min(
                    1.0, self.progress.step / self.config.scheduled_sampling_steps
                )
                inputs_BT = mix_predictions(self.model, batch, share)
            features_BTO, _ = self.model(batch.source_BS, batch.source_mask_BS, inputs_BT)
            mask_BT = batch.label_mask_BT
            return projection_loss(
                features_BTO[mask_BT],
                self.model.output_weight,
                self.model.output_bias,
                batch.labels_BT[mask_BT],
                label_smoothing=self.config.label_smoothing,
            )

    @torch.no_grad()
    def _average_weights(self) -> None:
        if not self.averaged:
            return
        # A young average follows quickly, so that it does not remember the random start.
        decay = min(self.config.ema, (1 + self.progress.step) / (10 + self.progress.step))
        for name, parameter in self.parameters.items():
            self.averaged[name].lerp_(parameter, 1 - decay)

    def _record(self, elapsed: float, *, steps: int) -> dict[str, Any]:
        progress = self.progress
        window = progress.window
        tokens = max(1.0, window["tokens"])
        record = {
            "step": progress.step,
            "loss": window["loss"] / tokens,
            "perplexity": math.exp(min(700.0, window["plain"] / tokens)),
            "learning_rate": float(self.optimizer.param_groups[0]["lr"]),
            "tokens": progress.tokens,
            "epoch": self.stream.epoch,
            "tokens_per_second": tokens / self.config.log_every * steps / max(elapsed, 1e-9),
            "minutes": progress.minutes,
        }
        progress.window = Progress().window
        return record

    def _validate(self, monitor: Monitor) -> None:
        """Validate, tell, adapt the schedule, save with the metrics."""
        progress = self.progress
        with self._translating_weights():
            validation = self.validate(self.model)
        metric = validation.metrics[self.config.metric]
        better = (
            (lambda new, old: new < old)
            if self.config.metric == "loss"
            else (lambda new, old: new > old)
        )
        improved = progress.best is None or better(metric, progress.best)
        if improved:
            progress.best = metric
        progress.waited = 0 if improved else progress.waited + 1
        self.schedule.observe(improved=improved)
        record = {"step": progress.step, **validation.metrics, "minutes": progress.minutes}
        monitor.validation(record, validation.samples)
        self._save(validation.metrics)

    def _save(self, metrics: dict[str, float] | None = None) -> None:
        raw = {name: p.detach() for name, p in self.parameters.items()}
        training: dict[str, Tensor] = {"generator.cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            training["generator.cuda"] = torch.cuda.get_rng_state(self.device)
        for name, parameter in self.parameters.items():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                training[f"{key}.{name}"] = torch.as_tensor(value)
        if self.averaged:
            training |= {f"raw.{name}": tensor for name, tensor in raw.items()}
        state = {
            "step": self.progress.step,
            "progress": vars(self.progress),
            "schedule": self.schedule.state(),
            "stream": self.stream.state_dict(),
            **({"validation": metrics} if metrics else {}),
        }
        path = self.run.checkpoint_path(self.progress.step)
        save_checkpoint(path, self.averaged or raw, training, state)
        prune(
            self.run.checkpoints,
            metric=self.config.metric,
            keep_last=self.config.keep_last,
            keep_best=self.config.keep_best,
        )

    def _average(self, monitor: Monitor) -> None:
        """Write and validate the mean of the last or best checkpoints."""
        config = self.config
        checkpoints = whole_checkpoints(self.run.checkpoints)
        if config.average == "last":
            chosen = checkpoints[-config.keep_last :]
        else:
            chosen = rank(checkpoints, config.metric)[: config.keep_best]
        weights = average(chosen)
        load_weights(self.model, weights, origin=self.run.checkpoints)
        validation = self.validate(self.model)
        monitor.say(f"average of steps {', '.join(str(c.step) for c in chosen)}:")
        monitor.validation({"step": self.progress.step, **validation.metrics}, [])
        state = {"step": self.progress.step, "validation": validation.metrics}
        save_checkpoint(self.run.checkpoints / "average", weights, {}, state)

    @contextlib.contextmanager
    def _translating_weights(self) -> Iterator[None]:
        """Put the moving average into the model for a while, where there is one."""
        raw = (
            {name: p.detach().clone() for name, p in self.parameters.items()}
            if self.averaged
            else {}
        )
        for name, tensor in self.averaged.items():
            self.parameters[name].data.copy_(tensor)
        self.model.eval()
        try:
            yield
        finally:
            for name, tensor in raw.items():
                self.parameters[name].data.copy_(tensor)

    def _ended(self) -> bool:
        config, progress = self.config, self.progress
        if self._stop:
            return True
        if config.patience and progress.waited >= config.patience:
            self._stop = "early"
        last_epoch = math.inf if config.max_epochs is None else config.max_epochs
        if progress.step >= config.max_steps or self.stream.epoch >= last_epoch:
            self._stop = "finished"
        return bool(self._stop)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Turn the first Ctrl-C or SIGTERM into an orderly end; a second one acts as ever."""
        reasons = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
        before = {number: signal.getsignal(number) for number in reasons}

        def stop(number: int, frame: FrameType | None) -> None:
            self._stop = reasons[signal.Signals(number)]
            signal.signal(number, before[signal.Signals(number)])

        for number in reasons:
            signal.signal(number, stop)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Return Adam or AdamW; vectors (biases, norms) are not decayed."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=config.learning_rate, betas=config.betas, eps=config.eps, fused=True)
