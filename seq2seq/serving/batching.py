"""Requests wait in a bounded queue and are translated in batches.

All of this runs in one event loop. Worker threads (two for each model) or worker processes (each
with all models) translate one batch at a time. A batch holds sentences of requests for one model
with equal options, the shortest request first. It is handed to a worker as soon as its sentences
fill the token budget or its first request has waited for `DELAY` seconds; in the latter case idle
workers share the sentences.

Nobody waits long for somebody else: a request with more sentences than fit into a batch lets
shorter ones pass; long sentences have batches and a worker of their own; and a batch ends between
two steps of its search when all its requests were abandoned, by their clients or by the deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, MutableSequence, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain, product
from operator import attrgetter
from pathlib import Path
from threading import Event
from typing import Literal, NamedTuple, TypeVar, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from starlette.exceptions import HTTPException

from seq2seq.errors import WorkerError
from seq2seq.inference.protocol import SearchOptions
from seq2seq.inference.text import Part, Sentence, Translation, join_parts
from seq2seq.processes import work, worker_pool
from seq2seq.serving import Limits
from seq2seq.serving.served_models import ServedModels

T = TypeVar("T")
log = logging.getLogger(__name__)

DELAY = 0.005  # seconds that a request waits for others to join its batch

_KILLED = "a worker process was killed, perhaps for lack of memory; lower --workers"
_MOST_KILLED = 5  # workers in a row, after which the server ends
_LONG = 64  # source pieces: longer sentences have batches, and a worker, of their own

Kind = Literal["short", "long", "explain"]  # of work that is in no batch: each has a thread

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counts since the server started, for Prometheus.

    Labels hold only paths and methods that the server knows, never what a client sends, so the
    number of series is bounded and nothing personal is in them.
    """

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a series for each counter
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "seq2seq_requests", "Responses by method, path and status.",
            ("method", "path", "status"), registry=registry,
        )  # fmt: skip
        self.seconds, self.batch_sentences, self.batch_seconds = (
            Histogram(f"seq2seq_{name}", text, buckets=bounds, registry=registry)
            for name, text, bounds in (
                ("request_seconds", "Time from request to response.", _SECONDS),
                ("batch_sentences", "Sentences that were translated together.", _SENTENCES),
                ("batch_seconds", "Time to translate a batch.", _SECONDS),
            )
        )
        self.characters = Counter("seq2seq_characters", "Characters translated.", registry=registry)
        self.in_progress = Gauge(
            "seq2seq_requests_in_progress", "Requests not answered.", registry=registry
        )
        self.queue_length = Gauge("seq2seq_queue_length", "Requests waiting.", registry=registry)


class RequestError(HTTPException):
    """A request that cannot be used, or cannot be answered now."""

    def __init__(
        self, message: str, status: int = 400, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, message, headers)


class AbandonedError(Exception):
    """All requests of a batch were abandoned."""


class _Job(NamedTuple):
    """Sentences that a worker translates together."""

    worker: int  # its place in the `stops` of _translate
    model: str
    options: SearchOptions
    sentences: list[Sentence]


@dataclass(eq=False)
class _Waiting:
    """A sentence of a request, until its translations are found."""

    sentence: Sentence
    kind: tuple[str, SearchOptions, bool]  # model, options, whether it is long; alike in a batch
    request: object  # the same for all sentences of a request
    request_size: int
    found: asyncio.Future[list[Part]]
    arrived: float = field(default_factory=time.monotonic)


@dataclass(eq=False)
class _Worker:
    """A thread or a worker process that translates one batch at a time."""

    number: int
    models: Sequence[str]
    lengths: Sequence[bool]  # of the sentences that it takes: whether they are long
    thread: Executor | None = None
    batch: Sequence[_Waiting] = ()  # empty: idle
    task: asyncio.Task[None] | None = None  # that waits for the translations of its batch

    def takes(self, item: _Waiting) -> bool:
        """Return whether it translates such sentences."""
        model, _, is_long = item.kind
        return model in self.models and is_long in self.lengths

    @property
    def is_abandoned(self) -> bool:
        """Whether it has a batch that nobody waits for any more."""
        return bool(self.batch) and all(item.found.done() for item in self.batch)


def _size(sentence: Sentence) -> int:
    """Return the number of source pieces, EOS included."""
    return len(sentence.ids) + 1


def _fail(items: Iterable[_Waiting], error: Exception) -> None:
    """Let all requests fail that wait for these sentences."""
    for item in items:
        if not item.found.done():
            item.found.set_exception(error)


def log_warnings(model: str, translations: Sequence[Translation]) -> None:
    """Log how many sentences have a translation with a warning, if any do."""
    parts = [part for translation in translations for part in translation.parts]
    unlikely = sum(part.unlikely for part in parts)
    unfinished = sum(not part.finished for part in parts)
    if unlikely or unfinished:
        log.warning(
            "%s: of %d sentences, the translations of %d are unlikely and of %d ended by the "
            "length limit", model, len(parts), unlikely, unfinished,
        )  # fmt: skip
    if missing := sum(bool(part.missing) for part in parts):
        log.warning("%s: %d translations lack a term or a token", model, missing)


def _translate(models: ServedModels, stops: Sequence[int], job: _Job) -> list[list[Part]]:
    """Return the translations of each sentence; end when the worker has to stop."""

    def check(*_: object) -> None:
        if stops[job.worker]:
            raise AbandonedError

    translator = models.by_name[job.model].translator
    return translator.translate_sentences(job.sentences, job.options, on_step=check)


def _make_translate(
    load: Callable[[], ServedModels], stops: Sequence[int]
) -> Callable[[_Job], list[list[Part]]]:
    return partial(_translate, load(), stops)


class Batcher:
    """The queue of a server, and its workers.

    Several worker `processes` are forked at once, so nothing may have started threads before.
    Processes that replace killed ones are spawned, since by then there are threads, and `load` the
    models again.
    """

    def __init__(
        self,
        models: ServedModels,
        limits: Limits | None = None,
        *,
        processes: int = 1,
        load: Callable[[], ServedModels] | None = None,
    ) -> None:
        self.models, self.limits, self.metrics = models, limits or Limits(), Metrics()
        self.failure: WorkerError | None = None  # why nothing can be translated any more
        self.metrics.queue_length.set_function(lambda: self.queue_length)
        self._queue: list[_Waiting] = []  # of shorter requests first, of equals the first to come
        self._changed = asyncio.Event()  # the queue, or which workers are idle
        names = list(models.by_name)
        self._pool: Executor | None = None
        if processes == 1:
            self._workers = [
                _Worker(n, [name], [is_long], ThreadPoolExecutor(1))
                for n, (name, is_long) in enumerate(product(names, (False, True)))
            ]
        else:  # the first is kept for short sentences
            self._workers = [_Worker(n, names, [False, True][: n + 1]) for n in range(processes)]
        # Of each worker: not 0 if nobody waits for its batch. Worker processes share it.
        self._stops: MutableSequence[int] = multiprocessing.RawArray("b", len(self._workers))
        self._translate = partial(_translate, models, self._stops)
        if processes > 1:
            assert load is not None
            self._pool = worker_pool(lambda: self._translate, processes)
            self._pool.submit(int).result()  # the first job, whatever it is, forks all of them
            make = partial(_make_translate, load, self._stops)
            self._start_pool = partial(worker_pool, make, processes, method="spawn")
        self._killed = 0  # workers since a batch was translated
        # Second tries take turns: a batch that kills its worker again ends no other one's.
        self._alone = asyncio.Lock()
        self._threads = {kind: ThreadPoolExecutor(1) for kind in get_args(Kind)}
        self._calls = 0  # that wait or are computed

    def start(self) -> None:
        """Start translating, in the running event loop."""
        self._task = asyncio.create_task(self._hand_out())

    def _fail(self, reason: str) -> None:
        """Fail all requests from now on."""
        self.failure = self.failure or WorkerError(reason)
        batches = (worker.batch for worker in self._workers)
        _fail(chain(self._queue, *batches), self.failure)

    async def stop(self) -> None:
        """Stop; batches that are being translated end at the next step of their search."""
        tasks = [self._task, *(worker.task for worker in self._workers if worker.task)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._stops[:] = [1] * len(self._stops)
        threads = [worker.thread for worker in self._workers]
        for executor in filter(None, [*threads, *self._threads.values(), self._pool]):
            executor.shutdown(wait=False, cancel_futures=True)

    @property
    def queue_length(self) -> int:
        """The number of requests that wait, at least in part."""
        return len({item.request for item in self._queue}) + self._calls

    def split(
        self, model: str, lines: Sequence[str], options: SearchOptions, forced: str = ""
    ) -> list[list[Sentence]]:
        """Return the sentences of each line.

        Raises RequestError if translating them would take more than the longest text does with the
        model's own beam. Text that the translation must begin with, or be, counts too.
        """
        translator = self.models.by_name[model].translator
        split = [[*chain(*translator.split(line, options))] for line in lines]
        pieces = sum(_size(sentence) for line in split for sentence in line)
        pieces += len(translator.target.encode(forced))
        most = self.limits.characters * translator.config.inference.beam_size // options.beam_size
        if pieces > most:
            raise RequestError(
                f"q: {pieces} pieces for the model; with {options.beam_size} hypotheses send at "
                f"most {most}: less text, or fewer hypotheses",
                413,
            )
        return split

    async def translate(
        self, model: str, lines: Sequence[str], options: SearchOptions, *, seconds: float
    ) -> list[list[Translation]]:
        """Return the translations of each line, best first.

        If the caller is cancelled, its sentences are dropped; a batch without sentences of others
        ends. Raises RequestError if too many requests wait or when this many seconds have passed,
        WorkerError when there is no worker any more, and as `split` and translating do.
        """
        if self.failure:
            raise self.failure
        self._check_queue()
        split = self.split(model, lines, options)
        sentences = [sentence for line in split for sentence in line]
        options = replace(options, glossary=None)  # the sentences have its terms
        loop, request, size = asyncio.get_running_loop(), object(), sum(map(_size, sentences))
        items = [
            _Waiting(
                each, (model, options, _size(each) > _LONG), request, size, loop.create_future()
            )
            for each in sentences
        ]
        self._queue = sorted([*self._queue, *items], key=attrgetter("request_size"))
        self._changed.set()
        loop.call_later(DELAY, self._changed.set)
        try:
            found = await _in_time(asyncio.gather(*(item.found for item in items)), seconds)
        finally:
            for item in items:
                item.found.cancel()
            self._queue = [item for item in self._queue if item.request is not request]
            for worker in self._workers:
                if worker.is_abandoned:
                    self._stops[worker.number] = 1
        remaining = iter(found)
        translations = [join_parts([next(remaining) for _ in line]) for line in split]
        log_warnings(model, [best for best, *_ in translations])
        return translations

    def kind(self, model: str, text: str, options: SearchOptions, forced: str = "") -> Kind:
        """Return whether translating a text is short: at most one batch, of no long sentence.

        Raises RequestError as `split` does.
        """
        [sentences] = self.split(model, [text], options, forced)
        translator = self.models.by_name[model].translator
        sizes = [*map(_size, sentences), len(translator.target.encode(forced))]
        budget = translator.batch_tokens(options.beam_size)
        is_short = max(sizes) <= _LONG and sum(sizes) <= budget
        return "short" if is_short else "long"

    async def call(self, work: Callable[[Event], T], kind: Kind, *, seconds: float) -> T:
        """Return the result of work outside batches; one thread does all work of a kind.

        `work` gets an event that is set once nobody waits for the result any more. If the caller is
        cancelled, work that has not begun is dropped. Raises as `translate` does.
        """
        self._check_queue()
        self._calls += 1
        ended = Event()
        try:
            found = asyncio.get_running_loop().run_in_executor(self._threads[kind], work, ended)
            return await _in_time(found, seconds)
        finally:
            self._calls -= 1
            ended.set()

    def _check_queue(self) -> None:
        """Raise RequestError if as many requests wait as may wait."""
        if self.queue_length >= self.limits.queue:
            message = "too many requests are waiting; try again later"
            raise RequestError(message, 429, {"Retry-After": "1"})

    async def _hand_out(self) -> None:
        """Hand batches to idle workers until the server stops; a defect here fails all requests."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                for worker in self._workers:
                    if not worker.batch and (batch := self._take(worker)):
                        worker.batch = batch
                        worker.task = asyncio.create_task(self._run(worker))
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            name = f"{Path(place.filename).name}:{place.lineno}"
            self._fail(
                f"batching failed ({name}: {type(error).__name__}: {error}); please report it"
            )

    async def _run(self, worker: _Worker) -> None:
        """Translate a worker's batch."""
        model, options, _ = worker.batch[0].kind
        sentences = [item.sentence for item in worker.batch]
        started = time.monotonic()
        try:
            job = _Job(worker.number, model, options, sentences)
            found = await self._compute(worker, job)
            self.metrics.batch_seconds.observe(time.monotonic() - started)
            self.metrics.batch_sentences.observe(len(sentences))
            for item, hypotheses in zip(worker.batch, found, strict=True):
                if not item.found.done():
                    item.found.set_result(hypotheses)
        except AbandonedError:
            pass
        except Exception as error:
            _fail(worker.batch, error)
        finally:
            worker.batch = ()
            self._changed.set()

    async def _compute(self, worker: _Worker, job: _Job) -> list[list[Part]]:
        """Return the translations of a batch; try again once if its worker is killed."""
        loop = asyncio.get_running_loop()
        self._stops[worker.number] = 0
        if worker.thread is not None:
            return await loop.run_in_executor(worker.thread, self._translate, job)
        for turn in (contextlib.nullcontext(), self._alone):
            async with turn:
                pool = self._pool
                try:
                    found: list[list[Part]] = await loop.run_in_executor(pool, work, job)
                except BrokenProcessPool:
                    if pool is self._pool:
                        self._replace_pool()
                else:
                    self._killed = 0
                    return found
        raise WorkerError(_KILLED)

    def _replace_pool(self) -> None:
        """Replace all workers after one was killed: that ends the others, too."""
        assert self._pool is not None
        self._pool.shutdown(wait=False)
        self._killed += 1
        if self._killed >= _MOST_KILLED:
            self._fail(_KILLED)
        else:
            log.warning("%s; starting others", _KILLED)
            self._pool = self._start_pool()

    def _take(self, worker: _Worker) -> list[_Waiting]:
        """Take from the queue the batch that an idle worker translates now, if there is one."""
        able = [item for item in self._queue if worker.takes(item)]
        if not able:
            return []
        first = able[0]
        alike = [item for item in able if item.kind == first.kind]
        sizes = [*accumulate(_size(item.sentence) for item in alike)]
        model, options, _ = first.kind
        budget = self.models.by_name[model].translator.batch_tokens(options.beam_size)
        if sizes[-1] < budget:
            if first.arrived + DELAY > time.monotonic():
                return []
            idle = sum(each.takes(first) for each in self._workers if not each.batch)
            budget = -(-sizes[-1] // idle)  # one worker's share
        taken = [item for item, size in zip(alike, sizes, strict=True) if size <= budget]
        taken = taken or [first]
        chosen = {*taken}
        self._queue = [item for item in self._queue if item not in chosen]
        return taken


async def _in_time(work: asyncio.Future[T], seconds: float) -> T:
    """Return the result of work. Raises RequestError when this many seconds have passed."""
    try:
        return await asyncio.wait_for(work, seconds)
    except asyncio.TimeoutError:
        message = "the translation took too long; send less text at once"
        raise RequestError(message, 504) from None
