"""Full and read-only disks end a process with one line and its exit code, and lose nothing."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import disks
import pytest
from conftest import ToyCorpus
from processes import Server
from same_runs import assert_same

from seq2seq.runs.checkpoint import list_checkpoints

OVERRIDES = (
    "training.max_steps=12",
    "training.accumulate=1",
    "training.log_every=1",
    "training.keep_last=2",
    "training.average=last",
)
FULL = os.strerror(errno.ENOSPC)


@pytest.fixture(scope="module")
def recipe(toy: ToyCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("disks")
    path = folder / "toy.yaml"
    path.write_text(toy.recipe(folder / "run"))
    return path


def train(
    server: Server, recipe: Path, run: Path, *more: str, setup: str = "", code: int = 0
) -> list[str]:
    """Train in a process that must end with `code`; return the lines of its output."""
    output = recipe.with_name("output.txt")
    output.unlink(missing_ok=True)
    arguments = ["train", recipe, f"run_dir={run}", *OVERRIDES, *more]
    training = server.start(arguments, output, setup)
    found = training.wait()
    if found == disks.NONE:
        pytest.skip("the system does not permit mounting a private disk")
    text = training.text()
    assert found == code, text
    assert "Traceback" not in text
    return text.splitlines()


@pytest.fixture(scope="module")
def straight(server: Server, recipe: Path) -> Path:
    path = recipe.with_name("straight")
    train(server, recipe, path)
    return path


# Fails and resumes in one process, since the mounted disk vanishes with it.
TWICE = """
import os, shutil, sys
from pathlib import Path
import disks
from seq2seq import cli
from seq2seq.training.trainer import Trainer

disk, target, options, fill = Path({disk!r}), {target!r}, {options!r}, {fill}
disks.own_mounts()
disks.memory_disk(disk, options)
update = Trainer.update

def updated(self, batches):
    update(self, batches)
    global fill
    if self.progress.step == fill:
        disks.fill(disk)
        fill = 0

Trainer.update = updated
main = cli.main

def twice(arguments):
    assert main(arguments) == 1
    print("first", *sorted(path.name for path in disk.glob("run/checkpoints/*")))
    (disk / "ballast").unlink(missing_ok=True)
    disks.memory_disk(disk, "size=64m,nr_inodes=0")
    begun = (disk / "run/config.yaml").exists()
    code = main([*arguments, *["--resume"] * begun])
    shutil.copytree(disk / "run", target)
    return code

cli.main = twice
"""


@pytest.mark.parametrize(
    ("options", "fill"),
    [
        *((f"size={size}k", 0) for size in (8, 420, 700, 900)),
        ("size=64m,nr_inodes=9", 0),
        ("size=64m,nr_inodes=16", 0),
        ("size=2m", 2),
        ("size=2m", 5),
    ],
)
def test_full_disk(
    server: Server, recipe: Path, straight: Path, tmp_path: Path, options: str, fill: int
) -> None:
    disk, target = tmp_path / "disk", tmp_path / "run"
    disk.mkdir()
    setup = TWICE.format(disk=str(disk), target=str(target), options=options, fill=fill)
    board = f"training.tensorboard={str(fill > 0).lower()}"
    lines = train(server, recipe, disk / "run", board, setup=setup)
    [error] = [line for line in lines if line.startswith("seq2seq:")]
    assert f"seq2seq: {disk}" in error
    assert f"{FULL}; fix that, then continue with: seq2seq train " in error
    [saved] = [line.split()[1:] for line in lines if line.startswith("first")]
    assert all(name.startswith("step-") for name in saved)
    assert_same(straight, target)


@pytest.mark.parametrize("size", [20_000, 100_000, 200_000])
def test_file_size_limit(
    server: Server, recipe: Path, straight: Path, tmp_path: Path, size: int
) -> None:
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
    lines = train(server, recipe, tmp_path / "run", setup=limit, code=1)
    assert "File too large; fix that" in lines[-1]
    assert list_checkpoints(tmp_path / "run/checkpoints") == []
    assert not list((tmp_path / "run/checkpoints").iterdir())
    train(server, recipe, tmp_path / "run", "--resume")
    assert_same(straight, tmp_path / "run")


def test_read_only_run(server: Server, recipe: Path, straight: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    crash = (
        "import os\nfrom seq2seq.training.trainer import Trainer\nupdate = Trainer.update\n"
        "def updated(self, batches):\n"
        "    if self.progress.step == 7: os.kill(os.getpid(), 9)\n"
        "    update(self, batches)\n"
        "Trainer.update = updated"
    )
    train(server, recipe, run, setup=crash, code=-signal.SIGKILL)
    frozen = (
        "import disks; from pathlib import Path; disks.own_mounts(); "
        f"disks.read_only(Path({str(run)!r}))"
    )
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    lines = train(server, recipe, run, "--resume", setup=frozen, code=2)
    assert f"seq2seq: run_dir: {run} cannot be written (Read-only file system)" in lines[-1]
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    train(server, recipe, run, "--resume")
    assert_same(straight, run)
