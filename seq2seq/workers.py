"""Work that several processes share, with its results in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

from seq2seq.errors import WorkerError

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 2  # items a worker that are read before their turn

_task: Callable[[Any], Any]  # of this process, where it is a worker


def ordered_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int,
    begin: Callable[[], None] | None = None,
) -> Iterator[Result]:
    """Return an iterator over the results of all items; one worker is this very process.

    Workers are forked at once: what the function holds, such as the weights of a model, is in
    memory once. Items and results are pickled. Each worker calls `begin` first. A process whose
    OpenMP threads have started must not be forked. What the function raises is raised here in its
    turn. Raises WorkerError where a worker was killed.
    """
    if workers == 1:
        return map(function, items)
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("fork"),
        initializer=_start,
        initargs=(function, begin),
    )
    waiting = iter(items)
    futures = deque(pool.submit(_work, item) for item in islice(waiting, _AHEAD * workers))
    return _results(pool, futures, waiting)


def _results(
    pool: ProcessPoolExecutor, futures: deque[Future[Result]], waiting: Iterator[Any]
) -> Iterator[Result]:
    try:
        while futures:
            yield futures.popleft().result()
            futures.extend(pool.submit(_work, item) for item in islice(waiting, 1))
    except BrokenProcessPool:
        raise WorkerError(
            "a worker was killed, perhaps by the system for want of memory: results end before "
            "its part; try fewer workers"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _start(task: Callable[[Any], Any], begin: Callable[[], None] | None) -> None:
    global _task
    _task = task
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a worker without a traceback
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if begin is not None:
        begin()


def _end_with_parent() -> None:
    """Do not outlive the process that forked this one, however it ends."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(item: Any) -> Any:
    return _task(item)
