"""What training tells: a bar or plain lines, metrics.jsonl, TensorBoard."""

from __future__ import annotations

import json
import logging
import math
import os
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tqdm import tqdm

from seq2seq.config import TrainingConfig
from seq2seq.files import naming, write_atomic
from seq2seq.runs.directory import RunDirectory


class Board:
    """Writes each scalar at once.

    torch's SummaryWriter writes in a thread, which meets a full disk with a traceback of its own.
    """

    def __init__(self, folder: Path, *, first: int) -> None:
        """Open a file; TensorBoard forgets what older ones have from the step `first` on."""
        # A moment, and not all runs want it.
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        name = f"events.out.tfevents.{time.time_ns() // 10**9}.{socket.gethostname()}.{os.getpid()}"
        self._path = folder / name
        folder.mkdir(parents=True, exist_ok=True)
        self._event = Event
        self._file = RecordWriter(self._path.open("wb"))
        self._write(file_version="brain.Event:2")
        self._write(step=first, session_log=SessionLog(status=SessionLog.START))

    def add(self, scalars: Mapping[str, float], step: int) -> None:
        """Write scalars by their tags."""
        for tag, value in scalars.items():
            self._write(step=step, summary={"value": [{"tag": tag, "simple_value": value}]})

    def close(self) -> None:
        """Close the file."""
        with naming(self._path):
            self._file.close()

    def _write(self, **fields: object) -> None:
        event = self._event(wall_time=time.time(), **fields)
        with naming(self._path):
            self._file.write(event.SerializeToString())
            self._file.flush()


log = logging.getLogger(__name__)


class Monitor:
    """Writes one record at a time to every place that wants it."""

    def __init__(
        self, run: RunDirectory, config: TrainingConfig, *, start: int, validated: bool = False
    ) -> None:
        """Open the places; what was recorded after step `start` is forgotten.

        `validated` says whether the validation of that step itself is over.
        """
        _truncate(run.metrics, start, ("train", "validation") if validated else ("train",))
        self._path = run.metrics
        self._file = self._path.open("a", encoding="utf-8")
        board = run.path / "tensorboard"
        self._board = Board(board, first=start + 1) if config.tensorboard else None
        self._bar = tqdm(
            total=config.max_steps,
            initial=start,
            unit="step",
            disable=not sys.stderr.isatty(),
            dynamic_ncols=True,
        )
        self._config, self._start = config, start
        self._began = time.monotonic()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()
        with naming(self._path):
            self._file.close()
        if self._board is not None:
            self._board.close()

    def advance(self) -> None:
        """Count one update."""
        self._bar.update()

    def train(self, record: dict[str, Any]) -> None:
        """Tell losses and speed."""
        self._write("train", record)
        speed = record["tokens_per_second"]
        self._bar.set_postfix_str(f"loss {record['loss']:.3f}, {speed:.0f} tokens/s")
        if self._bar.disable:
            log.info(
                "step %d/%d  loss %.3f  perplexity %.1f  rate %.2g  %.0f tokens/s  %.1f min left",
                record["step"], self._config.max_steps, record["loss"], record["perplexity"],
                record["learning_rate"], speed, self._minutes_left(record),
            )  # fmt: skip

    def validation(
        self,
        record: dict[str, Any],
        samples: list[tuple[str, str, str]],
        *,
        kind: str = "validation",
    ) -> None:
        """Tell the metrics of a validation and show some translations."""
        self._write(kind, record)
        metrics = "  ".join(
            f"{key} {value:.3g}" if key == "loss" else f"{key} {value:.2f}"
            for key, value in record.items()
            if isinstance(value, float) and key != "minutes"
        )
        self._say(f"{kind} at step {record['step']}: {metrics}")
        for source, reference, translation in samples:
            self._say(f"    source       {source}")
            self._say(f"    reference    {reference}")
            self._say(f"    translation  {translation}")

    def _say(self, message: str) -> None:
        """Log a message without tearing the bar."""
        with self._bar.external_write_mode(file=sys.stderr):
            log.info("%s", message)

    def _minutes_left(self, record: dict[str, Any]) -> float:
        """Return what is left by the steps or by the clock, whichever ends first."""
        step = int(record["step"])
        each = (time.monotonic() - self._began) / max(1, step - self._start)
        left = each * (self._config.max_steps - step) / 60
        if self._config.max_minutes is None:
            return left
        return max(0.0, min(left, self._config.max_minutes - float(record["minutes"])))

    def _write(self, kind: str, record: Mapping[str, Any]) -> None:
        # JSON has no word for what is not finite.
        plain = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in record.items()
        }
        with naming(self._path):
            print(json.dumps({"kind": kind, **plain}), file=self._file, flush=True)
            os.fsync(self._file.fileno())  # before the checkpoint that goes on behind it
        if self._board is not None:
            scalars = {f"{kind}/{k}": v for k, v in record.items() if isinstance(v, float)}
            self._board.add(scalars, record["step"])


class NullMonitor(Monitor):
    """Tells nothing; for the ranks that do not write."""

    def __init__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def advance(self) -> None:
        pass

    def train(self, record: dict[str, Any]) -> None:
        pass

    def validation(self, *_: object, kind: str = "") -> None:
        pass


def _truncate(path: Path, step: int, kinds: tuple[str, ...]) -> None:
    """Forget what was recorded after a step, and a line that was cut off in mid-writing.

    Of the step itself the kinds given are kept: the others are yet to come.
    """
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
            if record["step"] < step or (record["step"] == step and record["kind"] in kinds):
                kept.append(line + "\n")
        except (ValueError, KeyError, TypeError):
            continue
    write_atomic(path, "".join(kept))
