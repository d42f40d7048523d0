from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corpora.publishing import publish_files
from seq2seq.errors import DataError
from seq2seq.files import (
    check_writable,
    locked,
    publish_directory,
    remove_directory,
    sha256,
    write_atomic,
)


def test_write_atomic_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomic(path, "eñe\n")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["a"]


def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    write_atomic(path, "old")

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_write_does_not_follow_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".a.guessed.partial").symlink_to(tmp_path / "mine")
    write_atomic(tmp_path / "a", "new")
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    with pytest.raises(FileExistsError):
        write_atomic(tmp_path / "a", "newer")
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "a").read_text() == "new"


FORK = multiprocessing.get_context("fork")


def fork(function: Callable[..., None], *arguments: Any) -> Any:
    """Return a started process."""
    process = FORK.Process(target=function, args=arguments)
    process.start()
    return process


def exit_code(process: Any) -> int | None:
    process.join(30)
    code: int | None = process.exitcode
    return code


def write_often(path: Path, letter: str, start: Any) -> None:
    start.wait(30)
    for _ in range(100):
        write_atomic(path, letter * 50_000)


def test_two_processes_write_one_file(tmp_path: Path) -> None:
    """Neither fails, and at any time the file is complete and one of both."""
    path, start = tmp_path / "a", FORK.Barrier(3)
    writers = [fork(write_often, path, letter, start) for letter in "xy"]
    start.wait(30)
    while any(writer.is_alive() for writer in writers):
        if path.exists():
            assert path.read_text() in ("x" * 50_000, "y" * 50_000)
    assert [exit_code(writer) for writer in writers] == [0, 0]
    assert os.listdir(tmp_path) == ["a"]


def write_and_wait(path: Path, at_disk: Any, go_on: Any) -> None:
    """Write a file; wait before it is flushed to disk."""
    sync = os.fsync

    def waiting(descriptor: int) -> None:
        at_disk.set()
        assert go_on.wait(30)
        sync(descriptor)

    os.fsync = waiting
    write_atomic(path, "slow")


@pytest.mark.parametrize("killed", [False, True])
def test_only_a_dead_process_loses_its_partial_file(tmp_path: Path, killed: bool) -> None:
    path, at_disk, go_on = tmp_path / "a", FORK.Event(), FORK.Event()
    slow = fork(write_and_wait, path, at_disk, go_on)
    assert at_disk.wait(30)
    if killed:
        slow.kill()
        slow.join(30)
    else:
        write_atomic(tmp_path / "b", "another file")
    assert len(list(tmp_path.glob(".a.*.partial"))) == 1
    write_atomic(path, "quick")
    assert path.read_text() == "quick"
    assert len(list(tmp_path.glob(".a.*.partial"))) == (not killed)
    if not killed:  # set() would wait for ever for a dead process that has waited
        go_on.set()
    assert exit_code(slow) == (-signal.SIGKILL if killed else 0)
    assert path.read_text() == ("quick" if killed else "slow")
    assert not list(tmp_path.glob(".*"))


def hold(path: Path, held: Any, release: Any) -> None:
    with locked(path):
        held.set()
        release.wait(30)


@pytest.mark.parametrize("name", ["file", "folder"])
@pytest.mark.parametrize("killed", [False, True])
def test_lock_is_held_until_its_process_releases_it_or_dies(
    tmp_path: Path, name: str, killed: bool
) -> None:
    path, held, release = tmp_path / name, FORK.Event(), FORK.Event()
    if name == "folder":
        path.mkdir()
    owner = fork(hold, path, held, release)
    assert held.wait(30)
    with pytest.raises(BlockingIOError), locked(path, wait=False):
        pass
    entered = FORK.Event()
    waiting = fork(hold, path, entered, FORK.Event())
    time.sleep(0.2)
    assert not entered.is_set()
    if killed:
        owner.kill()
    else:
        release.set()
    assert entered.wait(30)
    waiting.kill()
    waiting.join(30)
    with locked(path, wait=False), pytest.raises(BlockingIOError), locked(path, wait=False):
        pass
    assert exit_code(owner) == (-signal.SIGKILL if killed else 0)


def test_publish_files_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b").write_text("old")
    with publish_files(tmp_path) as aside:
        (aside / "a").write_text("1")
        (aside / "b").write_text("2")
        assert (tmp_path / "b").read_text() == "old"
    assert [(tmp_path / name).read_text() for name in "ab"] == ["1", "2"]

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"), publish_files(tmp_path) as aside:
        (aside / "b").write_text("3")
    assert (tmp_path / "b").read_text() == "2"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_published_files_replace_what_a_killed_process_left(tmp_path: Path) -> None:
    (tmp_path / ".partial").mkdir()
    (tmp_path / ".partial/stale").write_text("")
    with publish_files(tmp_path) as aside:
        (aside / "a").write_text("1")
    assert os.listdir(tmp_path) == ["a"]


def test_check_writable_refuses_unwritable_paths(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("as it was")
    for path in (tmp_path / "there", tmp_path / "new", Path("/dev/null")):
        check_writable(path)
    for path, words in (
        (tmp_path, "Is a directory"),
        (tmp_path / "none/new", "No such file or directory"),
        (tmp_path / "there/new", "Not a directory"),
        (tmp_path / ("n" * 300), "File name too long"),
    ):
        with pytest.raises(DataError, match=rf"cannot be written \({words}\)"):
            check_writable(path)
    assert (tmp_path / "there").read_text() == "as it was"
    assert os.listdir(tmp_path) == ["there"]


def test_publish_directory_appears_only_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "d"
    with publish_directory(path) as aside:
        (aside / "x").write_text("1")
        assert not path.exists()
    assert (path / "x").read_text() == "1"
    with pytest.raises(IsADirectoryError), publish_directory(path) as aside:
        aside.write_text("2")
    assert (path / "x").read_text() == "1"
    with publish_directory(path) as aside:
        (aside / "y").write_text("3")
    assert os.listdir(path) == ["y"]
    assert os.listdir(tmp_path) == ["d"]


def test_directory_whose_replacement_fails_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, replace = tmp_path / "d", Path.replace
    path.mkdir()
    (path / "x").write_text("1")

    def failing(self: Path, target: Path) -> Path:
        if self.name == ".d.partial":
            raise OSError(28, "No space left on device", str(self))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(OSError, match="No space"), publish_directory(path) as aside:
        (aside / "y").write_text("2")
    assert os.listdir(tmp_path) == ["d"]
    assert os.listdir(path) == ["x"]


def test_leftovers_of_a_crash_are_replaced(tmp_path: Path) -> None:
    (tmp_path / ".d.partial").mkdir()
    (tmp_path / ".d.partial" / "stale").write_text("")
    (tmp_path / ".d.old").mkdir()
    with publish_directory(tmp_path / "d") as aside:
        (aside / "x").write_text("1")
    assert os.listdir(tmp_path / "d") == ["x"]
    remove_directory(tmp_path / "d")
    remove_directory(tmp_path / "d")
    assert os.listdir(tmp_path) == []


def test_sha256_known_value(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
