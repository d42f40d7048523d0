"""Work in several processes, its results in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from seq2seq.errors import DataError

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 2  # items that wait for each process

_task: Callable[[Any], Any]  # what this process was started for


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], *, processes: int | None
) -> Iterator[Result]:
    """Yield the result of each item in order, worked out in processes; few items are held.

    Without a number there are as many processes as cores. What the function holds is not copied
    to them, only items and results are. Raises DataError when a process is killed.
    """
    number = processes or len(os.sched_getaffinity(0))
    if number == 1:
        yield from map(function, items)
        return
    # Forked processes share what is in memory. They touch neither torch nor its threads.
    pool = ProcessPoolExecutor(
        number,
        mp_context=multiprocessing.get_context("fork"),
        initializer=_start,
        initargs=(function,),
    )
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(_work, item))
            if len(waiting) > _AHEAD * number:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise DataError(
            "a process that prepared data was killed, perhaps for want of memory; lower "
            "data.processes"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _start(task: Callable[[Any], Any]) -> None:
    global _task
    _task = task
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Do not outlive the first process, even where it is killed, nor hold its locks."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(item: Any) -> Any:
    return _task(item)
