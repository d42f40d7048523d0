from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ToyCorpus

from seq2seq.study.plan import Run
from seq2seq.study.running import OUTPUT, Progress, duration, run_all

Make = Callable[[int], list[Run]]


@pytest.fixture
def runs(toy: ToyCorpus, tmp_path: Path) -> Make:
    def make(number: int) -> list[Run]:
        return [Run("cell", n, toy.config(tmp_path / f"run-{n}")) for n in range(number)]

    return make


def shell(script: str) -> Callable[[Run], list[str]]:
    return lambda run: ["bash", "-c", script.replace("RUN", str(run.path)), str(run.seed)]


def test_as_many_at_a_time_as_asked(runs: Make) -> None:
    progress = Progress(total=7, done=1, minutes=[], jobs=3)
    script = "touch RUN/on; ls -d RUN/../*/on | wc -l > RUN/number; sleep 0.3; rm RUN/on"
    assert run_all(runs(6), shell(script), progress) == "finished"
    numbers = [int((run.path / "number").read_text()) for run in runs(6)]
    assert max(numbers) == 3
    assert (progress.done, len(progress.minutes), progress.failed) == (7, 6, {})


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_fails_is_told_and_others_go_on(
    runs: Make, caplog: pytest.LogCaptureFixture, jobs: int
) -> None:
    progress = Progress(total=4, done=0, minutes=[], jobs=jobs)
    script = "echo hello; case $0 in 0) exit 3;; 1) kill -9 $$;; *) touch RUN/done;; esac"
    with caplog.at_level("INFO"):
        assert run_all(runs(4), shell(script), progress) == "finished"
    assert (runs(4)[2].path / "done").exists()
    assert (runs(4)[3].path / "done").exists()
    assert progress.done == 2
    why = progress.failed
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
def test_an_interrupt_is_handed_on_and_waited_for(
    runs: Make, number: signal.Signals, reason: str
) -> None:
    progress = Progress(total=4, done=0, minutes=[], jobs=2)
    name = number.name.removeprefix("SIG")
    script = f"trap 'sleep 0.3; touch RUN/saved; exit 130' {name}; touch RUN/on; sleep 20 & wait"

    def interrupt() -> None:
        while not all((run.path / "on").exists() for run in runs(2)):
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt).start()
    began = time.monotonic()
    assert run_all(runs(4), shell(script), progress) == reason
    assert time.monotonic() - began < 10
    assert [(run.path / "saved").exists() for run in runs(4)] == [True, True, False, False]
    assert (progress.done, progress.failed) == (0, {})


def test_a_second_interrupt_ends_all_at_once(runs: Make) -> None:
    progress = Progress(total=1, done=0, minutes=[], jobs=1)
    script = "trap 'touch RUN/told' INT; echo $$ > RUN/pid; while true; do sleep 0.05; done"
    [run] = runs(1)

    def interrupt() -> None:
        for name in ("pid", "told"):
            while not (run.path / name).exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run_all([run], shell(script), progress)
    with pytest.raises(ProcessLookupError):
        os.kill(int((run.path / "pid").read_text()), 0)


def test_the_time_that_is_left() -> None:
    assert duration(0.2) == "1 min"
    assert duration(59.6) == "1 h 0 min"
    assert duration(150) == "2 h 30 min"
    assert Progress(total=8, done=0, minutes=[], jobs=2).text() == "0 of 8 done"
    progress = Progress(total=8, done=2, minutes=[10, 20], jobs=2, failed={"a": "b"})
    assert progress.text() == "2 of 8 done, about 38 min left"
