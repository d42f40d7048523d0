"""Counts of a server in the text format of Prometheus.

No label holds anything that a client sends: paths and methods are those that the server has, so
that the number of series is bounded and nothing personal is in them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LINES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass
class Histogram:
    """Counts of values up to each bound, and their sum."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str) -> Iterator[str]:
        """Yield the lines of a metric of this name."""
        below = 0
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            below += count
            yield f'{name}_bucket{{le="{bound}"}} {below}'
        yield f"{name}_sum {self.total:.6f}"
        yield f"{name}_count {below}"


@dataclass
class Metrics:
    """What a server has done since it started."""

    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    seconds: Histogram = field(default_factory=lambda: Histogram(_SECONDS))
    batch_lines: Histogram = field(default_factory=lambda: Histogram(_LINES))
    batch_seconds: Histogram = field(default_factory=lambda: Histogram(_SECONDS))
    characters: int = 0
    in_progress: int = 0
    queue_length: Callable[[], int] = lambda: 0

    def count_request(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a response."""
        self.requests[method, path, status] += 1
        self.seconds.add(seconds)

    def count_batch(self, lines: int, seconds: float) -> None:
        """Count a batch that was translated."""
        self.batch_lines.add(lines)
        self.batch_seconds.add(seconds)

    def text(self) -> str:
        """Return all metrics."""
        found: list[str] = []

        def add(name: str, kind: str, text: str, *lines: str) -> None:
            found.extend((f"# HELP {name} {text}", f"# TYPE {name} {kind}", *lines))

        name = "seq2seq_requests_total"
        add(
            name, "counter", "Responses by method, path and status.",
            *(
                f'{name}{{method="{method}",path="{path}",status="{status}"}} {count}'
                for (method, path, status), count in sorted(self.requests.items())
            ),
        )  # fmt: skip
        for name, histogram, text in (
            ("seq2seq_request_seconds", self.seconds, "Time from request to response."),
            ("seq2seq_batch_lines", self.batch_lines, "Lines that were translated together."),
            ("seq2seq_batch_seconds", self.batch_seconds, "Time to translate a batch."),
        ):
            add(name, "histogram", text, *histogram.lines(name))
        for name, kind, text, value in (
            ("seq2seq_characters_total", "counter", "Characters translated.", self.characters),
            ("seq2seq_requests_in_progress", "gauge", "Requests not answered.", self.in_progress),
            ("seq2seq_queue_length", "gauge", "Requests waiting.", self.queue_length()),
        ):
            add(name, kind, text, f"{name} {value}")
        return "\n".join(found) + "\n"
