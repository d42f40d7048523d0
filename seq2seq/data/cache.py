"""The user's cache: entries made once, named by what they depend on, shared by processes.

It holds prepared data and the ONNX graphs for translation. Nothing is deleted automatically.

The cache of the library `datasets` would not do: it does not notice damaged files, and has no lock
for two processes that need the same result.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from seq2seq.errors import ConfigError, UserError
from seq2seq.files import locked, naming, sync_directory, sync_file

T = TypeVar("T")

log = logging.getLogger(__name__)

_ABOUT = "about.json"
_ATTEMPTS = 5  # to make an entry while someone clears the cache


@dataclass(frozen=True)
class Entry:
    """A folder of the cache, and what was recorded about it when it was made."""

    path: Path
    about: dict[str, Any]


class DamagedEntryError(UserError):
    """A file of an entry cannot be used, although its size and time have not changed."""


class Cache:
    """Folders named by a hash of their key: everything that their content depends on.

    An entry is complete or absent. Leftovers of a crash are deleted, and damaged entries are made
    again. Several processes may ask for the same entry: one makes it, the others wait. Anyone may
    delete the folder, or what is in it, at any time.
    """

    def __init__(self, folder: Path | None) -> None:
        """Use a folder, or a temporary one that is deleted with the object."""
        if folder is None:
            self._owner = tempfile.TemporaryDirectory(prefix="seq2seq-", ignore_cleanup_errors=True)
        self.folder = folder or Path(self._owner.name)

    def entry(
        self,
        kind: str,
        key: dict[str, Any],
        make: Callable[[Path], dict[str, Any]],
        read: Callable[[Entry], T],
    ) -> T:
        """Return the result of `read` for the entry with this key; `make` fills a new entry.

        The dict that `make` returns is kept with the entry, as JSON. An entry that is deleted while
        it is made, or before `read` has opened its files, is made again: `make` and `read` raise
        FileNotFoundError if a file is missing. An entry for which `read` raises DamagedEntryError
        is made again once. Raises OSError, naming a path, if a new entry cannot be written.
        """
        path = self.folder / f"{kind}-{_hash(key)}"
        try:
            try:
                return _try_again(lambda: self._use(path, make, read))
            except DamagedEntryError:
                log.warning("cache: %s is damaged; rebuilding it", path)
                self._discard(path)
                return _try_again(lambda: self._use(path, make, read))
        except FileNotFoundError as error:
            raise ConfigError(
                f"data.cache: {path} was deleted {_ATTEMPTS} times while it was made; name another "
                "folder"
            ) from error

    def summary(self) -> str:
        """Return the cache's folder and size in one line, and how to clear it."""
        number = size = 0
        for folder, _, names in os.walk(self.folder):  # passes over what was just deleted
            if _ABOUT in names and not os.path.basename(folder).startswith("."):
                number += 1
                for name in names:
                    with contextlib.suppress(FileNotFoundError):
                        size += os.stat(os.path.join(folder, name)).st_size
        return (
            f"cache: {self.folder}, {size / 1e6:.1f} MB in {number} entries; delete the folder to "
            "clear it"
        )

    def _use(
        self, path: Path, make: Callable[[Path], dict[str, Any]], read: Callable[[Entry], T]
    ) -> T:
        """Make an entry if need be, and read it; raise FileNotFoundError if it is being deleted."""
        found = _intact(path)
        if found is None:
            with self._lock(path.name), naming(self.folder):
                found = _intact(path) or self._make(path, make)
        try:
            return read(found)
        except FileNotFoundError:
            self._discard(path)
            raise
        except Exception as error:
            if _intact(path) is None:
                raise _deleted(path) from error
            raise

    def _make(self, path: Path, make: Callable[[Path], dict[str, Any]]) -> Entry:
        """Fill a folder with a unique name, then rename it to the entry.

        If someone deletes the lock, two processes can make the same entry.
        """
        self._remove_leftovers(path.name)
        if path.exists():
            log.warning("cache: %s is damaged; rebuilding it", path)
        unfinished = self._unfinished(path)
        unfinished.mkdir()
        try:
            about = make(unfinished)
            files = {file.name: _status(file) for file in unfinished.iterdir()}
            text = json.dumps({"files": files, "about": about}, indent=1)
            (unfinished / _ABOUT).write_text(text)
            for file in unfinished.iterdir():
                sync_file(file)
            sync_directory(unfinished)
            found = _intact(path)
            if found is None:
                self._discard(path)
                unfinished.rename(path)
                sync_directory(self.folder)
        except Exception as error:
            if not unfinished.exists() or _intact(path):  # deleted, or another process was faster
                raise _deleted(path) from error
            raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return found or Entry(path, about)

    def check_writable(self) -> None:
        """Create the folder. Raises OSError if it is not writable."""
        _try_again(self._create)

    def _create(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=self.folder).close()

    def _unfinished(self, path: Path) -> Path:
        """Return a new name for an entry that is being made or deleted."""
        return self.folder / f".{path.name}.{secrets.token_hex(8)}.partial"

    def _discard(self, path: Path) -> None:
        """Delete an entry; nobody sees it with only some of its files."""
        unfinished = self._unfinished(path)
        with contextlib.suppress(FileNotFoundError):
            path.rename(unfinished)
            shutil.rmtree(unfinished, ignore_errors=True)

    def _remove_leftovers(self, own: str) -> None:
        """Delete unfinished entries that no process is making any more.

        `own` is the name of the entry whose lock the caller holds.
        """
        for name in os.listdir(self.folder):
            if name.startswith(".") and name.endswith(".partial"):
                entry = name[1:].rsplit(".", 2)[0]
                with contextlib.suppress(BlockingIOError), contextlib.ExitStack() as stack:
                    if entry != own:
                        stack.enter_context(self._lock(entry, wait=False))
                    shutil.rmtree(self.folder / name, ignore_errors=True)

    @contextlib.contextmanager
    def _lock(self, name: str, *, wait: bool = True) -> Iterator[None]:
        """Hold the lock of a name; the system releases it when the process ends."""
        path = self.folder / f".{name}.lock"
        self.folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked(path, wait=False))
            except BlockingIOError:
                if not wait:
                    raise
                log.info("waiting for another process that is building %s", self.folder / name)
                stack.enter_context(locked(path))
            yield


def open_cache(setting: str | None) -> Cache:
    """Return the cache of `data.cache`: a folder, 'auto', or None for a temporary one.

    Raises ConfigError if a folder named by the user is not writable.
    """
    if setting is None:
        return Cache(None)
    folder = user_folder() if setting == "auto" else Path(setting).expanduser()
    cache = Cache(folder)
    try:
        cache.check_writable()
    except OSError as error:
        found = f"data.cache: {folder} is not writable ({error.strerror})"
        if setting != "auto":
            raise ConfigError(f"{found}; name another folder, or null") from None
        log.warning("%s; using a temporary folder", found)
        return Cache(None)
    return cache


def user_folder() -> Path:
    """Return the folder of the user's cache. Raises ConfigError if there is no home directory."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(home).expanduser() / "seq2seq"
    except RuntimeError:
        raise ConfigError("no home directory to cache in; set XDG_CACHE_HOME") from None


def _hash(key: Any) -> str:
    """Return a short hash of anything that JSON can hold."""
    text = json.dumps(key, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _try_again(action: Callable[[], T]) -> T:
    """Return the result of a function; call it again if a file was deleted meanwhile."""
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(FileNotFoundError):
            return action()
    return action()


def _deleted(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _intact(path: Path) -> Entry | None:
    """Return the entry if its files still have the sizes and times they were made with."""
    try:
        found = json.loads((path / _ABOUT).read_bytes())
        intact = all(_status(path / name) == status for name, status in found["files"].items())
        return Entry(path, found["about"]) if intact else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _status(file: Path) -> list[int]:
    status = file.stat()
    return [status.st_size, status.st_mtime_ns]
