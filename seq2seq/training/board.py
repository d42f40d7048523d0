"""Scalars for TensorBoard."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from seq2seq.files import naming


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
