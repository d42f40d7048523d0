"""Throughput and latency of `seq2seq serve` with one client and with several at once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.measuring import Record
from seq2seq.errors import UserError
from seq2seq.packaged import find_run
from seq2seq.runs.directory import run_of


def serving_speed(
    run: str | Path,
    sentences: Sequence[str],
    *,
    clients: Sequence[int] = (1, 8, 64),
    precision: str = "fp32",
    workers: int = 1,
    seconds: float = 10,
    repeats: int = 5,
) -> list[Record]:
    """Return how a server of this machine, with so many workers, answers so many clients.

    Each client has one connection and asks for one sentence after the other, without a pause. Per
    round: requests per second, and the median and 99th percentile of the milliseconds from a
    request to its response. The clients are one process, which takes part of the machine's time.
    """
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    how = ["--workers", str(workers)] if workers > 1 else ["--threads", "1"]
    with _server(run, ["--precision", precision, *how]) as port:
        requests = _requests(run, sentences, port)
        asyncio.run(_round(port, requests, max(clients), seconds / 2))  # warms up
        for _, count in itertools.product(range(repeats), clients):
            began = time.perf_counter()
            times = asyncio.run(_round(port, requests, count, seconds))
            speed = len(times) / (time.perf_counter() - began)
            name = f"{precision}, workers: {workers}, clients: {count}"
            found[f"{name}, throughput", "requests/s"].append(speed)
            found[f"{name}, median", "ms"].append(1000 * np.percentile(times, 50))
            found[f"{name}, 99th percentile", "ms"].append(1000 * np.percentile(times, 99))
    return [Record(name, unit, tuple(values)) for (name, unit), values in found.items()]


@contextlib.contextmanager
def _server(run: str | Path, options: Sequence[str]) -> Iterator[int]:
    """Serve a run in a process of its own, on the port that is yielded."""
    command = [sys.executable, "-m", "seq2seq", "serve", str(run), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--no-access-log", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if port := re.search(r"listening on http://[^ ]*:(\d+)", line):
                yield int(port[1])
                return
        raise UserError(f"the server did not start: {''.join(lines).strip()}")
    finally:
        process.terminate()
        process.wait()


def _requests(run: str | Path, sentences: Sequence[str], port: int) -> list[bytes]:
    data = run_of(find_run(run)).config().data
    requests = []
    for sentence in sentences:
        values = {"q": sentence, "source": data.source_language, "target": data.target_language}
        body = json.dumps(values).encode()
        head = (
            f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        requests.append(head.encode() + body)
    return requests


async def _round(port: int, requests: Sequence[bytes], clients: int, seconds: float) -> list[float]:
    """Send requests for so many seconds; return the seconds that each response took."""
    end = time.perf_counter() + seconds
    waiting = itertools.cycle(requests)
    found: list[float] = []

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            while (began := time.perf_counter()) < end:
                writer.write(next(waiting))
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: (\d+)", head)
                if not head.startswith(b"HTTP/1.1 200") or length is None:
                    raise UserError(f"the server answered {head.splitlines()[0].decode()}")
                await reader.readexactly(int(length[1]))
                found.append(time.perf_counter() - began)

    await asyncio.gather(*(client() for _ in range(clients)))
    return found
