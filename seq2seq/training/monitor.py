"""What training tells: a bar or plain lines, metrics.jsonl, TensorBoard."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tqdm import tqdm

from seq2seq.runs.directory import RunDirectory
from seq2seq.runs.files import write_atomic

log = logging.getLogger(__name__)


class Monitor:
    """Writes one record at a time to every place that wants it."""

    def __init__(self, run: RunDirectory, *, start: int, max_steps: int, tensorboard: bool) -> None:
        _truncate(run.metrics, start)
        self._file = run.metrics.open("a", encoding="utf-8")
        self._board = _board(run.path / "tensorboard", start) if tensorboard else None
        shown = sys.stderr.isatty()
        self._bar = tqdm(
            total=max_steps, initial=start, unit="step", disable=not shown, dynamic_ncols=True
        )
        self._max_steps, self._start = max_steps, start
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
        self._file.close()
        if self._board is not None:
            self._board.close()

    def advance(self) -> None:
        """Count one update."""
        self._bar.update()

    def train(self, record: dict[str, Any]) -> None:
        """Tell losses and speed."""
        self._write("train", record)
        step, speed = record["step"], record["tokens_per_second"]
        self._bar.set_postfix_str(f"loss {record['loss']:.3f}, {speed:.0f} tokens/s")
        if self._bar.disable:
            left = (time.monotonic() - self._began) / max(1, step - self._start)
            minutes = left * (self._max_steps - step) / 60
            log.info(
                "step %d/%d  loss %.3f  perplexity %.1f  rate %.2g  %.0f tokens/s  %.1f min left",
                step, self._max_steps, record["loss"], record["perplexity"],
                record["learning_rate"], speed, minutes,
            )  # fmt: skip

    def validation(self, record: dict[str, Any], samples: list[tuple[str, str, str]]) -> None:
        """Tell the metrics of a validation and show some translations."""
        self._write("validation", record)
        metrics = "  ".join(
            f"{key} {value:.3g}" if key == "loss" else f"{key} {value:.2f}"
            for key, value in record.items()
            if isinstance(value, float) and key not in ("minutes",)
        )
        self.say(f"validation at step {record['step']}: {metrics}")
        for source, reference, translation in samples:
            self.say(f"    source       {source}")
            self.say(f"    reference    {reference}")
            self.say(f"    translation  {translation}")

    def say(self, message: str) -> None:
        """Log a message without tearing the bar."""
        with self._bar.external_write_mode(file=sys.stderr):
            log.info("%s", message)

    def _write(self, kind: str, record: Mapping[str, Any]) -> None:
        print(json.dumps({"kind": kind, **record}), file=self._file, flush=True)
        if self._board is not None:
            for key, value in record.items():
                if isinstance(value, float):
                    self._board.add_scalar(f"{kind}/{key}", value, record["step"])


def _truncate(path: Path, step: int) -> None:
    """Forget what was recorded after a step, and a line that was cut off in mid-writing."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line + "\n")
        except (ValueError, KeyError):
            continue
    write_atomic(path, "".join(kept))


def _board(path: Path, start: int) -> Any:
    from torch.utils.tensorboard import SummaryWriter  # type: ignore[attr-defined]

    return SummaryWriter(str(path), purge_step=start + 1)  # type: ignore[no-untyped-call]
