from __future__ import annotations

import multiprocessing
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from seq2seq.data.cache import Cache, Entry, open_cache
from seq2seq.errors import ConfigError, DataError


class Maker:
    """Fills a folder with two files and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, folder: Path) -> dict[str, Any]:
        self.calls += 1
        (folder / "rows").write_bytes(b"rows" * 100)
        (folder / "more").write_bytes(b"more")
        return {"call": self.calls}


def get(cache: Cache, kind: str, key: dict[str, Any], make: Any) -> Entry:
    return cache.entry(kind, key, make, lambda entry: entry)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def test_entry_is_made_once_for_its_ingredients(cache):
    make = Maker()
    first = get(cache, "ids", {"a": 1, "b": [2]}, make)
    assert (first.path / "rows").read_bytes() == b"rows" * 100
    assert first.about == {"call": 1}
    assert get(cache, "ids", {"b": [2], "a": 1}, make) == first
    assert get(Cache(cache.folder), "ids", {"a": 1, "b": [2]}, make) == first
    assert make.calls == 1
    assert get(cache, "ids", {"a": 1, "b": [3]}, make).path != first.path
    assert get(cache, "pairs", {"a": 1, "b": [2]}, make).path != first.path
    assert make.calls == 3
    assert "in 3 entries" in cache.summary()


def truncate(entry: Entry) -> None:
    os.truncate(entry.path / "rows", 399)


def flip(entry: Entry) -> None:
    (entry.path / "rows").write_bytes(b"rowz" * 100)


def lose(entry: Entry) -> None:
    (entry.path / "more").unlink()


def forget(entry: Entry) -> None:
    (entry.path / "about.json").unlink()


def scribble(entry: Entry) -> None:
    (entry.path / "about.json").write_text('{"files": {')


@pytest.mark.parametrize("damage", [truncate, flip, lose, forget, scribble])
def test_a_damaged_entry_is_made_again(cache, damage, caplog):
    make = Maker()
    entry = get(cache, "ids", {}, make)
    damage(entry)
    assert get(cache, "ids", {}, make).about == {"call": 2}
    assert (entry.path / "rows").read_bytes() == b"rows" * 100
    assert f"{entry.path} is damaged; rebuilding it" in caplog.text
    assert get(cache, "ids", {}, make).about == {"call": 2}


def test_failure_leaves_no_entry(cache):
    def fail(folder: Path) -> dict[str, Any]:
        (folder / "rows").write_text("half")
        raise DataError("line 7")

    with pytest.raises(DataError, match="line 7"):
        get(cache, "ids", {}, fail)
    assert [path.name for path in cache.folder.iterdir() if path.is_dir()] == []
    assert get(cache, "ids", {}, Maker()).about == {"call": 1}


def test_leftovers_of_a_crash_are_removed(cache):
    def crash(folder: Path) -> dict[str, Any]:
        (folder / "rows").write_text("half")
        os._exit(9)

    def crashed() -> None:
        get(cache, "ids", {"crashed": True}, crash)

    process = multiprocessing.get_context("fork").Process(target=crashed)
    process.start()
    process.join()
    [leftover] = cache.folder.glob(".*.partial")
    assert (leftover / "rows").exists()
    with cache._lock(leftover.name[1:].rsplit(".", 2)[0]):
        get(cache, "ids", {"other": 1}, Maker())
        assert leftover.exists()
    get(cache, "ids", {"other": 2}, Maker())
    assert not leftover.exists()
    assert get(cache, "ids", {"crashed": True}, Maker()).about == {"call": 1}


def test_leftovers_of_an_entry_are_removed_before_it_is_made_again(cache):
    make = Maker()
    leftover = cache.folder / f".{get(cache, 'ids', {}, make).path.name}.0123456789abcdef.partial"
    shutil.rmtree(get(cache, "ids", {}, make).path)
    leftover.mkdir()
    (leftover / "rows").write_text("half")

    def make_again(folder: Path) -> dict[str, Any]:
        assert not leftover.exists()
        return make(folder)

    assert get(cache, "ids", {}, make_again).about == {"call": 2}


def test_one_process_makes_an_entry_and_others_wait(cache, tmp_path):
    def make(folder: Path) -> dict[str, Any]:
        with (tmp_path / "made").open("a") as file:
            file.write("x")
        (folder / "rows").write_text("rows")
        time.sleep(0.5)
        return {"by": os.getpid()}

    def ask(number: int) -> None:
        entry = get(cache, "ids", {}, make)
        (tmp_path / f"answer-{number}").write_text(str(entry.about["by"]))

    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=ask, args=(number,)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(20)
    assert [process.exitcode for process in processes] == [0] * 4
    assert (tmp_path / "made").read_text() == "x"
    assert len({path.read_text() for path in tmp_path.glob("answer-*")}) == 1


def test_entry_that_is_deleted_before_it_is_read_is_made_again(cache):
    make = Maker()
    reads = []

    def read(entry: Entry) -> bytes:
        if len(reads) < 2:
            reads.append(entry.about["call"])
            shutil.rmtree(entry.path if len(reads) == 1 else cache.folder)
        return (entry.path / "rows").read_bytes()

    assert cache.entry("ids", {}, make, read) == b"rows" * 100
    assert (reads, make.calls) == ([1, 2], 3)


def test_error_of_reading_an_entry_that_was_deleted_is_not_raised(cache):
    def read(entry: Entry) -> int:
        if entry.about["call"] == 1:
            (entry.path / "more").unlink()
            raise DataError("damaged")
        return 7

    assert cache.entry("ids", {}, Maker(), read) == 7

    def fail(entry: Entry) -> int:
        raise DataError("not what was expected")

    with pytest.raises(DataError, match="not what was expected"):
        cache.entry("ids", {}, Maker(), fail)


def test_entry_that_is_deleted_while_it_is_made_is_made_again(cache):
    make = Maker()

    def made(folder: Path) -> dict[str, Any]:
        if not make.calls:
            make(folder)
            shutil.rmtree(cache.folder)
            raise DataError("no Arrow files")  # as a library may call what it misses
        return make(folder)

    assert get(cache, "ids", {}, made).about == {"call": 2}


def test_folder_that_is_deleted_again_and_again_is_an_error(cache):
    def make(folder: Path) -> dict[str, Any]:
        shutil.rmtree(cache.folder)
        return {}

    with pytest.raises(ConfigError, match=r"data\.cache: .*/ids-.* was deleted 5 times"):
        get(cache, "ids", {}, make)


def test_deleted_lock_lets_two_processes_make_an_entry(cache):
    context = multiprocessing.get_context("fork")
    started, going = context.Event(), context.Event()

    def make_slowly(folder: Path) -> dict[str, Any]:
        started.set()
        assert going.wait(20)
        return Maker()(folder)

    def ask() -> None:
        assert get(cache, "ids", {}, make_slowly).about == {"call": 1}

    process = context.Process(target=ask)
    process.start()
    assert started.wait(20)
    for lock in cache.folder.glob(".*.lock"):
        lock.unlink()
    assert get(cache, "ids", {}, Maker()).about == {"call": 1}
    going.set()
    process.join(20)
    assert process.exitcode == 0
    assert sorted(path.name for path in cache.folder.iterdir() if path.is_dir()) == [
        get(cache, "ids", {}, Maker()).path.name
    ]


def test_summary_while_the_cache_is_cleared(cache, monkeypatch):
    for number in range(3):
        get(cache, "ids", {"number": number}, Maker())
    real = os.stat

    def clear(path: Any, *arguments: Any, **keys: Any) -> os.stat_result:
        if str(path).endswith(("rows", "more")):
            shutil.rmtree(cache.folder, ignore_errors=True)
        return real(path, *arguments, **keys)

    monkeypatch.setattr(os, "stat", clear)
    assert "MB in" in cache.summary()
    assert "0.0 MB in 0 entries" in cache.summary()


def test_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert open_cache("auto").folder == tmp_path / "xdg/seq2seq"
    assert open_cache("~/mine").folder == tmp_path / "home/mine"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert open_cache("auto").folder == tmp_path / "home/.cache/seq2seq"


def test_temporary_cache_is_deleted_with_its_object():
    cache = open_cache(None)
    folder = get(cache, "ids", {}, Maker()).path
    assert folder.exists()
    del cache
    assert not folder.parent.exists()


def test_unwritable_folder(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"data\.cache: .*/file/x is not writable"):
        open_cache(str(tmp_path / "file/x"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert tmp_path not in open_cache("auto").folder.parents
    assert "using a temporary folder" in caplog.text


def test_full_disk_names_the_cache(cache):
    def full(folder: Path) -> dict[str, Any]:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left") as caught:
        get(cache, "ids", {}, full)
    assert caught.value.filename == str(cache.folder)
