"""The two logs of a run: metrics.jsonl for programs, log.txt for people."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import sys
from collections.abc import Mapping
from logging.handlers import MemoryHandler
from pathlib import Path
from typing import Any

from seq2seq.errors import DataError
from seq2seq.files import naming, write_atomic

Record = dict[str, Any]

KINDS = ("train", "validation", "average")


class MetricsLog:
    """Appends records to metrics.jsonl; each is on disk before the checkpoint that follows it."""

    def __init__(self, path: Path, *, step: int, validated: bool) -> None:
        """Open the file and drop the records after `step`; resuming will write them again.

        `validated` says whether the validation of that step is already over.
        """
        kinds = ("train", "validation") if validated else ("train",)
        if path.exists():
            kept = []
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                record = _parse(line)  # None for a line that was cut off by a crash
                if record and (
                    record["step"] < step or (record["step"] == step and record["kind"] in kinds)
                ):
                    kept.append(line + "\n")
            write_atomic(path, "".join(kept))
        self._path = path
        self._file = path.open("a", encoding="utf-8")

    def write(self, kind: str, record: Mapping[str, Any]) -> None:
        """Append a record; JSON has no infinity or NaN, so those become null."""
        finite = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in record.items()
        }
        with naming(self._path):
            print(json.dumps({"kind": kind, **finite}), file=self._file, flush=True)
            os.fsync(self._file.fileno())

    def close(self) -> None:
        with naming(self._path):
            self._file.close()


def read_metrics(path: Path) -> list[Record]:
    """Return the records of a metrics.jsonl.

    The last line may be incomplete, since training may be writing it. Raises DataError for a file
    that cannot be read, and for any other line that is not a record.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); name the run directory of a training, "
            "since exported models have no records of it"
        ) from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8, so not the metrics of a run") from None
    records = []
    for number, line in enumerate(lines, start=1):
        record = _parse(line)
        if record:
            records.append(record)
        elif number < len(lines):
            raise DataError(
                f"{path}:{number}: not a training record: {line[:40]}; fix or remove the line"
            )
    return records


def _parse(line: str) -> Record | None:
    try:
        record = json.loads(line)
        known = record["kind"] in KINDS
        return {**record, "step": int(record["step"])} if known else None
    except (ValueError, KeyError, TypeError):
        return None


class RunLog(logging.FileHandler):
    """A context that writes the program's messages, with dates, to log.txt.

    Messages before `start` are kept and written then, when the run directory is known to be free.
    A disk error is reported once, in one line; training goes on without its log, until a checkpoint
    cannot be written either.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8", delay=True)
        self.setFormatter(logging.Formatter("%(asctime)s  %(message)s"))
        self._waiting = MemoryHandler(sys.maxsize, sys.maxsize, self, flushOnClose=False)
        self._failed = False

    def __enter__(self) -> RunLog:
        logging.getLogger("seq2seq").addHandler(self._waiting)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("seq2seq").removeHandler(self._waiting)
        self._waiting.close()  # before Python 3.12, logging.shutdown would write what waits
        self.close()

    def start(self) -> None:
        """Open the file and write the messages so far."""
        self.stream = self._open()
        self._waiting.capacity = 1
        self._waiting.flush()

    def handleError(self, record: logging.LogRecord) -> None:
        """Report the first disk error; any other error is a bug."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._failed:
            self._failed = True
            print(f"{self.baseFilename}: cannot be written ({error.strerror})", file=sys.stderr)

    def close(self) -> None:
        """Close the file, even if the disk refuses the rest of it."""
        with contextlib.suppress(OSError):
            super().close()
