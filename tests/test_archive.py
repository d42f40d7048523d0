"""One member of an archive, whatever the archive says of itself."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import resource
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from corpora.tatoeba import download as archive
from corpora.tatoeba.download import is_archive, open_member
from seq2seq.data import corpus
from seq2seq.errors import DataError

TEXT = "".join(f"Sentence {n}.\tFrase {n}.\tCC-BY 2.0 #{n}\n" for n in range(40))
PACK: dict[str, Callable[[bytes], bytes]] = {
    ".tar": bytes, ".gz": gzip.compress, ".tgz": gzip.compress, ".bz2": bz2.compress,
    ".xz": lzma.compress,
}  # fmt: skip

SCRIPTS = os.pathsep.join(str(Path(__file__).parents[1] / name) for name in ("scripts", "."))


def zipped(path: Path, members: Sequence[tuple[str, str | bytes]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in members:
            bundle.writestr(name, content)
    return path


def tarred(path: Path, members: Sequence[tuple[str, str | bytes | tarfile.TarInfo]]) -> Path:
    """Write a tar archive, compressed as its name says; a TarInfo is written as it is."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as bundle:
        for name, content in members:
            if isinstance(content, tarfile.TarInfo):
                content.name = name
                bundle.addfile(content)
                continue
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(data)
            bundle.addfile(info, io.BytesIO(data))
    path.write_bytes(PACK[path.suffix](buffer.getvalue()))
    return path


def unzip(path: Path) -> bytes:
    assert is_archive(path)
    with open_member(path, "spa.txt") as stream:
        return stream.read()


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tgz", "tar.bz2", "tar.xz"])
@pytest.mark.parametrize(
    "name", ["spa.txt", "spa-eng/spa.txt", "../../evil/spa.txt", "/tmp/spa.txt", "a\\spa.txt"]
)
def test_member_is_read_and_nothing_is_written(tmp_path: Path, kind: str, name: str) -> None:
    folder = tmp_path / "a/b/c"
    folder.mkdir(parents=True)
    pack = zipped if kind == "zip" else tarred
    path = pack(folder / f"a.{kind}", [("_about.txt", "about"), (name, TEXT), ("z", "z" * 9999)])
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


@examples(60)
@given(
    st.sampled_from(["zip", "tar", "tar.gz", "tar.bz2", "tar.xz"]),
    st.lists(st.tuples(st.integers(0, 2500), st.integers(0, 9), st.binary(max_size=9)), max_size=4),
    st.booleans(),
)
def test_any_damage_is_an_error_or_the_member(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    changes: list[tuple[int, int, bytes]],
    inside: bool,
) -> None:
    """Damage to the archive, or inside of its compression; then a checksum cannot tell."""
    folder = tmp_path_factory.mktemp("archive")
    members = [("a/_about.txt", "about"), ("a/spa.txt", TEXT)]
    inner = folder / f"a.{'tar' if inside and kind != 'zip' else kind}"
    raw = bytearray((zipped if kind == "zip" else tarred)(inner, members).read_bytes())
    for start, removed, added in changes:
        raw[start : start + removed] = added
    path = folder / f"b.{kind}"
    path.write_bytes(PACK[path.suffix](bytes(raw)) if inner.suffix == ".tar" else raw)
    with contextlib.suppress(DataError):
        assert changes or unzip(path) == TEXT.encode()
        assert len(unzip(path)) <= len(raw) * 100
    assert sorted(entry.name for entry in folder.iterdir()) == sorted({inner.name, path.name})


def special(kind: bytes, link: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo()
    info.type, info.linkname, info.size = kind, link, size
    return info


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_of_a_tar_are_refused(tmp_path: Path, kind: bytes) -> None:
    (tmp_path / "secret").write_text(TEXT)
    link = special(kind, link=str(tmp_path / "secret"))
    path = tarred(tmp_path / "a.tar", [("spa.txt", link)])
    with pytest.raises(DataError, match=r"'spa.txt' is a link or a device, not a file"):
        unzip(path)
    beside = special(kind, link="/etc/passwd", size=0)
    path = tarred(tmp_path / "b.tgz", [("x", beside), ("spa.txt", TEXT), ("y", beside)])
    assert unzip(path) == TEXT.encode()


def test_a_tar_must_have_the_member_once(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no members are called spa.txt.*'fra.txt'"):
        unzip(tarred(tmp_path / "a.tar.gz", [("fra.txt", TEXT)]))
    with pytest.raises(DataError, match=r"2 members are called spa.txt.*'a/spa.txt', 'b/spa.txt'"):
        unzip(tarred(tmp_path / "b.tar.gz", [("a/spa.txt", TEXT), ("b/spa.txt", TEXT)]))


def test_long_names_and_extended_headers_are_passed_over(tmp_path: Path) -> None:
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT):
        path = tmp_path / "a.tar"
        with tarfile.open(path, "w", format=form) as bundle:
            for name in ("ñ" * 20 + "x" * (10 if form == tarfile.USTAR_FORMAT else 200), "spa.txt"):
                info = tarfile.TarInfo(name)
                info.size = len(TEXT)
                info.mtime = 1.5 if form == tarfile.PAX_FORMAT else 1
                bundle.addfile(info, io.BytesIO(TEXT.encode()))
        assert unzip(path) == TEXT.encode()


@pytest.mark.parametrize("damage", ["text", "cut", "within", "data", "size", "sparse", "empty"])
@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.bz2", "tar.xz"])
def test_damaged_tars(tmp_path: Path, kind: str, damage: str) -> None:
    path = tarred(tmp_path / f"a.{kind}", [("spa.txt", os.urandom(30_000))])
    raw = bytearray(path.read_bytes())
    if damage == "text":
        raw = bytearray(b"<html>blocked</html>" * 100)
    elif damage == "cut":
        raw = raw[: 300 if kind == "tar" else len(raw) - 9]
    elif damage == "within":
        raw = raw[:20_000]
    elif damage == "data":
        raw[100] ^= 0xFF
    elif damage == "empty":
        raw = bytearray()
    elif damage in ("size", "sparse"):
        info = special(tarfile.GNUTYPE_SPARSE) if damage == "sparse" else special(b"0", size=-600)
        raw = bytearray(tarred(path, [("x", info), ("spa.txt", TEXT)]).read_bytes())
    path.write_bytes(raw)
    with pytest.raises(
        DataError, match=r"a\.tar.*(damaged, or not a tar|cannot be read|no members)"
    ):
        unzip(path)


@pytest.mark.parametrize("kind", ["tar.gz", "tar.bz2", "tar.xz"])
def test_tar_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(corpus, "FREE_BYTES", 1_000_000)
    path = tarred(tmp_path / f"a.{kind}", [("spa.txt", b"0" * 9_000_000)])
    with pytest.raises(DataError, match="unpacks to more than 100 times its size"):
        unzip(path)
    monkeypatch.setattr(archive, "MAX_BYTES", 5000)
    path = tarred(tmp_path / f"b.{kind}", [("spa.txt", os.urandom(6000))])
    with pytest.raises(DataError, match="more than the limit of 5000 bytes"):
        unzip(path)


def test_huge_headers_are_refused(tmp_path: Path) -> None:
    """tarfile itself would read such a header whole: here 200 MB, with less memory than that."""
    for number, kind in enumerate((tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE)):
        path = tmp_path / f"{number}.tar"
        path.write_bytes(special(kind, size=200_000_000).tobuf(tarfile.GNU_FORMAT))
        os.truncate(path, 200_010_240)  # a hole: it takes no room
    code = (
        "import sys, pathlib; from corpora.tatoeba.download import open_member\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n        with open_member(pathlib.Path(path), 'spa.txt'): pass\n"
        "    except Exception as error: print(type(error).__name__, error)"
    )
    command = [sys.executable, "-c", code, *map(str, sorted(tmp_path.iterdir()))]
    found = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": SCRIPTS},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (150_000_000, 150_000_000)),
    )  # fmt: skip
    assert found.stdout.count("DataError") == 3, found.stdout + found.stderr
    assert found.stdout.count("a header of 200000000 bytes") == 3


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
