"""The lines of a pipe, as soon as they arrive."""

from __future__ import annotations

import os
import select
import stat
import time
from collections import deque
from typing import BinaryIO

_CHUNK = 1 << 16  # bytes; a buffered reader that is asked for so many keeps none


class Pipe:
    """A pipe, which can tell whether its next line has arrived."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        """Take a buffered reader, which nothing else may read from now on.

        A line of more than `most` bytes may come in parts, of which the first has more, too.
        """
        self._file, self._most = file, most
        self._lines: deque[bytes] = deque()
        self._rest, self._is_open = bytearray(), True

    def readline(self, _size: int = -1) -> bytes:
        """Return the next line with its end, or b"" at the end of the pipe; wait for it."""
        while not self._lines and self._is_open:
            self._read()
        return self._lines.popleft() if self._lines else b""

    def has_line(self, until: float = 0.0) -> bool:
        """Return whether the next line is here, or arrives until this `time.monotonic()`."""
        while not self._lines and self._is_open:
            left = max(0.0, until - time.monotonic())
            if not select.select([self._file], [], [], left)[0]:
                break
            self._read()
        return bool(self._lines)

    def _read(self) -> None:
        """Read what has arrived, or wait until something does."""
        chunk = self._file.read1(_CHUNK)  # type: ignore[attr-defined]  # of buffered readers
        head, end, tail = chunk.rpartition(b"\n")
        if end:
            lines = bytes(self._rest + head).split(b"\n")
            self._lines += (line + end for line in lines)
            self._rest.clear()
        self._rest += tail
        self._is_open = bool(chunk)
        if self._rest and (not chunk or len(self._rest) > self._most):
            self._lines.append(bytes(self._rest))
            self._rest.clear()


def is_pipe(file: BinaryIO) -> bool:
    """Return whether reading a file may wait, as with a pipe, a socket or a terminal."""
    try:
        return os.name != "nt" and not stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except (OSError, ValueError):  # not a file of the system
        return False
