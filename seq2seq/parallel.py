"""Several processes on this machine, started and watched by torchrun's own launcher.

The processes that train one model together, or translate one file, as torchrun starts them.

Each has a rank, from 0 to size - 1. All read the same batches and take every size-th row; only
rank 0 writes. One process alone is the same program, with nothing to agree on.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from seq2seq.device import gpu_for_each_process
from seq2seq.errors import EXIT_FAULT, ConfigError, RankLostError, UserError, WorkerError, verdict

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


# Without a sign of life from another host; a process that dies is seen at once.
TIMEOUT = timedelta(minutes=30)
PATIENCE = timedelta(days=1)  # while data is prepared

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process among those that work together."""

    rank: int = 0
    size: int = 1
    patient: Any = None  # a process group that waits longer

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes."""
        return self.rank == 0

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the sums over all ranks, the same at each."""
        if self.size == 1:
            return list(values)
        totals = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(totals)
        return [float(total) for total in totals]

    def share(self, make: Callable[[], T]) -> T:
        """Return at every rank what rank 0 makes.

        What goes wrong at rank 0 is raised there; the others then end without a word, and with the
        same exit code, for one of them may be the first to end.
        """
        if self.size == 1:
            return make()
        box: list[Any] = [EXIT_FAULT, False]
        try:
            if self.is_first:
                box = [make(), True]
        except Exception as error:
            found = verdict(error)
            box[0] = found[0] if found else EXIT_FAULT
            raise
        finally:
            dist.broadcast_object_list(box)
            if not box[1]:
                _part()
        if not box[1]:
            raise SystemExit(box[0])
        value: T = box[0]
        return value

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks, in their order, at each."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def wait(self) -> None:
        """Wait for all ranks, a day if need be: one machine may have far more to prepare."""
        if self.size > 1:
            dist.barrier(self.patient)

    def map(self, work: Callable[[Item], T], items: Iterable[Item]) -> Iterator[T]:
        """Yield at each rank what all of them make of all items, in order.

        All have the same items. They wait for each other after each round of an item a rank.
        """
        waiting = iter(items)
        while turn := list(islice(waiting, self.size)):
            mine = [work(item) for item in turn[self.rank : self.rank + 1]]
            for results in self.gather(mine):
                yield from results

    def seed(self, seed: int, step: int) -> None:
        """Set torch's generators for an update: other numbers at each step and rank.

        So nothing random has to be saved for going on, not even with another number of ranks.
        """
        words = np.random.SeedSequence((seed, step, self.rank)).generate_state(2, np.uint32)
        torch.manual_seed(int(words[0]) << 31 | int(words[1]) >> 1)

    def wrap(self, module: nn.Module, *, dtype: torch.dtype) -> nn.Module:
        """Return the module with gradients that are means over the ranks, sent in a dtype."""
        if self.size == 1:
            return module
        wrapped = DistributedDataParallel(module, gradient_as_bucket_view=True)
        if dtype != torch.float32:
            wrapped.register_comm_hook(dtype, lambda dtype, bucket: _compressed(dtype, bucket))
        return wrapped


@contextlib.contextmanager
def join() -> Iterator[Ranks]:
    """Join the processes that torchrun started, or be one alone. Only rank 0 logs what is no error.

    Raises RankLostError where another one has ended or is silent.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Ranks()
        return
    backend = "gloo"
    if gpu_for_each_process():
        backend = "cpu:gloo,cuda:nccl"
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    store, rank, size = next(rendezvous("env://", timeout=TIMEOUT))
    # torchrun's store outlives a restart, and with it the addresses of processes that are dead.
    store = PrefixStore(f"start-{_restarts()}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    patient = dist.new_group(backend="gloo", timeout=PATIENCE)
    if rank:
        logging.getLogger("seq2seq").setLevel(logging.ERROR)
    try:
        yield Ranks(rank, size, patient)
    except (UserError, OSError):
        raise
    except RuntimeError as error:
        if _is_lost(error):
            raise RankLostError(
                f"rank {rank}: another process has ended or is silent; what it said stands above"
            ) from None
        raise
    _part()
    dist.destroy_process_group()


def _part() -> None:
    """Let no rank go before all have received what was sent last.

    gloo reports a connection that was closed even where all of a message had arrived before. Here
    that does not matter: who is in the barrier has received everything.
    """
    with contextlib.suppress(RuntimeError):
        dist.barrier()


def was_restarted() -> bool:
    """Return whether torchrun started these processes again, after one of them had died."""
    return _restarts() > 0


def launch_name() -> str:
    """Return a name of torchrun's launch, the same after each restart; "" without torchrun.

    Other launches have another one: by the process that watches over this one, which outlives the
    restarts, and by the time at which it began.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return ""
    parent = os.getppid()
    try:
        began = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        began = ""  # not Linux
    return f"{os.environ['TORCHELASTIC_RUN_ID']} {parent} {began}"


def _restarts() -> int:
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def _is_lost(error: RuntimeError) -> bool:
    signs = ("gloo", "Connection", "connection", "NCCL", "Timed out", "timed out", "Broken pipe")
    return isinstance(error, dist.DistError) or any(sign in str(error) for sign in signs)


def _compressed(dtype: torch.dtype, bucket: Any) -> torch.futures.Future[Tensor]:
    """Return the mean of a torch.distributed.GradBucket over the ranks, sent in a narrower dtype.

    torch's own hook for this refuses CPUs.
    """
    wide: Tensor = bucket.buffer()
    narrow = wide.to(dtype).div_(dist.get_world_size())
    sent = dist.all_reduce(narrow, async_op=True).get_future()
    received: torch.futures.Future[Tensor] = sent.then(lambda _: wide.copy_(narrow))
    return received


@dataclass(frozen=True)
class Sharing:
    """Several `workers`, each with so many CPU `threads`, or several `ranks`; else this process."""

    workers: int = 1
    threads: int = 1
    ranks: Ranks = field(default_factory=Ranks)

    def map(
        self, work: Callable[[Item], Result], items: Iterable[Item], device: torch.device
    ) -> Iterator[Result]:
        """Return an iterator over the results of all items, in order, the same at each rank.

        It has to be read to its end at each rank. This process must not have computed with several
        threads where there are workers (see seq2seq.parallel). Raises UserError for both workers
        and ranks, and ConfigError for several workers on a GPU.
        """
        if self.workers > 1 and self.ranks.size > 1:
            raise UserError("torchrun's processes share the work already; leave --workers out")
        if self.workers > 1 and device.type != "cpu":
            raise ConfigError(f"{self.workers} workers cannot share {device}; use --device cpu")
        if self.ranks.size > 1:
            return self.ranks.map(work, items)
        begin = partial(torch.set_num_threads, self.threads)
        return ordered_map(work, items, processes=self.workers, option="--workers", begin=begin)


ALONE = Sharing()

SHUTDOWN_SECONDS = 120  # to finish an update, a validation perhaps, and to save


def launch(processes: int, arguments: Sequence[str], *, restarts: int = 0) -> int:
    """Run `seq2seq ARGUMENTS` in so many processes that train together; return the exit code.

    After the death of one all are ended, and up to `restarts` times started again, which then go
    on from the newest checkpoint.
    """
    # All cores that this process may use, shared evenly: more threads would wait for one another.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // processes)))
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    config = LaunchConfig(
        run_id=f"seq2seq-{os.getpid()}",
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=restarts,
        start_method="spawn",
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "seq2seq", *arguments)
    except SignalException as signal:
        return 128 + int(signal.sigval)
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        if failure.exitcode < 0:
            print(f"seq2seq: a process was killed by signal {-failure.exitcode}", file=sys.stderr)
        return failure.exitcode if failure.exitcode > 0 else 1
    return 0
