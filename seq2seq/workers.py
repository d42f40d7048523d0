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

_AHEAD = 2  # items a process that are taken before their turn

_task: Callable[[Any], Any]  # what this process was started for


def cores() -> int:
    """Return the number of cores that this process may use, which may be fewer than there are."""
    return len(os.sched_getaffinity(0))


def ordered_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    processes: int | None,
    option: str,
    begin: Callable[[], None] | None = None,
) -> Iterator[Result]:
    """Return an iterator over the results of all items; one process is this very one.

    Without a number there are as many processes as cores. They are forked at once: what the
    function holds, such as the weights of a model, is in memory once; only items and results are
    copied. Each calls `begin` first. A process that has computed with several OpenMP threads must
    not be forked. What the function raises is raised here in its turn. Raises WorkerError where a
    process was killed, which says what `option` to lower.
    """
    number = processes or cores()
    if number == 1:
        return map(function, items)
    pool = ProcessPoolExecutor(
        number,
        mp_context=multiprocessing.get_context("fork"),
        initializer=_start,
        initargs=(function, begin),
    )
    waiting = iter(items)
    try:
        futures = deque(pool.submit(_work, item) for item in islice(waiting, _AHEAD * number))
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    return _results(pool, futures, waiting, option)


def _results(
    pool: ProcessPoolExecutor, futures: deque[Future[Result]], waiting: Iterator[Any], option: str
) -> Iterator[Result]:
    try:
        while futures:
            yield futures.popleft().result()
            futures.extend(pool.submit(_work, item) for item in islice(waiting, 1))
    except BrokenProcessPool:
        raise WorkerError(
            "one of the processes that share the work was killed, perhaps for want of memory; "
            f"lower {option}"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _start(task: Callable[[Any], Any], begin: Callable[[], None] | None) -> None:
    global _task
    _task = task
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if begin is not None:
        begin()


def _end_with_parent() -> None:
    """Do not outlive the first process, even where it is killed, nor hold its locks."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(item: Any) -> Any:
    return _task(item)
