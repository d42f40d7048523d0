from __future__ import annotations

import os
from pathlib import Path

import pytest

from seq2seq.files import publish_directory, remove_directory, sha256, write_atomic


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomic(path, "eñe\n")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["a"]


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    write_atomic(path, "old")

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_directory_appears_only_when_it_is_whole(tmp_path: Path) -> None:
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


def test_what_a_crash_left_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".d.partial").mkdir()
    (tmp_path / ".d.partial" / "stale").write_text("")
    (tmp_path / ".d.old").mkdir()
    with publish_directory(tmp_path / "d") as aside:
        (aside / "x").write_text("1")
    assert os.listdir(tmp_path / "d") == ["x"]
    remove_directory(tmp_path / "d")
    remove_directory(tmp_path / "d")
    assert os.listdir(tmp_path) == []


def test_checksums_are_those_of_the_standard(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
