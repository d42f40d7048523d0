"""Work in several processes.

`Ranks` are the processes that torchrun started (seq2seq.distributed): they train one model, or
translate one file, together. All read the same batches and each takes every size-th row; only
rank 0 writes. A single process is rank 0 of 1 and runs the same code, without torch.

`Parallelism` spreads translating and scoring over ranks, or over workers forked on this machine.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from seq2seq.errors import ConfigError, UserError, WorkerError

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

    import torch
    from torch import Tensor, nn

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")

_QUEUED = 2  # items per worker that are read in advance


@dataclass(frozen=True)
class Ranks:
    """This process alone; seq2seq.distributed.ProcessGroup is one of several."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, the one that writes."""
        return self.rank == 0

    def on_rank0(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function on rank 0 and return its result on every rank."""
        return function(*args, **kwargs)

    def all_reduce(self, values: Sequence[float]) -> list[float]:
        """Return the sums of the values over all ranks."""
        return list(values)

    def all_gather(self, value: T) -> list[T]:
        """Return the values of all ranks in rank order."""
        return [value]

    def wait_for_preparation(self) -> None:
        """Wait until all ranks have prepared their data."""

    @property
    def on_one_host(self) -> bool:
        """Whether all ranks run on the same machine, and so can share memory."""
        return True

    def zeros(self, count: int, device: torch.device) -> Tensor:
        """Return this many zeros, in memory that all ranks read and write."""
        import torch

        return torch.zeros(count, device=device)

    def barrier(self) -> None:
        """Wait until all ranks are here; what they wrote before can then be read."""

    def sum_tensor(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all ranks."""

    def data_parallel(self, module: nn.Module, *, dtype: torch.dtype) -> nn.Module:
        """Return the module with gradients summed over the ranks, reduced in the given dtype."""
        return module


def launched_processes() -> int:
    """Return the number of processes that torchrun started together; 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Parallelism:
    """Several `workers`, with the CPU threads of this process each, or `ranks`, or this process."""

    workers: int = 1
    ranks: Ranks = field(default_factory=Ranks)

    def map(
        self, function: Callable[[Item], T], items: Iterable[Item], *, on_gpu: bool
    ) -> Iterator[T]:
        """Return an iterator over the results of all items, in order, the same on every rank.

        Every rank has to read the iterator to its end. With workers, this process must not have
        computed with several threads (see ordered_map). Raises UserError for workers together with
        ranks, and ConfigError for several workers on a GPU.
        """
        if self.workers > 1 and self.ranks.size > 1:
            raise UserError("--workers: torchrun's ranks already share the work; remove --workers")
        if self.workers > 1 and on_gpu:
            raise ConfigError(f"{self.workers} workers cannot share a GPU; use --device cpu")
        if self.ranks.size > 1:
            return _map_over_ranks(self.ranks, function, items)
        return ordered_map(function, items, processes=self.workers, option="--workers")


SERIAL = Parallelism()


def _map_over_ranks(
    ranks: Ranks, function: Callable[[Item], T], items: Iterable[Item]
) -> Iterator[T]:
    """Yield all results in order on every rank; the ranks synchronize after one item each."""
    remaining = iter(items)
    while turn := list(islice(remaining, ranks.size)):
        mine = [function(item) for item in turn[ranks.rank : ranks.rank + 1]]
        for results in ranks.all_gather(mine):
            yield from results


def ordered_map(
    function: Callable[[Item], T],
    items: Iterable[Item],
    *,
    processes: int,
    option: str,
) -> Iterator[T]:
    """Return an iterator over the results of all items in order, computed by forked workers.

    With one process, that is this one. Workers are forked at once, before the caller starts
    threads; they share the memory of what the function holds, such as a model's weights, and only
    items and results are copied. A process that has computed with several OpenMP threads must not
    be forked. Errors of the function are raised here, in turn. Raises WorkerError when a worker was
    killed; the message says which `option` to lower.
    """
    if processes == 1:
        return map(function, items)
    pool = worker_pool(function, processes)
    remaining = iter(items)
    try:
        futures = deque(pool.submit(work, item) for item in islice(remaining, _QUEUED * processes))
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    return _results(pool, futures, remaining, option)


def worker_pool(function: Callable[[Any], Any], processes: int) -> ProcessPoolExecutor:
    """Return workers that are forked when the pool gets its first item (see ordered_map).

    `pool.submit(work, item)` calls the function with an item.
    """
    import multiprocessing  # slow to import, and a single sentence needs no workers
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context("fork"),
        initializer=_start_worker,
        initargs=(function,),
    )


def _results(
    pool: ProcessPoolExecutor, futures: deque[Future[T]], remaining: Iterator[Any], option: str
) -> Iterator[T]:
    from concurrent.futures.process import BrokenProcessPool

    try:
        while futures:
            yield futures.popleft().result()
            futures.extend(pool.submit(work, item) for item in islice(remaining, 1))
    except BrokenProcessPool:
        raise WorkerError(
            f"a worker process was killed, perhaps for lack of memory; lower {option}"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


_worker_function: Callable[[Any], Any]  # what this worker was forked for


def _start_worker(function: Callable[[Any], Any]) -> None:
    global _worker_function
    _worker_function = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops the workers
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """Exit when the parent does, even if it was killed; otherwise its locks would stay held."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def work(item: Any) -> Any:
    """Return the function's result for an item, in a worker."""
    return _worker_function(item)
