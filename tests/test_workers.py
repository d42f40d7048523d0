from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ToyCorpus
from processes import SHOW_FORKS, Server

from seq2seq import processes
from seq2seq.errors import DataError, WorkerError
from seq2seq.processes import Parallelism, Ranks, available_memory, ordered_map


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


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_before_a_wait(processes):
    found = []

    def items() -> Iterator[int | None]:
        for item in range(12):
            if item % 3 == 0:
                yield None
                assert found == list(range(item))
            yield item

    for item in ordered_map(lambda item: item, items(), processes=processes, option=""):
        found.append(item)
    assert found == list(range(12))


@pytest.mark.parametrize(
    ("lines", "memory", "ranks", "workers"),
    [(599, 1, 1, 3), (600, 1, 1, 4), (10**6, 1, 1, 4), (10**6, 3 << 30, 1, 3), (300, 1, 1, 2),
     (299, 1, 1, 1), (10**6, 99 << 30, 1, 1), (10**6, None, 1, 1), (10**6, 1, 2, 1)],
)  # fmt: skip
def test_workers_are_chosen_by_lines_cores_and_memory(monkeypatch, lines, memory, ranks, workers):
    monkeypatch.setattr(processes, "cores", lambda: 4)
    monkeypatch.setattr(processes, "available_memory", lambda: 10 << 30)
    parallelism = Parallelism(None, Ranks(size=ranks))
    assert parallelism.for_lines(lines, memory).workers == workers
    assert Parallelism(7).for_lines(lines, memory).workers == 7


def test_available_memory_is_that_of_the_container(monkeypatch):
    files = {
        "/proc/meminfo": "MemTotal:  100 kB\nMemAvailable:  50 kB\n",
        "/sys/fs/cgroup/memory.max": "40000\n",
        "/sys/fs/cgroup/memory.current": "30000\n",
        "/sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 5000\n",
    }

    def read(path: Path) -> str:
        if str(path) not in files:
            raise FileNotFoundError(path)
        return files[str(path)]

    monkeypatch.setattr(Path, "read_text", read)
    assert available_memory() == 15_000
    files["/sys/fs/cgroup/memory.max"] = "max\n"
    assert available_memory() == 50 << 10
    files.clear()
    assert available_memory() == 1 << 40


@pytest.mark.parametrize(
    ("number", "most", "workers", "sizes"),
    [(600, 1000, 2, [300, 300]), (2300, 500, 2, [383, 383, 384] * 2), (3, 1000, 2, [1, 2]),
     (1001, 1000, 1, [500, 501]), (1, 1000, 4, [1]), (0, 1000, 2, [])],
)  # fmt: skip
def test_parts_are_equal_and_keep_the_order(number, most, workers, sizes):
    parts = Parallelism(workers).split(range(number), most)
    assert [len(part) for part in parts] == sizes
    assert [item for part in parts for item in part] == list(range(number))


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


def forks(server: Server, arguments: list[object], output: Path, setup: str = "") -> list[str]:
    """Return which threads there were at each fork of a command, which must succeed."""
    command = server.start(arguments, output, SHOW_FORKS + setup)
    assert command.wait() == 0, command.text()
    return re.findall("fork beside (.*)", command.text())


# Pairs in chunks so small that there is work for two processes.
TWO_CHUNKS = "from seq2seq.data import dataset\ndataset._CHUNK_ROWS = 200\n"
SHOW_WORKERS = """
import seq2seq.processes
pool = seq2seq.processes.worker_pool
def shown(make, number, method):
    print(number, "workers", flush=True)
    return pool(make, number, method=method)
seq2seq.processes.worker_pool = shown
"""
PREPARE = ("training.max_steps=1", "data.cache=null", "data.processes=2")


def test_no_threads_when_data_workers_are_forked(server: Server, toy: ToyCorpus, tmp_path: Path):
    recipe = tmp_path / "toy.yaml"
    recipe.write_text(toy.recipe(tmp_path / "run"))
    found = forks(server, ["train", recipe, *PREPARE], tmp_path / "text", TWO_CHUNKS)
    assert found == ["[] 0"] * 4  # to clean and to encode


def test_ranks_prepare_data_without_forks(server: Server, toy: ToyCorpus, tmp_path: Path):
    recipe, setup = tmp_path / "toy.yaml", SHOW_FORKS + TWO_CHUNKS + SHOW_WORKERS
    recipe.write_text(toy.recipe(tmp_path / "run"))
    command = ["train", recipe, *PREPARE, f"data.cache={tmp_path}/cache"]
    ranks = server.start_ranks(2, command, tmp_path / "text", setup)
    assert [rank.wait() for rank in ranks] == [0, 0]
    written = "".join(rank.text() for rank in ranks)
    assert written.count("2 workers") == 2  # to clean and to encode
    assert "fork beside" not in written


# ONNX Runtime starts a thread when it is imported, which waits from then on and is not needed. It
# is not there if the warm process that commands are forked from has imported ONNX Runtime before.
IDLE = (["[] 0"] * 2, ["[] 1"] * 2)


def test_no_threads_when_translating_workers_are_forked(
    server: Server, single: Path, tmp_path: Path
):
    (tmp_path / "in").write_text("gato come pan\n")
    files = ["-i", tmp_path / "in", "-o", tmp_path / "out"]
    found = forks(server, ["translate", single, *files, "--workers", 2], tmp_path / "text")
    assert found in IDLE


def test_no_threads_when_workers_of_the_server_are_forked(
    server: Server, single: Path, tmp_path: Path
):
    arguments = ["serve", single, "--port", 0, "--workers", 2]
    command = server.start(arguments, tmp_path / "text", SHOW_FORKS)
    wait_for(lambda: command.text().count("fork beside") == 2)
    command.send(signal.SIGKILL)
    command.wait()
    assert re.findall("fork beside (.*)", command.text()) in IDLE


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
