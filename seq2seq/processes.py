"""Work in several processes: ranks (started by torchrun) and workers (forked or spawned here).

`Ranks` train one model, or translate one file, together. All read the same data, each takes its
part, and only rank 0 writes. A single process is rank 0 of 1 and runs the same code, without torch.
`seq2seq train --processes N` calls `launch`, whose processes call `init_process_group`.

`Parallelism` spreads translating and scoring over ranks, or over workers of this process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tqdm import tqdm

from seq2seq.device import gpu_for_each_process
from seq2seq.errors import (
    EXIT_FAULT,
    ConfigError,
    RankLostError,
    UserError,
    WorkerError,
    exit_status,
)

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

    import torch
    from torch import Tensor

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")

# How long a rank waits for a machine that stopped answering; a dead process is noticed at once.
TIMEOUT = timedelta(minutes=30)
# Rank 0 may work alone for long, and one machine may have far more data to prepare.
PREPARATION_TIMEOUT = timedelta(days=1)
SHUTDOWN_SECONDS = 120  # to finish an update, perhaps a validation, and to save
# Words in the messages of torch.distributed about a broken connection.
_LOST = ("gloo", "Connection", "connection", "NCCL", "Timed out", "timed out", "Broken pipe")
_QUEUED = 2  # items per worker that are read in advance
LINES_PER_WORKER = 150  # about as many as are worth starting another worker for

tqdm.monitor_interval = 0  # otherwise every bar starts a thread, which forked workers would lose


@dataclass(frozen=True)
class Ranks:
    """The processes that work together, as one of them sees them; by default it is the only one.

    Every rank must make the same calls in the same order, since each call waits for all of them. A
    call raises RankLostError, through `init_process_group`, when another rank died.
    """

    rank: int = 0
    size: int = 1
    preparation_group: Any = None  # a process group with PREPARATION_TIMEOUT

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, the one that writes."""
        return self.rank == 0

    def on_rank0(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function on rank 0 and return its result on every rank.

        The other ranks wait for up to PREPARATION_TIMEOUT.
        An error is raised on rank 0 only. The other ranks exit silently with its exit code, since
        torchrun reports the code of whichever process exits first.
        """
        if self.size == 1:
            return function(*args, **kwargs)
        import torch.distributed as dist

        message: list[Any] = [False, EXIT_FAULT]  # success, then the result or the exit code
        try:
            if self.is_first:
                message = [True, function(*args, **kwargs)]
        except Exception as error:
            known = exit_status(error)
            message[1] = known[0] if known else EXIT_FAULT
            raise
        finally:
            dist.broadcast_object_list(message, group=self.preparation_group)
            if not message[0]:
                _leave_process_group()
        if not message[0]:
            raise SystemExit(message[1])
        result: T = message[1]
        return result

    def all_gather(self, value: T) -> list[T]:
        """Return the values of all ranks in rank order."""
        if self.size == 1:
            return [value]
        import torch.distributed as dist

        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def all_reduce(self, values: Sequence[float]) -> list[float]:
        """Return the sums of a few values over all ranks, in double precision."""
        if self.size == 1:
            return list(values)
        import torch

        totals = torch.tensor(values, dtype=torch.float64)
        self.all_reduce_(totals)
        return [float(total) for total in totals]

    def all_reduce_(self, tensor: Tensor, *, dtype: torch.dtype | None = None) -> None:
        """Replace a tensor by its sum over all ranks; `dtype` is the one it is exchanged in."""
        if self.size == 1:
            return
        import torch.distributed as dist

        sent = tensor if dtype is None else tensor.to(dtype)
        dist.all_reduce(sent)
        if sent is not tensor:
            tensor.copy_(sent)

    def broadcast_from_rank0_(self, tensor: Tensor) -> None:
        """Replace a tensor by rank 0's."""
        if self.size > 1:
            import torch.distributed as dist

            dist.broadcast(tensor, src=0)

    def wait_for_preparation(self) -> None:
        """Wait until all ranks have prepared their data, for up to PREPARATION_TIMEOUT."""
        if self.size > 1:
            import torch.distributed as dist

            dist.barrier(self.preparation_group)


@contextlib.contextmanager
def init_process_group() -> Iterator[Ranks]:
    """Join the processes that torchrun started; without torchrun, yield a single rank.

    Ranks other than 0 log errors only. Raises RankLostError when another rank died or stopped
    answering.
    """
    if num_ranks() == 1:
        yield Ranks()
        return
    import torch
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    backend = "gloo"
    if gpu_for_each_process():
        backend = "cpu:gloo,cuda:nccl"
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    store, rank, size = next(rendezvous("env://", timeout=TIMEOUT))
    # torchrun's store survives a restart, and with it the addresses of dead processes.
    store = PrefixStore(f"start-{num_restarts()}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    preparation_group = dist.new_group(backend="gloo", timeout=PREPARATION_TIMEOUT)
    if rank:
        logging.getLogger("seq2seq").setLevel(logging.ERROR)
    try:
        yield Ranks(rank, size, preparation_group)
    except (UserError, OSError):
        raise
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or any(sign in str(error) for sign in _LOST):
            raise RankLostError(
                f"rank {rank}: another process died or is unresponsive; see its output above"
            ) from None
        raise
    _leave_process_group()


def num_ranks() -> int:
    """Return the number of processes that torchrun started together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def _leave_process_group() -> None:
    """Leave once all ranks have received the last message.

    gloo reports a closed connection even if the whole message arrived before. Errors of this
    barrier do not matter: a rank that reached it has received everything. A group that still
    exists when the interpreter exits can abort the process from one of its threads.
    """
    import torch.distributed as dist

    with contextlib.suppress(RuntimeError):
        dist.barrier()
    dist.destroy_process_group()


def launch_name() -> str:
    """Return a name of this torchrun launch that is the same after each restart; "" without one.

    The agent that watches the ranks survives restarts, so its process id and start time tell this
    launch from any other.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return ""
    agent = os.getppid()
    try:
        started = Path(f"/proc/{agent}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        started = ""  # not Linux
    return f"{os.environ['TORCHELASTIC_RUN_ID']} {agent} {started}"


def launcher() -> list[str]:
    """Return the first words of the command that started this process.

    That is `seq2seq`, or torchrun with its options; "..." stands for the options by which several
    machines find each other.
    """
    if not launch_name():
        return ["seq2seq"]
    passed_on = (
        ("nnodes", "GROUP_WORLD_SIZE", "1"),
        ("nproc-per-node", "LOCAL_WORLD_SIZE", ""),
        ("max-restarts", "TORCHELASTIC_MAX_RESTARTS", "0"),
    )
    found = {name: os.environ[key] for name, key, usual in passed_on if os.environ[key] != usual}
    options = [word for name, value in found.items() for word in (f"--{name}", value)]
    return ["torchrun", *options, *["..."] * ("nnodes" in found), "-m", "seq2seq"]


def num_restarts() -> int:
    """Return how often torchrun has restarted these processes after one died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def launch(processes: int, arguments: Sequence[str], *, restarts: int = 0) -> int:
    """Run `seq2seq ARGUMENTS` in several processes that train together; return the exit code.

    When one process dies, all are stopped and, up to `restarts` times, started again; they then
    resume from the latest checkpoint.
    """
    # Slow to import, and only needed here.
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    # All available cores, divided evenly: more threads would wait for one another.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // processes)))
    elastic = logging.getLogger("torch.distributed.elastic")  # its modules set levels of their own
    elastic.handlers, elastic.propagate = [logging.NullHandler()], False
    options = [
        f"--nproc-per-node={processes}", f"--max-restarts={restarts}", "--local-addr=localhost",
        f"--shutdown-timeout={SHUTDOWN_SECONDS}", "--module", "seq2seq",
    ]  # fmt: skip
    try:
        parsed = torchrun.parse_args([*options, *arguments])  # type: ignore[no-untyped-call]
        torchrun.run(parsed)  # type: ignore[no-untyped-call]
    except SignalException as stopped:
        return 128 + int(stopped.sigval)
    except ChildFailedError as error:
        # A rank whose peer dies may abort in the same moment: the peer's end is the reason.
        reasons = error.failures.values()
        failure = min(reasons, key=lambda each: (each.exitcode == -signal.SIGABRT, each.timestamp))
        if failure.exitcode < 0:
            print(f"seq2seq: a process was killed by signal {-failure.exitcode}", file=sys.stderr)
        return failure.exitcode if failure.exitcode > 0 else 1
    return 0


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # on Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Parallelism:
    """How to divide work: among several `workers`, among `ranks`, or not at all.

    Each worker has as many CPU threads as this process. If `workers` is None, `for_lines` chooses
    their number.
    """

    workers: int | None = 1
    ranks: Ranks = field(default_factory=Ranks)

    @property
    def size(self) -> int:
        """The number of processes that share the work."""
        return max(self.workers or 1, self.ranks.size)

    def for_lines(self, number: int, worker_memory: int | None) -> Parallelism:
        """Return self with a number of workers chosen for so many lines, if it has none.

        One worker for every LINES_PER_WORKER lines, at most one for each core, and at most as many
        as the available memory suffices for, at `worker_memory` bytes each. With ranks, or if
        `worker_memory` is None, only one.
        """
        if self.workers is not None:
            return self
        chosen = 1
        if worker_memory and hasattr(os, "fork") and self.ranks.size == 1:
            most = min(number // LINES_PER_WORKER, cores())
            chosen = max(1, min(most, available_memory() // worker_memory))
        return replace(self, workers=chosen)

    def split(self, items: Sequence[Item], most: int) -> list[Sequence[Item]]:
        """Split items into equal parts of at most `most`, equally many for each process."""
        number = self.size * -(-len(items) // (self.size * most))
        ends = [len(items) * n // number for n in range(number + 1)] if number else []
        return [items[start:end] for start, end in pairwise(ends) if start < end]

    def map(
        self, function: Callable[[Item], T], items: Iterable[Item | None], *, on_gpu: bool
    ) -> Iterator[T]:
        """Return an iterator over the results of all items, in order, the same on every rank.

        Every rank has to read the iterator to its end. None among the items announces a wait (see
        ordered_map); ranks ignore it. With workers, this process must not have computed with
        several threads. Raises UserError for workers together with ranks, and ConfigError for
        several workers on a GPU.
        """
        workers = self.workers or 1
        if workers > 1 and self.ranks.size > 1:
            raise UserError("--workers: torchrun's ranks already share the work; remove --workers")
        if workers > 1 and on_gpu:
            raise ConfigError(f"{workers} workers cannot share a GPU; use --device cpu")
        if self.ranks.size > 1:
            given = (item for item in items if item is not None)
            return _map_over_ranks(self.ranks, function, given)
        return ordered_map(function, items, processes=workers, option="--workers")


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


def available_memory() -> int:
    """Return the bytes of memory that are available on this machine or in this container.

    A terabyte if that is unknown.
    """
    found = [1 << 40]
    with contextlib.suppress(OSError, ValueError):  # not Linux
        info = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        found.append(int(info["MemAvailable"].split()[0]) << 10)
    with contextlib.suppress(OSError, ValueError):  # no container, or one without a limit
        group = Path("/sys/fs/cgroup")
        most, used = (int((group / f"memory.{n}").read_text()) for n in ("max", "current"))
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        found.append(most - used + int(stat["inactive_file"]))
    return min(found)


def ordered_map(
    function: Callable[[Item], T],
    items: Iterable[Item | None],
    *,
    processes: int,
    option: str,
    spawn: bool = False,
) -> Generator[T, None, None]:
    """Return an iterator over the results of all items in order, computed by workers.

    With one process, there are no workers. Otherwise they are forked at once, before the caller
    starts threads. They share the memory that the function holds, such as a model's weights; only
    items and results are copied. A process that has computed with several OpenMP threads must not
    be forked: with `spawn`, workers are spawned, and the function is pickled. A rank always spawns
    its workers, as it has gloo's threads.

    `items` may yield None before they wait for an item that is not there yet: all earlier results
    then come first. Errors of the function are raised here, in turn. Raises WorkerError when a
    worker was killed; the message says which `option` to lower.
    """
    if processes == 1:
        return (function(item) for item in items if item is not None)
    method = "spawn" if spawn or num_ranks() > 1 else "fork"
    pool = worker_pool(partial(partial, function), processes, method=method)
    pool.submit(int)  # starts the workers
    return _results(pool, items, _QUEUED * processes, option)


def _results(
    pool: ProcessPoolExecutor, items: Iterable[Item | None], most: int, option: str
) -> Generator[Any, None, None]:
    """Yield the results in order, with at most so many items queued; see ordered_map."""
    from concurrent.futures.process import BrokenProcessPool

    futures: deque[Future[Any]] = deque()
    try:
        for item in chain(items, [None]):  # all results come before the end, too
            if item is not None:
                futures.append(pool.submit(work, item))
            while futures and (item is None or len(futures) == most):
                yield futures.popleft().result()
    except BrokenProcessPool:
        raise WorkerError(
            f"a worker process was killed, perhaps for lack of memory; lower {option}"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def worker_pool(
    make: Callable[[], Callable[[Any], Any]], processes: int, *, method: str = "fork"
) -> ProcessPoolExecutor:
    """Return workers that call `make` for their function when they start.

    `pool.submit(work, item)` calls the function with an item. Forked workers start at the first
    item and share the memory that `make` holds (see ordered_map). Spawned ones get a copy; a
    process with threads may have them. Raises UserError on Windows.
    """
    if not hasattr(os, "fork"):
        raise UserError("this system cannot fork worker processes; use 1 instead of several")
    import multiprocessing  # slow to import, and a single sentence needs no workers
    from concurrent.futures import ProcessPoolExecutor

    pool = ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context(method),
        initializer=_start_worker,
        initargs=(make,),
    )
    if method == "spawn" and sys.platform != "win32":
        # Ctrl-C must not end workers that are still importing what they need.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        for _ in range(processes):
            pool.submit(int)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pool


_worker_function: Callable[[Any], Any]  # called for each item in this worker


def _start_worker(make: Callable[[], Callable[[Any], Any]]) -> None:
    global _worker_function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops the workers
    _worker_function = make()
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
