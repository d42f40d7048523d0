"""Requests wait in a bounded queue and are translated in batches.

All of this runs in one event loop. What computes is in worker threads, one per model, or in worker
processes that have all models; a worker is handed one batch at a time. A batch holds lines of
requests for one model with equal options. It is complete when its lines fill the token budget, or
when its first request has waited for `DELAY` seconds; then idle processes share its lines. A
request with more lines than fit into a batch continues behind the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from starlette.exceptions import HTTPException

from seq2seq.errors import WorkerError
from seq2seq.inference.protocol import SearchOptions
from seq2seq.inference.text import Translation
from seq2seq.processes import work, worker_pool
from seq2seq.serving.models import ServedModels

T = TypeVar("T")
log = logging.getLogger(__name__)

KILLED = "a worker process was killed, perhaps for lack of memory; lower --workers"
DELAY = 0.005  # seconds that a request waits for others to join its batch

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_LINES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """What a server has done since it started, for Prometheus.

    No label holds anything that a client sends: paths and methods are those that the server has, so
    that the number of series is bounded and nothing personal is in them.
    """

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a series for each counter
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "seq2seq_requests", "Responses by method, path and status.",
            ("method", "path", "status"), registry=registry,
        )  # fmt: skip
        self.seconds, self.batch_lines, self.batch_seconds = (
            Histogram(f"seq2seq_{name}", text, buckets=bounds, registry=registry)
            for name, text, bounds in (
                ("request_seconds", "Time from request to response.", _SECONDS),
                ("batch_lines", "Lines that were translated together.", _LINES),
                ("batch_seconds", "Time to translate a batch.", _SECONDS),
            )
        )
        self.characters = Counter("seq2seq_characters", "Characters translated.", registry=registry)
        self.in_progress = Gauge(
            "seq2seq_requests_in_progress", "Requests not answered.", registry=registry
        )
        self.queue_length = Gauge("seq2seq_queue_length", "Requests waiting.", registry=registry)


class RequestError(HTTPException):
    """A request cannot be used, or not answered now."""

    def __init__(
        self, message: str, status: int = 400, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, message, headers)


class QueueFullError(RequestError):
    """As many requests wait as may wait."""

    def __init__(self) -> None:
        message = "too many requests are waiting; try again later"
        super().__init__(message, 429, {"Retry-After": "1"})


class DeadlineError(RequestError):
    """A request was not translated in time."""

    def __init__(self) -> None:
        super().__init__("the translation took too long; send less text at once", 504)


class _Job(NamedTuple):
    """Lines that a worker translates together."""

    model: str
    options: SearchOptions
    lines: list[str]


@dataclass(eq=False)
class _Waiting:
    """A request, some lines of which may be translated already."""

    model: str
    options: SearchOptions
    lines: Sequence[str]
    sizes: list[int]  # source pieces of each line, EOS included
    done: asyncio.Future[list[list[Translation]]]
    arrived: float = field(default_factory=time.monotonic)
    next_line: int = 0  # the first that no worker has been handed
    found: dict[int, list[Translation]] = field(default_factory=dict)

    def deliver(self, first: int, translations: list[list[Translation]]) -> None:
        """Take the translations of consecutive lines; the last ones complete the request."""
        self.found.update(enumerate(translations, first))
        if len(self.found) == len(self.lines) and not self.done.done():
            self.done.set_result([self.found[n] for n in range(len(self.lines))])


def log_warnings(model: str, translations: Sequence[Translation]) -> None:
    """Log how many sentences have an unlikely or an unfinished translation, if any has."""
    parts = [part for translation in translations for part in translation.parts]
    unlikely = sum(part.unlikely for part in parts)
    unfinished = sum(not part.finished for part in parts)
    if unlikely or unfinished:
        log.warning(
            "%s: of %d sentences, the translations of %d are unlikely and of %d ended by the "
            "length limit", model, len(parts), unlikely, unfinished,
        )  # fmt: skip


def _translate(models: ServedModels, job: _Job) -> list[list[Translation]]:
    """Return the translations of each line."""
    return models.by_name[job.model].translator.translate(job.lines, job.options)


class Batcher:
    """The queue of a server, and its workers.

    With several `processes` these are forked at once, so nothing may have started threads before.
    """

    def __init__(self, models: ServedModels, *, queue_size: int, processes: int = 1) -> None:
        self.models, self.queue_size, self.metrics = models, queue_size, Metrics()
        self.failure: WorkerError | None = None  # why nothing can be translated any more
        self.metrics.queue_length.set_function(lambda: self.queue_length)
        self._waiting: list[_Waiting] = []
        self._unfinished: set[asyncio.Future[list[list[Translation]]]] = set()
        self._changed: list[asyncio.Event] = []  # one per worker
        self._tasks: list[asyncio.Task[None]] = []
        self._workers: list[tuple[Executor, list[str]]] = []  # with the models of each
        self._idle: dict[Executor, int] = defaultdict(int)  # its workers without a batch
        self._sentinels: list[int] = []  # of worker processes: ready when one has ended
        self._call_thread: Executor = ThreadPoolExecutor(1)
        self._calls = 0  # that wait or are computed
        self._call: Callable[[_Job], list[list[Translation]]] = partial(_translate, models)
        if processes == 1:
            self._workers = [(ThreadPoolExecutor(1), [name]) for name in models.by_name]
        else:
            pool = worker_pool(self._call, processes)
            first = next(iter(models.by_name.values()))
            empty = _Job(first.name, first.translator.options(), [])
            for forked in [pool.submit(work, empty) for _ in range(processes)]:
                forked.result()
            self._sentinels = [process.sentinel for process in multiprocessing.active_children()]
            self._workers = [(pool, list(models.by_name))] * processes
            self._call = work

    def start(self) -> None:
        """Start translating, in the running event loop."""
        for executor, names in self._workers:
            changed = asyncio.Event()
            self._changed.append(changed)
            task = asyncio.create_task(self._run(executor, names, changed))
            task.add_done_callback(self._ended)
            self._tasks.append(task)
        for sentinel in self._sentinels:
            asyncio.get_running_loop().add_reader(sentinel, self._fail, KILLED)

    def _fail(self, reason: str) -> None:
        """Fail all requests from now on."""
        self.failure = self.failure or WorkerError(reason)
        while self._sentinels:
            asyncio.get_running_loop().remove_reader(self._sentinels.pop())
        for done in self._unfinished:
            if not done.done():
                done.set_exception(self.failure)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Fail all requests if what hands out batches has raised."""
        if not task.cancelled() and (error := task.exception()):
            place = traceback.extract_tb(error.__traceback__)[-1]
            name = f"{Path(place.filename).name}:{place.lineno}"
            self._fail(
                f"batching failed ({name}: {type(error).__name__}: {error}); please report it"
            )

    async def stop(self) -> None:
        """Stop without waiting for what is being translated."""
        for sentinel in self._sentinels:
            asyncio.get_running_loop().remove_reader(sentinel)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for executor in {self._call_thread, *(worker for worker, _ in self._workers)}:
            executor.shutdown(wait=False, cancel_futures=True)

    @property
    def queue_length(self) -> int:
        """The number of requests that wait, at least in part."""
        return len(self._waiting) + self._calls

    async def translate(
        self, model: str, lines: Sequence[str], options: SearchOptions, *, seconds: float
    ) -> list[list[Translation]]:
        """Return the translations of each line, best first.

        If the caller is cancelled, lines that no worker has been handed are dropped. Raises
        QueueFullError, DeadlineError when this many seconds have passed, WorkerError when there is
        no worker any more, and what translating raises.
        """
        if not lines:
            return []
        if self.failure:
            raise self.failure
        if self.queue_length >= self.queue_size:
            raise QueueFullError
        encode = self.models.by_name[model].translator.source.encode
        sizes = [len(encode(line)) + 1 for line in lines]
        done: asyncio.Future[list[list[Translation]]] = asyncio.get_running_loop().create_future()
        request = _Waiting(model, options, lines, sizes, done)
        self._waiting.append(request)
        self._unfinished.add(done)
        for changed in self._changed:
            changed.set()
        try:
            found = await asyncio.wait_for(done, seconds)
        except asyncio.TimeoutError:
            raise DeadlineError from None
        finally:
            self._unfinished.discard(done)
            with contextlib.suppress(ValueError):
                self._waiting.remove(request)
        log_warnings(model, [translations[0] for translations in found])
        return found

    async def call(self, work: Callable[[], T], *, seconds: float) -> T:
        """Return the result of work that is in no batch, from one thread for all such work.

        If the caller is cancelled, work that has not begun is dropped. Raises as `translate` does.
        """
        if self.queue_length >= self.queue_size:
            raise QueueFullError
        self._calls += 1
        try:
            found = asyncio.get_running_loop().run_in_executor(self._call_thread, work)
            return await asyncio.wait_for(found, seconds)
        except asyncio.TimeoutError:
            raise DeadlineError from None
        finally:
            self._calls -= 1

    async def _run(
        self, executor: Executor, names: Collection[str], changed: asyncio.Event
    ) -> None:
        """Hand batches to a worker until the server stops."""
        loop = asyncio.get_running_loop()
        while True:
            self._idle[executor] += 1
            taken = await self._take(executor, names, changed)
            self._idle[executor] -= 1
            first = taken[0][0]
            lines = [line for each, start, end in taken for line in each.lines[start:end]]
            job = _Job(first.model, first.options, lines)
            started = time.monotonic()
            try:
                found = await loop.run_in_executor(executor, self._call, job)
            except BrokenProcessPool:
                self._fail(KILLED)
                continue
            except Exception as error:
                for each, _, _ in taken:
                    if not each.done.done():
                        each.done.set_exception(error)
                continue
            self.metrics.batch_seconds.observe(time.monotonic() - started)
            self.metrics.batch_lines.observe(len(lines))
            for each, start, end in taken:
                each.deliver(start, found[: end - start])
                del found[: end - start]

    async def _take(
        self, executor: Executor, names: Collection[str], changed: asyncio.Event
    ) -> list[tuple[_Waiting, int, int]]:
        """Return requests with the first and after the last of their lines that are in a batch."""
        while True:
            changed.clear()
            first = next((each for each in self._waiting if each.model in names), None)
            if first is None:
                await changed.wait()
                continue
            taken, is_full = self._fill(first)
            rest = first.arrived + DELAY - time.monotonic()
            if not is_full and rest > 0:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(changed.wait(), rest)
                continue
            if not is_full:
                taken, _ = self._fill(first, among=self._idle[executor])
            for each, _, end in taken:
                each.next_line = end
                self._waiting.remove(each)
                if end < len(each.lines):
                    self._waiting.append(each)
            return taken

    def _fill(
        self, first: _Waiting, *, among: int = 1
    ) -> tuple[list[tuple[_Waiting, int, int]], bool]:
        """Return the lines of the batch that begins with a request, and whether it is full.

        `among` several idle workers, it is one worker's share of what waits, if that is less.
        """
        config = self.models.by_name[first.model].translator.config.inference
        budget = max(1, config.batch_tokens // first.options.beam_size)
        waiting = [
            each
            for each in self._waiting[self._waiting.index(first) :]
            if (each.model, each.options) == (first.model, first.options)
        ]
        if among > 1:
            tokens = sum(sum(each.sizes[each.next_line :]) for each in waiting)
            budget = min(budget, -(-tokens // among))
        taken: list[tuple[_Waiting, int, int]] = []
        for each in waiting:
            end = each.next_line
            while end < len(each.lines):
                budget -= each.sizes[end]
                if budget < 0 and (taken or end > each.next_line):
                    break
                end += 1
            if end > each.next_line:
                taken.append((each, each.next_line, end))
            if budget <= 0:
                return taken, True
        return taken, False
