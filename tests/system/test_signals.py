"""Ctrl-C and SIGTERM, and two trainings in one run directory."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from conftest import ToyCorpus
from processes import Server, Training
from same_runs import assert_same
from test_workers import alive, wait_for

from seq2seq.runs.directory import RunDirectory

# Slow updates, so that a signal arrives during one, and optionally slow batches.
SLOW = """
import time
from seq2seq import pipeline
from seq2seq.data.windows import Windows
from seq2seq.training.trainer import Trainer

update, prepare = Trainer.update, Windows.prepare

def updated(self, batches):
    print("update", flush=True)
    time.sleep({pause})
    update(self, batches)

def prepared(self, place):
    time.sleep(60 if place.window else 0)
    return prepare(self, place)

Trainer.update = updated
pipeline._feeding_processes = lambda *_: {feeding}
if {stuck}:
    Windows.prepare = prepared
"""
SIGNALS = [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]


@pytest.fixture(scope="module")
def recipe(toy: ToyCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signals")
    path = folder / "toy.yaml"
    path.write_text(toy.recipe(folder / "run"))
    return path


@pytest.fixture(scope="module")
def straight(server: Server, recipe: Path) -> Path:
    path = recipe.with_name("straight")
    start(server, recipe, path).wait()
    return path


def start(
    server: Server,
    recipe: Path,
    run: Path,
    *more: str,
    pause: float = 0,
    stuck: bool = False,
    feeding: int = 1,
) -> Training:
    """Start a training whose updates take `pause` seconds longer."""
    setup = SLOW.format(pause=pause, stuck=stuck, feeding=feeding)
    output = run.with_name(f"{run.name}.txt")
    output.unlink(missing_ok=True)
    return server.start(
        ["train", recipe, f"run_dir={run}", "training.average=last", *more], output, setup
    )


def await_text(training: Training, text: str, count: int = 1) -> None:
    end = time.monotonic() + 60
    while training.text().count(text) < count:
        assert training.code() is None, training.text()
        assert time.monotonic() < end, training.text()
        time.sleep(0.005)


@pytest.mark.parametrize(("number", "word"), SIGNALS)
def test_signal_saves_and_resume_is_bit_identical(
    server: Server, recipe: Path, straight: Path, tmp_path: Path, number: int, word: str
) -> None:
    path = tmp_path / "run"
    training = start(server, recipe, path, pause=0.1)
    await_text(training, "update\n", 7)
    training.send(number)
    assert training.wait() == 128 + number
    again = f"seq2seq train {recipe} run_dir={path} training.average=last --resume"
    assert f"{word}; saved. Continue with: {again}" in training.text()
    assert "Traceback" not in training.text()
    newest = RunDirectory(path).newest()
    assert newest.step == 7
    assert newest.stopped
    assert start(server, recipe, path, "--resume").wait() == 0
    assert_same(straight, path)


def test_ctrl_c_spares_workers_that_prepare_batches(
    server: Server, recipe: Path, straight: Path, tmp_path: Path
) -> None:
    """A terminal sends Ctrl-C to them, too."""
    path = tmp_path / "run"
    training = start(server, recipe, path, pause=0.1, feeding=2)
    await_text(training, "update\n", 2)
    workers = children(training.pid)
    assert len(workers) > 1
    for pid in (*workers, training.pid):
        os.kill(pid, signal.SIGINT)
    assert training.wait() == 128 + signal.SIGINT
    assert "interrupted; saved." in training.text()
    assert "Traceback" not in training.text()
    wait_for(lambda: not any(map(alive, workers)))
    assert start(server, recipe, path, "--resume", feeding=2).wait() == 0
    assert_same(straight, path)


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(("number", "word"), SIGNALS)
def test_second_signal_quits_immediately(
    server: Server, recipe: Path, straight: Path, tmp_path: Path, number: int, word: str
) -> None:
    """The second one is SIGTERM, which torchrun sends its ranks after any second signal."""
    path = tmp_path / "run"
    training = start(server, recipe, path, pause=60, stuck=True)
    await_text(training, "update\n")
    training.send(number)
    await_text(training, f"{word}: saving; press Ctrl-C again to quit immediately")
    asked = time.monotonic()
    training.send(signal.SIGTERM)
    assert training.wait() == -signal.SIGTERM  # a shell shows 128 + number here too
    assert time.monotonic() - asked < 10
    assert start(server, recipe, path, "--resume").wait() == 0
    assert_same(straight, path)


def test_ctrl_c_during_data_preparation(server: Server, recipe: Path, tmp_path: Path) -> None:
    setup = (
        "import time, seq2seq.pipeline\n"
        # A signal just before a call of sleep does not shorten it.
        "def load(config): print('loading', flush=True); [time.sleep(0.1) for _ in range(600)]\n"
        "seq2seq.pipeline.load_pairs = load"
    )
    training = server.start(["train", recipe, f"run_dir={tmp_path}"], tmp_path / "text", setup)
    await_text(training, "loading\n")
    training.send(signal.SIGINT)
    assert training.wait(10) == 128 + signal.SIGINT
    assert "Traceback" not in training.text()


def test_run_is_locked_until_its_process_dies(
    server: Server, recipe: Path, straight: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    first = start(server, recipe, path, pause=60)
    await_text(first, "update\n")
    for how, words in (
        ("--resume", "another process is training this run"),
        ("--overwrite", "another process is training this run"),
        ("training.seed=1", "a run already exists; continue it with --resume"),
    ):
        output = tmp_path / f"second-{how}"
        second = server.start(
            ["train", recipe, f"run_dir={path}", "training.average=last", how], output
        )
        assert second.wait() == 2
        [error] = [line for line in second.text().splitlines() if line.startswith("seq2seq:")]
        assert words in error
    first.send(signal.SIGKILL)
    first.wait()
    assert start(server, recipe, path, "--resume").wait() == 0
    assert_same(straight, path)
