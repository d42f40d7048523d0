"""One member of an archive, whatever the archive says of itself."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from seq2seq.data import archive
from seq2seq.data.archive import open_member
from seq2seq.errors import DataError

TEXT = "".join(f"Sentence {n}.\tFrase {n}.\tCC-BY 2.0 #{n}\n" for n in range(40))


def zipped(path: Path, members: Sequence[tuple[str, str | bytes]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in members:
            bundle.writestr(name, content)
    return path


def unzip(path: Path) -> bytes:
    with open_member(path, "spa.txt") as stream:
        return stream.read()


@pytest.mark.parametrize(
    "name", ["spa.txt", "spa-eng/spa.txt", "../../evil/spa.txt", "/tmp/spa.txt", "a\\spa.txt"]
)
def test_member_is_read_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "a/b/c"
    folder.mkdir(parents=True)
    path = zipped(folder / "a.zip", [("_about.txt", "about"), (name, TEXT)])
    assert unzip(path) == TEXT.encode()
    files = [entry for entry in tmp_path.rglob("*") if entry.is_file()]
    assert files == [path]


def test_member_must_be_one(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", [("fra.txt", TEXT), ("spa.txt/", "")])
    with pytest.raises(DataError, match=r"no members are called spa.txt.*'fra.txt'"):
        unzip(path)
    path = zipped(tmp_path / "b.zip", [("a/spa.txt", TEXT), ("b/spa.txt", TEXT)])
    with pytest.raises(DataError, match=r"2 members are called spa.txt.*'a/spa.txt', 'b/spa.txt'"):
        unzip(path)


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "a.zip", [("spa.txt", b"0" * 5_000_000)])
    with pytest.raises(DataError, match="to 5000000 bytes: over the limit"):
        unzip(path)
    monkeypatch.setattr(archive, "MAX_BYTES", 100)
    with pytest.raises(DataError, match="over the limit of 100 bytes"):
        unzip(zipped(tmp_path / "b.zip", [("spa.txt", TEXT)]))


def test_a_bomb_that_declares_a_small_size_is_cut(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", [("spa.txt", b"0" * 5_000_000)])
    raw = path.read_bytes()
    size, small = (5_000_000).to_bytes(4, "little"), (200).to_bytes(4, "little")
    assert raw.count(size) == 2
    path.write_bytes(raw.replace(size, small))
    with pytest.raises(DataError, match="damaged"):
        unzip(path)


@pytest.mark.parametrize("damage", ["text", "cut", "data", "encrypted", "bzip2", "missing"])
def test_damaged_archives(tmp_path: Path, damage: str) -> None:
    path = zipped(tmp_path / "a.zip", [("spa.txt", os.urandom(3000))])
    raw = bytearray(path.read_bytes())
    if damage == "text":
        raw = bytearray(b"<html>blocked</html>")
    elif damage == "cut":
        raw = raw[:2000]
    elif damage == "data":
        raw[1500] ^= 0xFF
    elif damage == "encrypted":
        raw[raw.rindex(b"PK\x01\x02") + 8] |= 1
    elif damage == "bzip2":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_BZIP2) as bundle:
            bundle.writestr("spa.txt", TEXT)
        raw = bytearray(buffer.getvalue())
    path.write_bytes(raw)
    if damage == "missing":
        path.unlink()
    words = {"encrypted": "is encrypted", "bzip2": "neither stored", "missing": "cannot be read"}
    with pytest.raises(DataError, match=words.get(damage, "damaged, or not a zip")):
        unzip(path)
