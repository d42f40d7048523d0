"""The cache of prepared data: entries made once, named by what they depend on, shared by processes.

The library's own cache knows neither damage nor two processes that want the same result of a map;
this one wraps what the library writes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from seq2seq.errors import ConfigError
from seq2seq.files import locked, publish_directory, sha256, write_atomic

log = logging.getLogger(__name__)

_ABOUT = "about.json"
_CHECKSUMS = "checksums.json"
_SETTLED = 2.0  # seconds; a younger file could change again without a new modification time


@dataclass(frozen=True)
class Entry:
    """A folder of the cache, and what its maker recorded about it."""

    path: Path
    about: dict[str, Any]


class Cache:
    """Folders named by a digest of everything that their content depends on.

    An entry is complete or absent. Leftovers of a crash and damaged entries are made again. Several
    processes may ask for the same entry: one makes it, the others wait.
    """

    def __init__(self, folder: Path) -> None:
        """Use a folder; raises OSError where it is not writable."""
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        self.folder = folder

    def entry(
        self, kind: str, made_of: dict[str, Any], make: Callable[[Path], dict[str, Any]]
    ) -> Entry:
        """Return the entry for these ingredients; if there is none, `make` fills its folder.

        The dict that `make` returns is kept with the entry, as JSON. Raises ConfigError where the
        folder is not writable.
        """
        path = self.folder / f"{kind}-{digest(made_of)}"
        found = _intact(path)
        if found is None:
            try:
                with self._lock(path.name):
                    found = _intact(path) or self._make(path, make)
            except OSError as error:
                raise ConfigError(
                    f"data.cache: {self.folder} cannot be used ({error.strerror or error}); fix "
                    "that, or name another folder"
                ) from error
        return found

    def checksum(self, path: Path) -> str:
        """Return the SHA-256 of a file, which is read again only after it has changed."""
        status = path.stat()
        key = f"{path.resolve()}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
        memo = self.folder / _CHECKSUMS
        known = _read_json(memo).get(key)
        if isinstance(known, str):
            return known
        found = sha256(path)
        if time.time() - status.st_mtime > _SETTLED:
            # While another process writes one, this one is not noted: it would only be read again.
            with contextlib.suppress(OSError), self._lock(memo.name, wait=False):
                write_atomic(memo, json.dumps(_read_json(memo) | {key: found}, indent=1))
        return found

    def summary(self) -> str:
        """Return the cache's folder and size in one line, and how to clear it."""
        entries = [about.parent for about in self.folder.glob(f"[!.]*/{_ABOUT}")]
        size = sum(file.stat().st_size for entry in entries for file in entry.iterdir())
        return (
            f"cache: {self.folder}, {size / 1e6:.1f} MB in {len(entries)} entries; delete the "
            "folder to clear it"
        )

    def _make(self, path: Path, make: Callable[[Path], dict[str, Any]]) -> Entry:
        self._remove_leftovers()
        if path.exists():
            log.warning("cache: %s is damaged; making it again", path)
        with publish_directory(path) as aside:
            about = make(aside)
            files = {file.name: _status(file) for file in aside.iterdir()}
            (aside / _ABOUT).write_text(json.dumps({"files": files, "about": about}, indent=1))
        return Entry(path, about)

    def _remove_leftovers(self) -> None:
        """Delete unfinished entries that no process is making any more."""
        for leftover in self.folder.glob(".*.partial"):
            name = leftover.name[1 : -len(".partial")]
            with contextlib.suppress(BlockingIOError), self._lock(name, wait=False):
                shutil.rmtree(leftover, ignore_errors=True)

    @contextlib.contextmanager
    def _lock(self, name: str, *, wait: bool = True) -> Iterator[None]:
        """Hold the lock of a name; the system releases it when the process ends."""
        path = self.folder / f".{name}.lock"
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked(path, wait=False))
            except BlockingIOError:
                if not wait:
                    raise
                log.info("waiting for another process that is making %s", self.folder / name)
                stack.enter_context(locked(path))
            yield


class TemporaryCache(Cache):
    """A cache that is deleted with the object."""

    def __init__(self) -> None:
        self._owner = tempfile.TemporaryDirectory(prefix="seq2seq-", ignore_cleanup_errors=True)
        super().__init__(Path(self._owner.name))


def open_cache(setting: str | None) -> Cache:
    """Return the cache of `data.cache`: a folder, 'auto', or None for a temporary one.

    Raises ConfigError where a folder that was named is not writable.
    """
    if setting is None:
        return TemporaryCache()
    if setting == "auto":
        home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        folder = Path(home).expanduser() / "seq2seq"
    else:
        folder = Path(setting).expanduser()
    try:
        return Cache(folder)
    except OSError as error:
        found = f"data.cache: {folder} is not writable ({error.strerror})"
        if setting != "auto":
            raise ConfigError(f"{found}; name another folder, or null") from None
        log.warning("%s; using a temporary folder", found)
        return TemporaryCache()


def digest(made_of: Any) -> str:
    """Return a short digest of anything that JSON can hold."""
    text = json.dumps(made_of, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def code_of(*modules: str) -> str:
    """Return a digest of the source of modules, so that new code does not use old results."""
    return digest([inspect.getsource(import_module(name)) for name in modules])


def _intact(path: Path) -> Entry | None:
    """Return the entry if its files still have the sizes and times they were made with."""
    found = _read_json(path / _ABOUT)
    try:
        intact = all(_status(path / name) == status for name, status in found["files"].items())
        return Entry(path, found["about"]) if intact else None
    except (OSError, KeyError):
        return None


def _status(file: Path) -> list[int]:
    status = file.stat()
    return [status.st_size, status.st_mtime_ns]


def _read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file; an empty one if the file is missing or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
