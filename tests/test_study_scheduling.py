from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ToyCorpus

from studies.plan import Run
from studies.runs import OUTPUT, Scheduler

Make = Callable[[int], list[Run]]


@pytest.fixture
def runs(toy: ToyCorpus, tmp_path: Path) -> Make:
    def make(number: int) -> list[Run]:
        return [Run("cell", n, toy.config(tmp_path / f"run-{n}")) for n in range(number)]

    return make


def shell(script: str) -> Callable[[Run], list[str]]:
    return lambda run: ["bash", "-c", script.replace("RUN", str(run.path)), str(run.seed)]


def test_number_of_parallel_jobs(runs: Make) -> None:
    script = "touch RUN/on; ls -d RUN/../*/on | wc -l > RUN/number; sleep 0.3; rm RUN/on"
    scheduler = Scheduler(shell(script), jobs=3, total=7, done=1)
    assert scheduler.run(runs(6)) == "finished"
    numbers = [int((run.path / "number").read_text()) for run in runs(6)]
    assert max(numbers) == 3
    assert (scheduler.done, scheduler.failed) == (7, {})


@pytest.mark.parametrize("jobs", [1, 2])
def test_failed_run_is_reported_and_others_continue(
    runs: Make, caplog: pytest.LogCaptureFixture, jobs: int
) -> None:
    script = "echo hello; case $0 in 0) exit 3;; 1) kill -9 $$;; *) touch RUN/done;; esac"
    scheduler = Scheduler(shell(script), jobs=jobs, total=4)
    with caplog.at_level("INFO"):
        assert scheduler.run(runs(4)) == "finished"
    assert (runs(4)[2].path / "done").exists()
    assert (runs(4)[3].path / "done").exists()
    assert scheduler.done == 2
    why = scheduler.failed
    assert why["cell/seed-0"].startswith("exit status 3")
    assert why["cell/seed-1"].startswith("killed by SIGKILL")
    assert "cell/seed-0: FAILED (exit status 3" in caplog.text
    output = runs(4)[0].path / OUTPUT
    assert output.exists() == (jobs == 2)
    if jobs == 2:
        assert str(output) in why["cell/seed-0"]
        assert output.read_text() == "hello\n"


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]
)
def test_interrupt_is_forwarded_and_jobs_may_save(
    runs: Make, number: signal.Signals, reason: str
) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'sleep 0.3; touch RUN/saved; exit 130' {name}; touch RUN/on; sleep 20 & wait"
    scheduler = Scheduler(shell(script), jobs=2, total=4)

    def interrupt() -> None:
        while not all((run.path / "on").exists() for run in runs(2)):
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt).start()
    began = time.monotonic()
    assert scheduler.run(runs(4)) == reason
    assert time.monotonic() - began < 10
    assert [(run.path / "saved").exists() for run in runs(4)] == [True, True, False, False]
    assert (scheduler.done, scheduler.failed) == (0, {})


def test_second_interrupt_kills_immediately(runs: Make) -> None:
    script = "trap 'touch RUN/interrupted' INT; echo $$ > RUN/pid; while true; do sleep 0.05; done"
    [run] = runs(1)

    def interrupt() -> None:
        for name in ("pid", "interrupted"):
            while not (run.path / name).exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        Scheduler(shell(script), jobs=1, total=1).run([run])
    with pytest.raises(ProcessLookupError):
        os.kill(int((run.path / "pid").read_text()), 0)
