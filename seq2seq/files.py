"""Files that are either whole or not there: written aside, flushed to disk, renamed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from seq2seq.errors import DataError


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a file so that a reader, or a crash at any moment, never sees half of it."""
    data = content.encode() if isinstance(content, str) else content
    aside = path.with_name(f".{path.name}.partial")
    aside.unlink(missing_ok=True)
    try:
        # Never through a link that someone laid there.
        with naming(path), aside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


@contextlib.contextmanager
def publish_directory(path: Path) -> Iterator[Path]:
    """Yield a directory to fill; on leaving, flush it and give it its name, or remove it.

    What had the name before goes once the new one has it; an end between the two leaves it whole
    under the name that `replaced` returns.
    """
    aside, before = path.with_name(f".{path.name}.partial"), replaced(path)
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir(parents=True)
        yield aside
        for file in aside.iterdir():
            sync_file(file)
        sync_directory(aside)
        if path.exists():
            shutil.rmtree(before, ignore_errors=True)
            path.replace(before)
        aside.replace(path)
        sync_directory(path.parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    if before.exists():
        with naming(before):
            shutil.rmtree(before)


def replaced(path: Path) -> Path:
    """Return where a directory is while another one takes its name."""
    return path.with_name(f".{path.name}.replaced")


@contextlib.contextmanager
def publish_files(directory: Path) -> Iterator[Path]:
    """Yield a directory to fill; on leaving, flush its files and move them into the one given.

    No file gets its name before all of them are on disk; on an error none does.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".partial-") as aside:
        yield Path(aside)
        files = sorted(Path(aside).iterdir())
        for file in files:
            sync_file(file)
        for file in files:
            file.replace(directory / file.name)
    sync_directory(directory)


def check_writable(path: Path) -> None:
    """Raise DataError where no file can be written under this name, before work is done for it."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if path.is_file() or not path.exists():  # else a pipe or a device
            tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written ({error.strerror}); choose another path"
        ) from None


def make_folder(path: Path) -> None:
    """Make a folder for what is going to be written, before work is done for it.

    Raises DataError where it, or a file in it, cannot be.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written ({error.strerror}); choose another path"
        ) from None
    check_writable(path / "file")


def remove_directory(path: Path) -> None:
    """Delete a directory, if it is there; a crash on the way leaves none that looks whole."""
    aside = path.with_name(f".{path.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    if path.exists():
        path.replace(aside)
        with naming(aside):
            shutil.rmtree(aside)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the path into an OSError without one.

    Of an open file the system knows no name, and in an open directory the last part of it only.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and os.sep not in str(error.filename):
            error.filename = str(path)
        raise


def sha256(path: Path) -> str:
    """Return the checksum of a file in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def sync_file(path: Path) -> None:
    """Flush a file's bytes to disk."""
    with naming(path), path.open("rb") as file:
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Flush a directory's names to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with naming(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
