"""The processes that torchrun started together, and starting them with torchrun's own launcher.

`seq2seq train --processes N` calls `launch`, whose processes call `init_process_group`.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from seq2seq.device import gpu_for_each_process
from seq2seq.errors import EXIT_FAULT, RankLostError, UserError, verdict
from seq2seq.parallel import Ranks, cores, launched_processes

P = ParamSpec("P")
T = TypeVar("T")

# How long a rank waits for a machine that stopped answering; a dead process is noticed at once.
TIMEOUT = timedelta(minutes=30)
PREPARATION_TIMEOUT = timedelta(days=1)  # one machine may have far more data to prepare
_CHECK_SECONDS = 0.2  # between checks that the ranks of this host are still running
_LINE = 16  # float64 numbers of a rank in shared memory: two cache lines
SHUTDOWN_SECONDS = 120  # to finish an update, perhaps a validation, and to save


class Meeting:
    """Where the ranks of one host wait for one another and add up a few numbers.

    They meet in shared memory several times for each update, which is ten times as fast as with
    the threads and messages of gloo.
    """

    def __init__(self, group: ProcessGroup) -> None:
        self._rank, self._turn = group.rank, 0
        self._processes = group.all_gather(os.getpid())
        words = group.zeros(2 * _LINE * group.size, torch.device("cpu")).view(torch.float64)
        lines_RW = words.view(group.size, _LINE).numpy()
        self._turns_R, self._values_RW = lines_RW[:, 0], lines_RW[:, 2:]

    def all_reduce(self, values: Sequence[float]) -> list[float]:
        """Return the sums over all ranks. Raises RankLostError if one of them does not come."""
        self._turn += 1
        # In turns, because another rank may still be reading the sums of the previous meeting.
        places_RV = self._values_RW[:, self._turn % 2 :: 2][:, : len(values)]
        places_RV[self._rank] = values
        _order_memory()
        self._turns_R[self._rank] = self._turn
        started = time.monotonic()
        check = started + _CHECK_SECONDS
        while True:
            lost, now = False, time.monotonic()
            if now >= check:
                lost = not all(map(_is_running, self._processes))
                lost |= now - started > TIMEOUT.total_seconds()
                check = now + _CHECK_SECONDS
            if self._turns_R.min() >= self._turn:
                _order_memory()
                return [float(total) for total in places_RV.sum(0)]
            if lost:
                raise _rank_lost(self._rank)
            time.sleep(min(0.01, 0.02 * (now - started)))


def _order_memory() -> None:
    """Let no access to memory move across this call, as it could on ARM processors.

    Python has no fence. What comes before stays before the first release of the lock, what comes
    after stays after the second acquisition, and these two keep their order.
    """
    lock = threading.Lock()
    for _ in range(2):
        with lock:
            pass


def _is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _rank_lost(rank: int) -> RankLostError:
    return RankLostError(
        f"rank {rank}: another process died or is unresponsive; see its output above"
    )


@dataclass(frozen=True)
class ProcessGroup(Ranks):
    """This process among several ranks."""

    preparation_group: Any = None  # a process group with PREPARATION_TIMEOUT
    meeting: Meeting | None = None  # of ranks that all run on this host

    def on_rank0(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function on rank 0 and return its result on every rank.

        An error is raised on rank 0 only. The other ranks exit silently with its exit code, since
        torchrun reports the code of whichever process exits first.
        """
        message: list[Any] = [False, EXIT_FAULT]  # success, then the result or the exit code
        try:
            if self.is_first:
                message = [True, function(*args, **kwargs)]
        except Exception as error:
            known = verdict(error)
            message[1] = known[0] if known else EXIT_FAULT
            raise
        finally:
            dist.broadcast_object_list(message)
            if not message[0]:
                _leave_process_group()
        if not message[0]:
            raise SystemExit(message[1])
        result: T = message[1]
        return result

    def all_reduce(self, values: Sequence[float]) -> list[float]:
        """Return the sums of the values over all ranks."""
        if self.meeting is not None:
            return self.meeting.all_reduce(values)
        totals = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(totals)
        return [float(total) for total in totals]

    def all_gather(self, value: T) -> list[T]:
        """Return the values of all ranks in rank order."""
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def wait_for_preparation(self) -> None:
        """Wait until all ranks have prepared their data, for up to PREPARATION_TIMEOUT."""
        dist.barrier(self.preparation_group)

    @property
    def on_one_host(self) -> bool:
        """Whether torchrun started all ranks on this machine."""
        return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) == self.size

    def zeros(self, count: int, device: torch.device) -> Tensor:
        """Return this many zeros, in memory of the CPU that all ranks of a host read and write."""
        size = count * torch.float32.itemsize
        creator, number = self.on_rank0(_create_memory, size)
        file = os.open(f"/proc/{creator}/fd/{number}", os.O_RDWR)
        dist.barrier()
        if self.is_first:
            os.close(number)
        memory = mmap.mmap(file, size)
        os.close(file)
        return torch.frombuffer(memory, dtype=torch.float32)

    def barrier(self) -> None:
        """Wait until all ranks are here; what they wrote before can then be read."""
        self.all_reduce([0.0])

    def sum_tensor(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all ranks."""
        dist.all_reduce(tensor)

    def data_parallel(self, module: nn.Module, *, dtype: torch.dtype) -> nn.Module:
        """Return the module with gradients summed over the ranks, reduced in the given dtype."""
        wrapped = DistributedDataParallel(module)
        wrapped.register_comm_hook(dtype, lambda dtype, bucket: _sum(dtype, bucket))
        return wrapped


def _create_memory(size: int) -> tuple[int, int]:
    """Return this process's id and its descriptor of new memory, which others can open.

    Without a name in a file system, none can be left behind, and the size of /dev/shm, which is
    small in containers, is no limit.
    """
    descriptor = os.memfd_create("seq2seq")
    os.ftruncate(descriptor, size)
    return os.getpid(), descriptor


def _sum(dtype: torch.dtype, bucket: Any) -> torch.futures.Future[Tensor]:
    """Sum a torch.distributed.GradBucket over the ranks in the given dtype.

    torch's own hooks divide by the number of ranks, and the narrow one does not support CPUs.
    """
    wide: Tensor = bucket.buffer()
    narrow = wide.to(dtype)
    sent = dist.all_reduce(narrow, async_op=True).get_future()
    received: torch.futures.Future[Tensor] = sent.then(lambda _: wide.copy_(narrow))
    return received


@contextlib.contextmanager
def init_process_group() -> Iterator[Ranks]:
    """Join the processes that torchrun started; without torchrun, yield a single rank.

    Ranks other than 0 log errors only. Raises RankLostError when another rank died or stopped
    answering.
    """
    if launched_processes() == 1:
        yield Ranks()
        return
    backend = "gloo"
    if gpu_for_each_process():
        backend = "cpu:gloo,cuda:nccl"
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    store, rank, size = next(rendezvous("env://", timeout=TIMEOUT))
    # torchrun's store survives a restart, and with it the addresses of dead processes.
    store = PrefixStore(f"start-{_restarts()}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    preparation_group = dist.new_group(backend="gloo", timeout=PREPARATION_TIMEOUT)
    if rank:
        logging.getLogger("seq2seq").setLevel(logging.ERROR)
    try:
        group = ProcessGroup(rank, size, preparation_group)
        yield replace(group, meeting=Meeting(group)) if group.on_one_host else group
    except (UserError, OSError):
        raise
    except RuntimeError as error:
        if _is_connection_error(error):
            raise _rank_lost(rank) from None
        raise
    _leave_process_group()


def _leave_process_group() -> None:
    """Leave once all ranks have received the last message.

    gloo reports a closed connection even if the whole message arrived before. Errors of this
    barrier do not matter: a rank that reached it has received everything. A group that is still
    there when the interpreter exits can abort the process from one of its threads.
    """
    with contextlib.suppress(RuntimeError):
        dist.barrier()
    dist.destroy_process_group()


def _is_connection_error(error: RuntimeError) -> bool:
    signs = ("gloo", "Connection", "connection", "NCCL", "Timed out", "timed out", "Broken pipe")
    return isinstance(error, dist.DistError) or any(sign in str(error) for sign in signs)


def restarted_launch() -> str:
    """Return launch_name() if torchrun restarted these processes after one died, else ""."""
    return launch_name() if _restarts() else ""


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


def _restarts() -> int:
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def launch(processes: int, arguments: Sequence[str], *, restarts: int = 0) -> int:
    """Run `seq2seq ARGUMENTS` in several processes that train together; return the exit code.

    When one process dies, all are stopped and, up to `restarts` times, started again; they then
    resume from the latest checkpoint.
    """
    # Slow to import, and only needed here.
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # All available cores, divided evenly: more threads would wait for one another.
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
