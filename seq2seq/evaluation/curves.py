"""The learning curves of a run, read from its metrics.jsonl."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from seq2seq.errors import DataError
from seq2seq.runs.directory import RunDirectory

Unit = Literal["steps", "minutes", "tokens"]
UNITS: tuple[Unit, ...] = ("steps", "minutes", "tokens")

Record = dict[str, Any]


@dataclass(frozen=True)
class Curve:
    """Values over what training had spent by then; a value that was not finite is nan."""

    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class Curves:
    """The records of one run: of training, of validations, of the averaged checkpoint."""

    train: list[Record]
    validation: list[Record]
    average: list[Record]

    def loss(self, unit: Unit) -> Curve:
        """Return the training's cross-entropy in nats a target piece, without label smoothing."""
        found = self.of("train", "perplexity", unit)
        return Curve(found.x, [math.log(y) if y > 0 else math.nan for y in found.y])

    def of(self, kind: Literal["train", "validation", "average"], key: str, unit: Unit) -> Curve:
        """Return the values of one key, where there are any."""
        records = [record for record in getattr(self, kind) if key in record]
        values = [math.nan if record[key] is None else float(record[key]) for record in records]
        return Curve([self._place(record, unit) for record in records], values)

    def _place(self, record: Record, unit: Unit) -> float:
        """Return steps, minutes or millions of tokens of a record.

        A validation does not say its tokens; they are those of its step between the records of
        the training.
        """
        key = {"steps": "step", "minutes": "minutes", "tokens": "tokens"}[unit]
        steps = [0, *(train["step"] for train in self.train)]
        spent = [0, *(train[key] for train in self.train)]
        place = record[key] if key in record else np.interp(record["step"], steps, spent)
        return float(place) / (1e6 if unit == "tokens" else 1)


def read_curves(run: Path) -> Curves:
    """Read the records of a run.

    Raises DataError for a run without records, and for a line that is none; the last line may be
    cut off, by a training that is writing it.
    """
    path = RunDirectory(run).metrics
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); is {run} a run?") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8, so not the metrics of a run") from None
    kinds: dict[str, list[Record]] = {"train": [], "validation": [], "average": []}
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            kinds[record["kind"]].append({**record, "step": int(record["step"])})
        except (ValueError, KeyError, TypeError):
            if number < len(lines):
                raise DataError(
                    f"{path}:{number}: not a record of a training: {line[:40]}; mend or remove it"
                ) from None
    if not kinds["train"] and not kinds["validation"]:
        raise DataError(f"{path}: no records yet; train the run further")
    return Curves(**kinds)
