"""Files and directories that are either complete or absent, and locks between processes.

Content is written under another name, synced, and renamed.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from filelock import lock_descriptor

from seq2seq.errors import DataError

_IS_WINDOWS = os.name == "nt"  # cannot open a folder, nor rename an open file


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a file so that neither a reader nor a crash at any moment sees half of it.

    Several processes may write the same file: the last one to finish wins. Partial files that
    killed processes left are deleted.
    """
    data = content.encode() if isinstance(content, str) else content
    _remove_partial_files(path)
    with naming(path), _open_partial(path) as file:
        partial = Path(file.name)
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if _IS_WINDOWS:
                file.close()
            partial.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
    sync_directory(path.parent)


def _open_partial(path: Path) -> BinaryIO:
    """Return a new file beside `path` to write; this process holds its lock until it is closed."""
    while True:
        name = f".{path.name}.{secrets.token_hex(8)}.partial"
        file = path.with_name(name).open("xb")  # "x": never follows a link
        with contextlib.suppress(OSError):  # a file system without locks
            lock_descriptor(file.fileno())
        if os.fstat(file.fileno()).st_nlink:  # otherwise deleted before it was locked
            return file
        file.close()


def _remove_partial_files(path: Path) -> None:
    """Delete files that _open_partial made for `path` in processes that have ended."""
    for partial in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        with contextlib.suppress(OSError):
            if partial.is_file() and not partial.is_symlink():
                with locked(partial, wait=False):
                    partial.unlink()


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a folder or a file; create the file if it does not exist.

    The system releases the lock however the process ends. Raises BlockingIOError if another
    process, or another caller in this one, holds the lock and `wait` is false. On Windows the lock
    of a folder is a file in it.
    """
    if _IS_WINDOWS and path.is_dir():
        path = path / ".folder.lock"
    flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags, 0o666)
    try:
        if not lock_descriptor(descriptor, blocking=wait):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def publish_directory(path: Path) -> Iterator[Path]:
    """Yield a directory to fill; on leaving, sync and rename it to `path`, or delete it on error.

    An existing directory is deleted once the new one is in place. A crash in between leaves the old
    one complete, under the name that `replaced` returns.
    """
    partial, before = path.with_name(f".{path.name}.partial"), replaced(path)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        yield partial
        for file in filter(Path.is_file, partial.rglob("*")):
            sync_file(file)
        sync_directory(partial)
        if path.exists():
            shutil.rmtree(before, ignore_errors=True)
            path.replace(before)
        partial.replace(path)
        sync_directory(path.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        if before.exists() and not path.exists():
            before.replace(path)
        raise
    if before.exists():
        with naming(before):
            shutil.rmtree(before)


def replaced(path: Path) -> Path:
    """Return the name of a directory while another one takes its place."""
    return path.with_name(f".{path.name}.replaced")


def before_replaced(path: Path) -> Path:
    """Return the name that a directory had before it got the one that `replaced` returns."""
    name = path.name
    is_replaced = name.startswith(".") and name.endswith(".replaced")
    return path.with_name(name[1:].removesuffix(".replaced")) if is_replaced else path


def remove_directory(path: Path) -> None:
    """Delete a directory if it exists; a crash leaves none that looks complete."""
    old = path.with_name(f".{path.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.replace(old)
        with naming(old):
            shutil.rmtree(old)


def check_writable(path: Path, *inputs: str | TextIO | None) -> None:
    """Raise DataError if no file can be written to `path`, before any work is done for it.

    A path that is also one of the inputs (a path or standard input) is refused: writing to it would
    destroy the input.
    """
    for given in (each for each in inputs if each is not None):
        with contextlib.suppress(OSError, ValueError):  # missing, or not a file of the system
            found = given if isinstance(given, str) else given.fileno()
            if path.is_file() and os.path.samefile(path, found):
                name = given if isinstance(given, str) else "standard input"
                raise DataError(f"{path}: would overwrite {name}; choose another file to write to")
    with _refusing(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if path.is_file() or not path.exists():  # otherwise a pipe or a device
            tempfile.TemporaryFile(dir=path.parent).close()


def make_folder(path: Path) -> None:
    """Create a folder for output; raise DataError if it, or a file in it, cannot be written."""
    with _refusing(path):
        path.mkdir(parents=True, exist_ok=True)
    check_writable(path / "file")


@contextlib.contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written ({error.strerror}); choose another path"
        ) from None


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the path to an OSError that lacks it.

    Errors on an open file have no name, and those on a file in an open directory lack its folder.
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
    """Sync a file's content to disk."""
    with naming(path), path.open("rb+" if _IS_WINDOWS else "rb") as file:
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Sync a directory's entries to disk; Windows has no call for this."""
    if _IS_WINDOWS:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with naming(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
