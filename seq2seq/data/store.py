"""The text pairs of a corpus in memory."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class TextPair(Protocol):
    """Anything with a source and a target."""

    @property
    def source(self) -> str: ...
    @property
    def target(self) -> str: ...


class _TextColumn:
    """Texts as one UTF-8 buffer, which costs 8 bytes a text beside its own."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.offsets = array("q", [0])

    def append(self, text: str) -> None:
        self.data += text.encode()
        self.offsets.append(len(self.data))

    def take(self, indices: Sequence[int]) -> list[str]:
        data, offsets = memoryview(self.data), self.offsets
        return [str(data[offsets[i] : offsets[i + 1]], "utf-8") for i in indices]


class PairStore:
    """The text pairs of a corpus, kept in memory without a Python object for each."""

    def __init__(self, pairs: Iterable[TextPair]) -> None:
        self._columns = (_TextColumn(), _TextColumn())
        source, target = self._columns
        for pair in pairs:
            source.append(pair.source)
            target.append(pair.target)

    def __len__(self) -> int:
        return len(self._columns[0].offsets) - 1

    def __getitem__(self, index: int) -> tuple[str, str]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        (source,), (target,) = self.texts([index])
        return source, target

    def texts(self, indices: Sequence[int]) -> tuple[list[str], list[str]]:
        """Return the sources and the targets of some pairs."""
        source, target = self._columns
        return source.take(indices), target.take(indices)

    def num_bytes(self) -> Ints:
        """Return the length in UTF-8 bytes of the longer side of each pair."""
        lengths = [np.diff(np.array(column.offsets, np.int64)) for column in self._columns]
        return np.maximum(*lengths)

    def fingerprint(self) -> str:
        """Return what tells this corpus, in this order, from another."""
        checksum = 0
        for column in self._columns:
            checksum = zlib.crc32(column.offsets, zlib.crc32(column.data, checksum))
        return f"{checksum:08x}"
