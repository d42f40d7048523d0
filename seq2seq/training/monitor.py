"""The reports of training, for people, files and trackers."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from seq2seq.config import TrainingConfig
from seq2seq.config.loading import flat
from seq2seq.errors import ConfigError
from seq2seq.files import naming, write_atomic
from seq2seq.runs.directory import RunDirectory
from seq2seq.runs.logs import MetricsLog

log = logging.getLogger(__name__)

_QUIET_SECONDS = 30.0  # after so long without a record, the log says how far training is


@dataclass(frozen=True)
class Validation:
    """Metrics of a validation, and samples of (source, reference, translation)."""

    metrics: dict[str, float]
    samples: list[tuple[str, str, str]]


class Monitor:
    """Reports each record to the outputs that the recipe asks for, on rank 0 only."""

    def __init__(
        self,
        run: RunDirectory,
        config: TrainingConfig,
        *,
        start: int,
        minutes: float,
        validated: bool,
        is_first: bool,
    ) -> None:
        """Open the outputs and drop what was recorded after the step `start` (see MetricsLog).

        `minutes` is how long the run was trained before.
        """
        self._files: list[MetricsLog | TensorBoardWriter | Tracker] = []
        if is_first:
            self._files.append(MetricsLog(run.metrics, step=start, validated=validated))
            if config.tensorboard:
                self._files.append(TensorBoardWriter(run.path / "tensorboard", first=start + 1))
            self._files += [Tracker(name, run) for name in config.trackers]
        self._config, self._start = config, start
        self._started = self._logged = time.monotonic()
        self._bar = tqdm(
            total=1.0,
            initial=max(self._shares(start, minutes)),
            bar_format="{desc} {percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]",
            disable=not is_first or not sys.stderr.isatty(),
            dynamic_ncols=True,
        )

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
        for file in self._files:
            file.close()

    def advance(self, step: int, minutes: float) -> None:
        """Show that an update was made; without a bar, only if nothing was logged for a while."""
        self._bar.set_description_str(self._reached(step, minutes), refresh=False)
        self._bar.update(max(self._shares(step, minutes)) - self._bar.n)
        if self._bar.disable and time.monotonic() - self._logged >= _QUIET_SECONDS:
            self._log_progress(step, minutes)

    def train(self, record: dict[str, Any]) -> None:
        """Report losses and speed."""
        self._write("train", record)
        speed = record["tokens_per_second"]
        self._bar.set_postfix_str(f"loss {record['loss']:.3f}, {speed:.0f} tokens/s")
        if self._bar.disable:
            self._log_progress(
                record["step"], record["minutes"],
                f"loss {record['loss']:.3f}  perplexity {record['perplexity']:.1f}  "
                f"rate {record['learning_rate']:.2g}  {speed:.0f} tokens/s  ",
            )  # fmt: skip

    def validation(
        self,
        record: dict[str, Any],
        samples: list[tuple[str, str, str]],
        *,
        kind: str = "validation",
    ) -> None:
        """Report the metrics of a validation and show some translations."""
        self._write(kind, record)
        metrics = "  ".join(
            f"{key} {value:.3g}" if key == "loss" else f"{key} {value:.2f}"
            for key, value in record.items()
            if isinstance(value, float) and key != "minutes"
        )
        lines = [f"{kind} at step {record['step']}: {metrics}"]
        for source, reference, translation in samples:
            lines.append(f"    source       {source}")
            lines.append(f"    reference    {reference}")
            lines.append(f"    translation  {translation}")
        with self._bar.external_write_mode(file=sys.stderr):  # keeps the bar in one piece
            for line in lines:
                log.info("%s", line)

    def _log_progress(self, step: int, minutes: float, more: str = "") -> None:
        self._logged = time.monotonic()
        each = (self._logged - self._started) / max(1, step - self._start)
        left = each * (self._config.max_steps - step) / 60
        if self._config.max_minutes is not None:
            left = max(0.0, min(left, self._config.max_minutes - minutes))
        log.info("%s  %s%.1f min left", self._reached(step, minutes), more, left)

    def _shares(self, step: int, minutes: float) -> tuple[float, float]:
        """Return the fractions of max_steps and max_minutes that are over; one of 1 is the end."""
        most = self._config.max_minutes
        return min(1.0, step / self._config.max_steps), min(1.0, minutes / most) if most else 0.0

    def _reached(self, step: int, minutes: float) -> str:
        """Return how far training is, by the limit that will end it."""
        by_steps, by_clock = self._shares(step, minutes)
        if by_steps >= by_clock:
            return f"step {step}/{self._config.max_steps}"
        return f"step {step}, {minutes:.1f}/{self._config.max_minutes:g} min"

    def _write(self, kind: str, record: dict[str, Any]) -> None:
        for file in self._files:
            file.write(kind, record)


class TensorBoardWriter:
    """Writes scalars for TensorBoard, each at once.

    torch's SummaryWriter writes in a thread, where a full disk ends in a traceback.
    """

    def __init__(self, folder: Path, *, first: int) -> None:
        """Open a file; TensorBoard ignores records of older files from the step `first` on."""
        # Slow to import, and not every run writes it.
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        name = f"events.out.tfevents.{time.time_ns() // 10**9}.{socket.gethostname()}.{os.getpid()}"
        self._path = folder / name
        folder.mkdir(parents=True, exist_ok=True)
        self._event = Event
        self._file = RecordWriter(self._path.open("wb"))
        self._write_event(file_version="brain.Event:2")
        self._write_event(step=first, session_log=SessionLog(status=SessionLog.START))

    def write(self, kind: str, record: dict[str, Any]) -> None:
        """Write the record's floats as scalars."""
        for tag, value in _scalars(kind, record).items():
            scalar = {"tag": tag, "simple_value": value}
            self._write_event(step=record["step"], summary={"value": [scalar]})

    def close(self) -> None:
        with naming(self._path):
            self._file.close()

    def _write_event(self, **fields: object) -> None:
        event = self._event(wall_time=time.time(), **fields)
        with naming(self._path):
            self._file.write(event.SerializeToString())
            self._file.flush()


def check_tracker(name: str) -> None:
    """Raise ConfigError if a tracker cannot be used; begin no record."""
    with _beginning(name):
        if name == "mlflow":
            import mlflow

            mlflow.search_experiments(max_results=1)
        else:
            import wandb

            wandb.login()


@contextlib.contextmanager
def _beginning(name: str) -> Iterator[None]:
    """Turn any exception of a tracker, except for a missing package, into a ConfigError."""
    try:
        yield
    except ModuleNotFoundError:
        raise
    except Exception as error:  # of a server, an account or a disk
        raise ConfigError(f"training.trackers: {name} cannot be used: {error}") from None


class Tracker:
    """Reports to MLflow or Weights & Biases, which read their own environment variables.

    A resumed run continues its record. If reporting fails, training goes on.
    """

    def __init__(self, name: str, run: RunDirectory) -> None:
        """Begin a record, or continue the run's. Raises ConfigError if that fails."""
        self._name = name
        self._log: Callable[..., object]
        self._end: Callable[[], object]
        known = run.tracked(name).read_text() if run.tracked(name).exists() else None
        recipe = flat(run.config().model_dump(mode="json"))
        with _beginning(name):
            identity = (self._mlflow if name == "mlflow" else self._wandb)(run, known, recipe)
        write_atomic(run.tracked(name), identity)

    def _mlflow(self, run: RunDirectory, known: str | None, recipe: dict[str, Any]) -> str:
        import mlflow

        found = mlflow.start_run(run_id=known, run_name=run.path.name)
        if not known:
            mlflow.log_params(recipe)
        self._log, self._end = mlflow.log_metrics, mlflow.end_run
        return str(found.info.run_id)

    def _wandb(self, run: RunDirectory, known: str | None, recipe: dict[str, Any]) -> str:
        import wandb

        found = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "seq2seq"),
            name=run.path.name,
            dir=run.path,
            id=known,
            resume="allow" if known else None,
            config=recipe,
        )
        self._log, self._end = found.log, found.finish
        return str(found.id)

    def write(self, kind: str, record: dict[str, Any]) -> None:
        """Report the record's floats."""
        self._try(lambda: self._log(_scalars(kind, record), step=record["step"]))

    def close(self) -> None:
        self._try(self._end)

    def _try(self, report: Callable[[], object]) -> None:
        try:
            report()
        except Exception as error:
            log.warning("%s: %s; this was not reported, training goes on", self._name, error)


def _scalars(kind: str, record: dict[str, Any]) -> dict[str, float]:
    """Return the floats of a record by their names in TensorBoard and trackers."""
    return {f"{kind}/{key}": x for key, x in record.items() if isinstance(x, float)}
