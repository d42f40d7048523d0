"""A file system that fails, or a process that dies, at a chosen writing call.

The calls are counted from 1: making, renaming and removing directories and files, opening a file
to write, each write, each flush to disk, each file of tensors.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import safetensors.numpy
from safetensors import SafetensorError

_CALLS = ("mkdir", "rename", "replace", "unlink", "rmdir", "fsync")
_FOR_EVER = contextlib.ExitStack()
_open, _save_file = io.open, safetensors.numpy.save_file


class Calls:
    """Counts calls and fails at number `at`, or from then on if `lasting`.

    With a `number` (ENOSPC ...) the call fails as the system lets it fail. Without, the process
    kills itself.
    """

    def __init__(self, at: int = 0, number: int = 0, *, lasting: bool = False) -> None:
        self.at, self.number, self.lasting = at, number, lasting
        self.names: list[str] = []

    def meet(self, name: str, half: Callable[[], Any] = lambda: None) -> None:
        """Count a call before it is made; if it fails, call `half` first."""
        self.names.append(name)
        count = len(self.names)
        if self.at and (count == self.at or (self.lasting and count > self.at)):
            half()
            if not self.number:
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(self.number, os.strerror(self.number))

    @property
    def struck(self) -> bool:
        """Whether the fault has occurred."""
        return 0 < self.at <= len(self.names)


@contextlib.contextmanager
def faulty(calls: Calls) -> Iterator[Calls]:
    """Count and fail the calls of this process while the block runs."""
    with contextlib.ExitStack() as stack:
        for name in _CALLS:
            stack.enter_context(mock.patch.object(os, name, _met(calls, name)))
        stack.enter_context(mock.patch.object(io, "open", _opener(calls)))
        stack.enter_context(mock.patch.object(safetensors.numpy, "save_file", _saver(calls)))
        yield calls


def die_at(call: int) -> None:
    """Make this process kill itself at a call."""
    _FOR_EVER.enter_context(faulty(Calls(call)))


def _met(calls: Calls, name: str) -> Callable[..., Any]:
    real = getattr(os, name)

    def call(target: Any, *arguments: Any, **options: Any) -> Any:
        try:
            calls.meet(name)
        except OSError as error:
            if not isinstance(target, int):
                error.filename = str(target)
            raise
        return real(target, *arguments, **options)

    return call


def _opener(calls: Calls) -> Callable[..., Any]:
    class Raw(io.FileIO):
        def write(self, data: Any) -> int:
            part = bytes(data)
            calls.meet("write", lambda: super(Raw, self).write(part[: len(part) // 2]))
            return super().write(part)

    def opened(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        special = isinstance(file, int) or options.get("opener")
        if special or not set(mode) & set("wax"):
            return _open(file, mode, *arguments, **options)
        try:
            calls.meet("open")
        except OSError as error:
            error.filename = str(file)
            raise
        raw = Raw(file, mode.replace("b", "").replace("t", ""))
        buffered = io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding="utf-8")

    return opened


def _saver(calls: Calls) -> Callable[..., None]:
    def save(tensors: Any, path: Path, **options: Any) -> None:
        def half() -> None:
            _save_file(tensors, path, **options)
            os.truncate(path, path.stat().st_size // 2)

        try:
            calls.meet("save_file", half)
        except OSError as error:
            # The library's wording.
            raise SafetensorError(
                f"Error while serializing: I/O error: {error.strerror} (os error {error.errno})"
            ) from None
        _save_file(tensors, path, **options)

    return save


ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES)
