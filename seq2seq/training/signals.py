"""Ctrl-C and SIGTERM in training: finish the update, save a checkpoint, stop."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

REASONS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class StopRequest:
    """Turns the first Ctrl-C or SIGTERM into a `reason` to check; a second one ends the process.

    In an interactive Python session, such as a notebook, the second one acts as usual: it raises
    KeyboardInterrupt. Threads other than the main one receive no signals; there, this does nothing.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in REASONS:
                self._before[number] = signal.signal(number, self._stop) or signal.SIG_DFL
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.reason = REASONS[signal.Signals(number)]
        for each, before in self._before.items():  # torchrun sends SIGTERM when Ctrl-C is repeated
            # A KeyboardInterrupt would first wait for the thread that prepares batches.
            signal.signal(each, before if hasattr(sys, "ps1") else signal.SIG_DFL)
        if not int(os.environ.get("LOCAL_RANK", "0")):  # once on each machine
            # Neither print nor logging: the signal may have arrived in the middle of either.
            message = f"\n{self.reason}: saving; press Ctrl-C again to quit immediately\n"
            os.write(2, message.encode())
