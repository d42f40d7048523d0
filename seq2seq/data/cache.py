"""Prepared data on disk: made once, named by what it is made of, shared by all processes."""

from __future__ import annotations

import contextlib
import fcntl
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
from seq2seq.files import publish_directory, sha256, write_atomic

log = logging.getLogger(__name__)

_ABOUT = "about.json"
_CHECKSUMS = "checksums.json"
_SETTLED = 2.0  # seconds; a file that is younger may change without another time of change


@dataclass(frozen=True)
class Entry:
    """A folder of the cache, and what its maker told of it."""

    path: Path
    about: dict[str, Any]


class Cache:
    """Folders named by a digest of all that their content depends on.

    An entry is whole or not there. What a crash left, or what has been changed since it was made,
    is made again. Several processes may ask for the same entry: one makes it, the others wait.
    """

    def __init__(self, folder: Path) -> None:
        """Use a folder; raises OSError where it cannot be written."""
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        self.folder = folder

    def entry(
        self, kind: str, made_of: dict[str, Any], make: Callable[[Path], dict[str, Any]]
    ) -> Entry:
        """Return the entry that is made of this; where there is none, `make` fills its folder.

        What `make` returns is kept with the entry, so it has to be ready for JSON. Raises
        ConfigError where the folder cannot be written.
        """
        path = self.folder / f"{kind}-{digest(made_of)}"
        found = _whole(path)
        if found is None:
            try:
                with self._lock(path.name):
                    found = _whole(path) or self._make(path, make)
            except OSError as error:
                raise ConfigError(
                    f"data.cache: {self.folder} cannot be used ({error.strerror or error}); mend "
                    "that, or name another folder"
                ) from error
        return found

    def checksum(self, path: Path) -> str:
        """Return the SHA-256 of a file; it is read once only, as long as it does not change."""
        status = path.stat()
        file = f"{path.resolve()}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
        memo = self.folder / _CHECKSUMS
        known = _read_json(memo).get(file)
        if isinstance(known, str):
            return known
        found = sha256(path)
        if time.time() - status.st_mtime > _SETTLED:
            # What a full disk does not let us note is computed again.
            with contextlib.suppress(OSError), self._lock(memo.name):
                write_atomic(memo, json.dumps(_read_json(memo) | {file: found}, indent=1))
        return found

    def summary(self) -> str:
        """Return a line for a person: where, how large, how to clear it."""
        sizes = [sum(file.stat().st_size for file in entry.iterdir()) for entry in self._entries()]
        return (
            f"cache: {self.folder}, {sum(sizes) / 1e6:.1f} MB in {len(sizes)} entries; delete the "
            "folder to clear it"
        )

    def _entries(self) -> Iterator[Path]:
        return (about.parent for about in self.folder.glob(f"[!.]*/{_ABOUT}"))

    def _make(self, path: Path, make: Callable[[Path], dict[str, Any]]) -> Entry:
        self._remove_leftovers()
        if path.exists():
            log.warning("cache: %s is damaged and made again", path)
        with publish_directory(path) as aside:
            about = make(aside)
            files = {file.name: _status(file) for file in aside.iterdir()}
            (aside / _ABOUT).write_text(json.dumps({"files": files, "about": about}, indent=1))
        return Entry(path, about)

    def _remove_leftovers(self) -> None:
        """Delete what a crash left half made, where nobody is making it now."""
        for leftover in self.folder.glob(".*.partial"):
            name = leftover.name[1 : -len(".partial")]
            with contextlib.suppress(BlockingIOError), self._lock(name, wait=False):
                shutil.rmtree(leftover, ignore_errors=True)

    @contextlib.contextmanager
    def _lock(self, name: str, *, wait: bool = True) -> Iterator[None]:
        """Hold the lock of a name; the system lets go of it when the process ends."""
        with (self.folder / f".{name}.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not wait:
                    raise
                log.info("waiting for another process that makes %s", self.folder / name)
                fcntl.flock(file, fcntl.LOCK_EX)
            yield


def open_cache(setting: str | None) -> Cache:
    """Return the cache that `data.cache` names: a folder, 'auto', or nothing for a temporary one.

    Raises ConfigError where a folder that is named cannot be written.
    """
    if setting is None:
        return _temporary()
    if setting == "auto":
        home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        folder = Path(home).expanduser() / "seq2seq"
    else:
        folder = Path(setting).expanduser()
    try:
        return Cache(folder)
    except OSError as error:
        found = f"data.cache: {folder} cannot be written ({error.strerror})"
        if setting != "auto":
            raise ConfigError(f"{found}; name another folder, or null") from None
        log.warning("%s; a temporary folder is used", found)
        return _temporary()


class _TemporaryCache(Cache):
    """A cache that goes with the object."""

    def __init__(self) -> None:
        self._owner = tempfile.TemporaryDirectory(prefix="seq2seq-", ignore_cleanup_errors=True)
        super().__init__(Path(self._owner.name))


def _temporary() -> Cache:
    return _TemporaryCache()


def digest(made_of: Any) -> str:
    """Return a name for something that JSON can hold."""
    text = json.dumps(made_of, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def code_of(*modules: str) -> str:
    """Return a name for the code of some modules: what another version made is made again."""
    return digest([inspect.getsource(import_module(name)) for name in modules])


def _whole(path: Path) -> Entry | None:
    """Return the entry when its files are as they were when it was made."""
    found = _read_json(path / _ABOUT)
    if not found:
        return None
    try:
        whole = all(_status(path / name) == status for name, status in found["files"].items())
    except OSError:
        return None
    return Entry(path, found["about"]) if whole else None


def _status(file: Path) -> list[int]:
    status = file.stat()
    return [status.st_size, status.st_mtime_ns]


def _read_json(path: Path) -> dict[str, Any]:
    """Return what a file holds; nothing when it is missing or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
