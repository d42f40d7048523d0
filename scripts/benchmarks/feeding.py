"""How fast batches are prepared, without a model that waits for them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from benchmarks.measuring import Record
from seq2seq.data.batching import Batch
from seq2seq.data.stream import BatchStream

ROUNDS = 3


def feeding_speeds(
    make_stream: Callable[[bool, int], BatchStream], *, seconds: float
) -> Iterator[Record]:
    """Yield pairs per second of streams with augmentation or without, by so many processes."""
    for augmented, processes in ((False, 1), (True, 1), (True, 2)):
        name = f"feeding, {'augmented, ' * augmented}{processes} process{'es' * (processes > 1)}"
        stream = make_stream(augmented, processes)
        with contextlib.closing(iter(stream)) as batches:  # type: ignore[type-var]
            _take(stream, batches, seconds)  # what workers have prepared before they are read
            found = [_take(stream, batches, seconds) for _ in range(ROUNDS)]
        speeds = tuple(pairs / taken for pairs, _, taken in found)
        tokens = sum(tokens for _, tokens, _ in found) / sum(taken for *_, taken in found)
        yield Record(name, "pairs/s", speeds, f"{tokens:,.0f} target tokens/s")


def _take(stream: BatchStream, batches: Iterator[Batch], seconds: float) -> tuple[int, int, float]:
    """Take batches for some time and then to the end of their epoch.

    Returns the number of pairs and target tokens, and the time.
    """
    began, pairs, tokens = time.perf_counter(), 0, 0
    for batch in batches:
        pairs += len(batch)
        tokens += batch.num_target_tokens
        if not stream.position and time.perf_counter() > began + seconds:
            break
    return pairs, tokens, time.perf_counter() - began
