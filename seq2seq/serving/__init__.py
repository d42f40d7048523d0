"""Translation over HTTP: LibreTranslate's interface, with dynamic batches and bounded queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_BYTES_PER_CHARACTER = 12  # as %-escapes of four bytes, or as two \uXXXX
_OTHER_BYTES = 65536  # of a body, for everything but the texts


@dataclass(frozen=True)
class Limits:
    """What a server accepts."""

    characters: int = 5000  # of all texts of a request
    texts: int = 100  # of a request
    alternatives: int = 10
    queue: int = 256  # requests that wait
    seconds: float = 30  # from a request to its response
    read_seconds: float = 10  # for the head of a request, and for its body

    @property
    def body_bytes(self) -> int:
        """The largest body."""
        return self.characters * _BYTES_PER_CHARACTER + _OTHER_BYTES


class RequestError(Exception):
    """A request cannot be used, or not answered now; `status` is that of the response."""

    def __init__(
        self, message: str, status: int = 400, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers
