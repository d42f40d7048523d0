from __future__ import annotations

import os
from pathlib import Path

import pytest

from seq2seq.errors import DataError
from seq2seq.files import (
    check_writable,
    publish_directory,
    publish_files,
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


def test_write_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".a.partial").symlink_to(tmp_path / "mine")
    write_atomic(tmp_path / "a", "new")
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "a").read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["a", "mine"]


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
