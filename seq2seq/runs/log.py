"""log.txt of a run."""

from __future__ import annotations

import contextlib
import logging
import sys


class RunLog(logging.FileHandler):
    """Appends what is told, with dates; a disk that refuses it is reported once, in one line.

    Training goes on without its log; a checkpoint that is refused too will end it.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, encoding="utf-8")
        self.setFormatter(logging.Formatter("%(asctime)s  %(message)s"))
        self._refused = False

    def handleError(self, record: logging.LogRecord) -> None:
        """Report the first error of the disk; any other is a mistake in the program."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._refused:
            self._refused = True
            print(f"{self.baseFilename}: cannot be written ({error.strerror})", file=sys.stderr)

    def close(self) -> None:
        """Close the file, even where the disk refuses what is left to write."""
        with contextlib.suppress(OSError):
            super().close()
