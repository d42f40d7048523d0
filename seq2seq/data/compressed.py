"""Compressed files as streams that stop where no text would have become so small: at bombs."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from seq2seq.errors import DataError

MAX_RATIO = 100  # of sizes; sentences are packed to a third or a fifth
FREE_BYTES = 1 << 26  # are unpacked at any ratio, for small files can hold one sentence many times
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)

_UNPACK: dict[str, Any] = {
    ".gz": gzip.open, ".tgz": gzip.open,
    ".bz2": bz2.open, ".tbz2": bz2.open,
    ".xz": lzma.open, ".txz": lzma.open,
}  # fmt: skip


@contextmanager
def open_unpacked(path: str | Path, *, most: int | None = None) -> Iterator[BinaryIO]:
    """Open a file as one stream, unpacked where its name ends in that of a compression.

    Reading raises DataError where more than `most` bytes come out, or more than FREE_BYTES and
    MAX_RATIO times what went in; OSError or one of DAMAGED where the data is no such compression.
    """
    with open(path, "rb") as file:
        unpack = _UNPACK.get(Path(path).suffix)
        if unpack is None:
            yield file
        else:
            yield io.BufferedReader(_Watched(unpack(file), file, str(path), most), 1 << 16)


class _Watched(io.RawIOBase):
    """A stream whose length is compared with how much of the file below it was read."""

    def __init__(self, stream: Any, file: BinaryIO, name: str, most: int | None) -> None:
        self._stream, self._file, self._name, self._most = stream, file, name, most
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count: int = self._stream.readinto(buffer)
        self._size += count
        if self._size > max(FREE_BYTES, MAX_RATIO * self._file.tell()):
            raise DataError(
                f"{self._name}: unpacks to more than {MAX_RATIO} times its size, which no text "
                "does; if you trust it, unpack it yourself"
            )
        if self._most is not None and self._size > self._most:
            raise DataError(
                f"{self._name}: unpacks to more than the limit of {self._most} bytes; if you trust "
                "it, unpack it yourself"
            )
        return count
