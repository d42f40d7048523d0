from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from seq2seq.errors import DataError, WorkerError
from seq2seq.processes import ordered_map


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_results_are_in_order_with_bounded_read_ahead(processes):
    taken = []

    def items() -> Iterator[int]:
        for item in range(60):
            taken.append(item)
            yield item

    def work(item: int) -> tuple[int, int]:
        time.sleep(0.01 * (item % 3 == 0))
        return item, os.getpid()

    found, pids = [], set()
    for item, pid in ordered_map(work, items(), processes=processes, option=""):
        found.append(item)
        pids.add(pid)
        assert len(taken) - len(found) <= 2 * processes
    assert found == list(range(60))
    assert len(pids) <= processes
    assert (os.getpid() in pids) == (processes == 1)


@pytest.mark.parametrize("processes", [1, 3])
def test_errors_of_function_and_items_are_raised(processes):
    def items(last: int) -> Iterator[int]:
        yield from range(last)
        raise DataError("line 5")

    def work(item: int) -> int:
        if item == 8:
            raise DataError("item 8")
        return item

    with pytest.raises(DataError, match="line 5"):
        list(ordered_map(work, items(5), processes=processes, option=""))
    with pytest.raises(DataError, match="item 8"):
        list(ordered_map(work, items(50), processes=processes, option=""))


def test_killed_worker_is_reported():
    def work(item: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkerError, match=r"was killed.*lower data\.processes"):
        list(ordered_map(work, range(3), processes=2, option="data.processes"))


def test_workers_exit_with_their_parent(tmp_path: Path):
    script = f"""
import os, time
from seq2seq.processes import ordered_map
def work(item):
    open(f"{tmp_path}/{{os.getpid()}}", "w").close()
    time.sleep(60)
list(ordered_map(work, range(3), processes=3, option=""))
"""
    process = subprocess.Popen([sys.executable, "-c", script])
    wait_for(lambda: len(list(tmp_path.iterdir())) == 3)
    process.kill()
    process.wait()
    wait_for(lambda: not any(alive(int(path.name)) for path in tmp_path.iterdir()))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition) -> None:
    for _ in range(400):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("timed out")
