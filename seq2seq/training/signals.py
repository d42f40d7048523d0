"""An orderly end on Ctrl-C or SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

REASONS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_STDERR = 2


class StopRequest:
    """Turns the first Ctrl-C or SIGTERM into a `reason` to look at; a second one ends the process.

    Where a person types Python, as in a notebook, it acts as ever, which is a KeyboardInterrupt.
    In a thread, which gets no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in REASONS:
                self._before[number] = signal.signal(number, self._stop) or signal.SIG_DFL
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number)
        self.reason = REASONS[name]
        # A KeyboardInterrupt would first wait for the thread that prepares batches.
        signal.signal(number, self._before[name] if hasattr(sys, "ps1") else signal.SIG_DFL)
        # Not print, nor logging: the signal may have come in the midst of either.
        os.write(_STDERR, f"\n{self.reason}: saving; once more ends at once\n".encode())
