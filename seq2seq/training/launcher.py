"""Several processes on this machine, started and watched by torchrun's own launcher."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from seq2seq.workers import cores

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
