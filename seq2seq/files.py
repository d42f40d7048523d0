"""Files that are either whole or not there: written aside, flushed to disk, renamed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a file so that a reader, or a crash at any moment, never sees half of it."""
    data = content.encode() if isinstance(content, str) else content
    aside = path.with_name(f".{path.name}.partial")
    try:
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


@contextlib.contextmanager
def publish_directory(path: Path) -> Iterator[Path]:
    """Yield a directory to fill; on leaving, flush it and give it its name, or remove it."""
    aside = path.with_name(f".{path.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        yield aside
        for file in aside.iterdir():
            sync_file(file)
        sync_directory(aside)
        remove_directory(path)
        aside.replace(path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    sync_directory(path.parent)


def remove_directory(path: Path) -> None:
    """Delete a directory, if it is there; a crash on the way leaves none that looks whole."""
    if path.exists():
        aside = path.with_name(f".{path.name}.old")
        shutil.rmtree(aside, ignore_errors=True)
        path.replace(aside)
        shutil.rmtree(aside)


def sha256(path: Path) -> str:
    """Return the checksum of a file in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def sync_file(path: Path) -> None:
    """Flush a file's bytes to disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Flush a directory's names to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
