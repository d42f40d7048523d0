"""The training loop: updates, validations, checkpoints, and everything that they save and restore.

Random generators have no state to save: each update seeds them (seed_generators).
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seq2seq.config import TrainingConfig
from seq2seq.data.batching import Batch
from seq2seq.data.stream import BatchStream
from seq2seq.device import choose_device, choose_dtype
from seq2seq.errors import ConfigError
from seq2seq.model.translation_model import TranslationModel
from seq2seq.processes import Ranks
from seq2seq.runs.checkpoint import (
    Checkpoint,
    average_weights,
    best_first,
    intact,
    list_checkpoints,
    load_weights,
    prune,
    save_checkpoint,
)
from seq2seq.runs.directory import RunDirectory
from seq2seq.training.monitor import Monitor, Validation
from seq2seq.training.optimizer import Optimizer, Schedule
from seq2seq.training.replay import CudaGraphs, HostCopy, Passes
from seq2seq.training.signals import REASONS, StopRequest

log = logging.getLogger(__name__)

SHOWN_PAIRS = 8  # of an update that is not finite
_SYNCHRONIZE_EVERY = 10  # updates, on a GPU or with local updates; else after each
_GROWTH = 4  # ranks first average after 1 local update, later after a quarter of those so far

Validate = Callable[[TranslationModel], Validation]


@dataclass
class Progress:
    """Counts of a training run; every checkpoint has all of them."""

    step: int = 0
    tokens: int = 0
    minutes: float = 0.0
    best: float | None = None
    waited: int = 0  # validations without a better metric
    skipped: int = 0  # consecutive updates that were not finite: the maximum of all ranks
    loss_sum: float = 0.0  # since the last record
    plain_sum: float = 0.0
    loss_tokens: int = 0


@dataclass(frozen=True)
class _Update:
    """One update: its number, its batches and their size, its losses and gradient norm."""

    step: int
    batches: list[Batch]
    tokens: int
    found: HostCopy


class Trainer:
    """Trains a model on a stream of batches, and validates it regularly with `validate`.

    All ranks have the same weights. They divide each batch and sum their gradients, and each rank
    then updates all weights. With `training.local_updates`, each rank instead makes updates of its
    own, with whole batches, and the ranks regularly average all that Adam changes (local SGD: Stich
    2019, algorithm 1, with Adam for each local update).
    """

    def __init__(
        self,
        model: TranslationModel,
        stream: BatchStream,
        config: TrainingConfig,
        run: RunDirectory,
        validate: Validate,
        ranks: Ranks | None = None,
    ) -> None:
        self.stream, self.config, self.run, self.validate = stream, config, run, validate
        self.device = choose_device(config.device)
        self.ranks = ranks or Ranks()
        self.dtype = choose_dtype(config.precision, self.device)
        on_gpu, record = self.device.type == "cuda", None
        if on_gpu:
            # Graphs cannot be recorded once work has begun on the default stream.
            torch.cuda.set_stream(torch.cuda.Stream(self.device))  # type: ignore[no-untyped-call]
            record = CudaGraphs() if config.cuda_graphs is True else None
        self.model = model.to(self.device)
        self.passes = Passes(model, config, self.dtype, record=record, static_shapes=on_gpu)
        self.optimizer = Optimizer(self.model, config)
        self.schedule = Schedule(config.schedule, config.max_steps, config.max_minutes)
        self.progress = Progress()
        self.ranks.broadcast_from_rank0_(self.optimizer.state_SN)
        self._local = config.local_updates > 1  # whether each rank makes updates of its own
        self._saved_step = self._validated_step = -1
        self._averaged_step = 0  # the last step at which all ranks had the same weights
        self._unread: deque[_Update] = deque()  # updates whose losses the host has not read
        self._ahead = int(on_gpu)  # their number: a GPU has work while the host prepares more
        self._counts = np.zeros(3)  # tokens and losses since the ranks last synchronized
        self._skipped = 0  # consecutive updates of this rank that were not finite
        self._started = 0.0  # when training would have started without interruptions
        self._speed_from = (0.0, 0)  # time and tokens at the start of the measured interval
        self._stop_reason = ""

    def train(self) -> str:
        """Train to the end; return why it ended: finished, early, interrupted or terminated.

        The first Ctrl-C or SIGTERM lets the update finish; every end saves a checkpoint.
        """
        config, progress = self.config, self.progress
        first = progress.step
        monitor = Monitor(
            self.run,
            config,
            start=first,
            minutes=progress.minutes,
            validated=self._validated_step == first,
            is_first=self.ranks.is_first,
        )
        with monitor, StopRequest() as stop:
            batches = iter(self.stream)
            self._started = time.monotonic() - 60 * progress.minutes
            self._restart_speed()
            if config.initial and first == 0 and self._validated_step != 0:
                self._validate(monitor)  # the initial weights, for comparison
            self._synchronize(stop)
            if first == 0:
                self.schedule.began = progress.minutes
            while not (reason := self._stop_reason or self._end()):
                self.update(self._next_batches(batches))
                if self._must_synchronize():
                    self._synchronize(stop)
                monitor.advance(progress.step, progress.minutes)
                if progress.step - self._averaged_step >= self._local_updates():
                    self._average_ranks()
                if progress.step % config.log_every == 0 and progress.loss_tokens:
                    monitor.train(self._record())
                if progress.step % config.validate_every == 0:
                    self._validate(monitor)
                    self._synchronize(stop)
                elif progress.step % config.checkpoint_every == 0 and not progress.skipped:
                    self._save_and_prune()
            if reason in REASONS.values():
                if self._saved_step != progress.step:
                    self._save_and_prune(stopped=True)
                return reason
            if self._validated_step != progress.step:
                self._validate(monitor)
            if config.average != "none":
                self._average(monitor, trained=progress.step > first)
            return reason

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue exactly from a checkpoint; the moving average may be switched on or off."""
        self.ranks.on_rank0(self._load, checkpoint)  # the other ranks may lack its files
        for tensor in (self.optimizer.state_SN, self.optimizer.updates):
            self.ranks.broadcast_from_rank0_(tensor)
        state = checkpoint.state
        self.progress = Progress(**state["progress"])
        self.schedule.restore(state["schedule"])
        self.stream.load_state_dict(state["stream"])
        self._skipped = self.progress.skipped
        self._saved_step = self._averaged_step = checkpoint.step
        self._validated_step = checkpoint.step if "validation" in state else -1
        for key, here in self._made_with().items():
            before = state.get("made_with", {}).get(key, here)
            if before != here:
                log.warning(
                    "saved with %s %s, resumed with %s: results will differ from those of an "
                    "uninterrupted run", key, before, here,
                )  # fmt: skip

    def _load(self, checkpoint: Checkpoint) -> None:
        weights = checkpoint.weights()
        load_weights(self.model, weights, origin=checkpoint.path)
        self.optimizer.restore(weights, checkpoint.training())

    def _synchronize(self, stop: StopRequest) -> None:
        """Make all ranks agree on the time (rank 0's), the counts, and whether to stop."""
        self._count_updates(0)
        progress = self.progress
        minutes = (time.monotonic() - self._started) / 60 if self.ranks.is_first else 0.0
        asked = [float(stop.reason == reason) for reason in REASONS.values()]
        skipped = [0.0] * self.ranks.size
        skipped[self.ranks.rank] = float(self._skipped)
        found = self.ranks.all_reduce([minutes, *self._counts, *skipped, *asked])
        progress.minutes, tokens, loss, plain = found[:4]
        progress.skipped = int(max(found[4 : 4 + self.ranks.size]))
        asked = found[4 + self.ranks.size :]
        self._counts[:] = 0
        progress.tokens += int(tokens)
        progress.loss_sum += loss
        progress.plain_sum += plain
        progress.loss_tokens += int(tokens)
        self._stop_reason = next((r for r, n in zip(REASONS.values(), asked, strict=True) if n), "")

    def _must_synchronize(self) -> bool:
        """Return whether the ranks synchronize after this update; they all return the same."""
        config, step = self.config, self.progress.step
        if not (self._local or self._ahead):
            return True
        reports = (config.log_every, config.validate_every, config.checkpoint_every)
        return any(step % n == 0 for n in (_SYNCHRONIZE_EVERY, *reports)) or bool(self._end())

    def _local_updates(self) -> int:
        """Return after how many local updates the ranks average: more often early in training."""
        return min(self.config.local_updates, 1 + self._averaged_step // _GROWTH)

    def _average_ranks(self) -> None:
        """Give all ranks the mean of their weights, moments and moving averages.

        Without local updates they are the same already.
        """
        step, optimizer = self.progress.step, self.optimizer
        if self._local and self._averaged_step != step:
            for own in (optimizer.state_SN, optimizer.updates):
                own /= self.ranks.size
                self.ranks.all_reduce_(own)
            self._averaged_step = step

    def _next_batches(self, batches: Iterator[Batch]) -> list[Batch]:
        """Return the batches of the next update; with local updates, each rank has its own."""
        if not self._local:
            return [next(batches) for _ in range(self.config.accumulate)]
        turn = [next(batches) for _ in range(self.config.accumulate * self.ranks.size)]
        return turn[self.ranks.rank :: self.ranks.size]

    def _end(self) -> str:
        """Return why training is over, or "" if it is not."""
        config, progress = self.config, self.progress
        if config.patience and progress.waited >= config.patience:
            return "early"
        limits = (
            (progress.step, config.max_steps),
            (self.stream.epoch, config.max_epochs),
            (progress.minutes, config.max_minutes),
        )
        return "finished" if any(m is not None and n >= m for n, m in limits) else ""

    def update(self, batches: list[Batch]) -> None:
        """Make one update with the loss of all batches, summed and divided by their tokens.

        A loss or gradient that is not finite is reported and not applied; raises ConfigError after
        too many of them in a row.
        """
        config, progress, ranks, passes = self.config, self.progress, self.ranks, self.passes
        self.model.train()
        seed_generators(config.seed, progress.step, ranks.rank)
        ramp = min(1.0, progress.step / config.scheduled_sampling_steps)
        tokens = sum(batch.num_target_tokens for batch in batches)
        self.optimizer.zero_grad()
        passes.totals.zero_()
        for batch in batches:
            own = batch if self._local else batch.shard(ranks.rank, ranks.size)
            passes(own, tokens, config.scheduled_sampling * ramp)
        if not self._local:
            ranks.all_reduce_(passes.totals)
            narrow = torch.bfloat16 if config.reduce_bf16 else None
            ranks.all_reduce_(self.optimizer.gradients_N, dtype=narrow)
        progress.step += 1
        norm = self.optimizer.step(progress.step, self._rate(), passes.totals[0])
        found = HostCopy(torch.cat((passes.totals, norm.unsqueeze(0))))
        self._unread.append(_Update(progress.step, batches, tokens, found))
        self._count_updates(self._ahead)

    def _count_updates(self, unread: int) -> None:
        """Add up the losses of all updates but the last `unread`, and report skipped updates."""
        while len(self._unread) > unread:
            update = self._unread.popleft()
            loss, plain, norm = update.found.wait()
            if not math.isfinite(loss + norm):
                self._skip(update, loss, norm)
                continue
            self._skipped = 0
            if self._local or self.ranks.is_first:  # otherwise all ranks count the same
                self._counts += (update.tokens, loss, plain)

    def _rate(self) -> float:
        """Return the learning rate of the latest update."""
        progress = self.progress
        factor = self.schedule.factor(progress.step, progress.minutes)
        return self.config.learning_rate * factor

    def _skip(self, update: _Update, loss: float, norm: float) -> None:
        self._skipped += 1
        pairs = [index for batch in update.batches for index in batch.indices]
        # Ranks other than 0 show errors only; without local updates, all skip the same updates.
        log.log(
            logging.ERROR if self._local else logging.WARNING,
            "step %d: loss %g, gradient norm %g: update skipped; its %d pairs in the cleaned "
            "corpus, counted from 0: %s%s", update.step, loss, norm, len(pairs),
            ", ".join(map(str, pairs[:SHOWN_PAIRS])), ", ..." if pairs[SHOWN_PAIRS:] else "",
        )  # fmt: skip
        if self._skipped >= self.config.max_skipped:
            raise ConfigError(
                f"training: {self._skipped} updates in a row were not finite; lower "
                "training.learning_rate or training.clip_norm and continue with --resume (earlier "
                "checkpoints are kept; if the latest checkpoint is unusable, delete it)"
            )

    def _record(self) -> dict[str, Any]:
        """Return losses and speed since the last record, and reset them."""
        progress = self.progress
        since, tokens_before = self._speed_from
        elapsed = max(time.monotonic() - since, 1e-9)
        tokens = progress.loss_tokens
        record = {
            "step": progress.step,
            "loss": progress.loss_sum / tokens,
            "perplexity": math.exp(min(700.0, progress.plain_sum / tokens)),
            "learning_rate": self._rate(),
            "tokens": progress.tokens,
            "epoch": self.stream.epoch,
            "tokens_per_second": (progress.tokens - tokens_before) / elapsed,
            "minutes": progress.minutes,
        }
        progress.loss_sum, progress.plain_sum, progress.loss_tokens = 0.0, 0.0, 0
        self._restart_speed()
        return record

    def _restart_speed(self) -> None:
        self._speed_from = (time.monotonic(), self.progress.tokens)

    def _validate(self, monitor: Monitor) -> None:
        """Validate, report, adapt the schedule, and save a checkpoint with the metrics."""
        progress = self.progress
        self._average_ranks()
        self.model.eval()  # until the next update
        with self.optimizer.averaged_weights():
            validation = self.validate(self.model)
        metric = validation.metrics[self.config.metric]
        sign = -1 if self.config.metric == "loss" else 1
        is_best = progress.best is None or sign * metric > sign * progress.best
        improved = math.isfinite(metric) and is_best
        if improved:
            progress.best = metric
        progress.waited = 0 if improved else progress.waited + 1
        self.schedule.observe(improved=improved)
        record = {"step": progress.step, **validation.metrics, "minutes": progress.minutes}
        monitor.validation(record, validation.samples)
        self._save_and_prune(validation.metrics)
        self._restart_speed()

    def _save_and_prune(
        self, metrics: dict[str, float] | None = None, *, stopped: bool = False
    ) -> None:
        """Average the ranks, save a checkpoint, and delete checkpoints that are no longer kept.

        `metrics` are given if exactly these weights were validated. `stopped` marks a checkpoint
        that is saved because of a signal, between regular ones.
        """
        config, progress = self.config, self.progress
        self._average_ranks()
        self._saved_step = progress.step
        state = {
            "step": progress.step,
            "progress": vars(progress),
            "schedule": self.schedule.state(),
            "stream": self.stream.state_dict(),
            "made_with": self._made_with(),
            "stopped": stopped,
        }
        if metrics is not None:
            self._validated_step = progress.step
            state["validation"] = metrics
        if not self.ranks.is_first:
            return
        path = self.run.checkpoint_path(progress.step)
        save_checkpoint(path, self.optimizer.weights(), self.optimizer.state(), state)
        if not progress.skipped:  # weights without a finite loss must not displace good ones
            prune(
                self.run.checkpoints,
                metric=config.metric,
                keep_last=config.keep_last,
                keep_best=config.keep_best,
            )

    def _made_with(self) -> dict[str, Any]:
        """Return everything besides the recipe that affects results, if only in the last bit."""
        return {
            "torch": torch.__version__,
            "device": next(self.model.parameters()).device.type,
            "threads": torch.get_num_threads(),
            "processes": self.ranks.size,
        }

    def _average(self, monitor: Monitor, *, trained: bool) -> None:
        """Report the mean of the last or best checkpoints; validate and save it if it is new."""
        run, ranks = self.run, self.ranks
        chosen = ranks.on_rank0(checkpoints_to_average, run, self.config)
        if not chosen:
            return
        steps = [checkpoint.step for checkpoint in chosen]
        saved = None if trained else ranks.on_rank0(saved_average, run, steps)
        if saved is not None:
            metrics = saved.state["validation"]
        else:
            weights = ranks.on_rank0(average_weights, chosen)
            load_weights(self.model, weights, origin=run.checkpoints)
            self.model.eval()
            metrics = self.validate(self.model).metrics
            if ranks.is_first:
                save_average(run, steps, weights, metrics)
        record = {"step": self.progress.step, "steps": steps, **metrics}
        monitor.validation(record, [], kind="average")


def seed_generators(seed: int, step: int, rank: int) -> None:
    """Seed torch's generators for one update, differently at each step and rank.

    So no generator state has to be saved for resuming, even with another number of ranks.
    """
    words = np.random.SeedSequence((seed, step, rank)).generate_state(2, np.uint32)
    torch.manual_seed(int(words[0]) << 31 | int(words[1]) >> 1)


def checkpoints_to_average(run: RunDirectory, config: TrainingConfig) -> list[Checkpoint]:
    """Return the last or best checkpoints; none if no validation had a finite metric."""
    # Without those saved because of a signal: interruptions must not change the result.
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
    """Write the mean as a checkpoint to translate with; it cannot be resumed."""
    state = {"step": steps[-1], "steps": steps, "validation": metrics}
    save_checkpoint(run.average_path, weights, {}, state)
