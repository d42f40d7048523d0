"""Small and read-only disks for one unprivileged process."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_NEWNS, _NEWUSER = 0x20000, 0x10000000  # linux/sched.h
_RDONLY, _REMOUNT, _BIND = 1, 32, 4096  # linux/mount.h
NONE = 77  # exit code if mounting is not permitted


def own_mounts() -> None:
    """Give this process private mounts; exit with NONE if the system does not permit it."""
    user, group = os.getuid(), os.getgid()
    if _libc.unshare(_NEWNS | _NEWUSER):
        os._exit(NONE)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def memory_disk(path: Path, options: str) -> None:
    """Mount an empty disk in memory, or change the options of an existing one."""
    flags = _REMOUNT if os.path.ismount(path) else 0
    _mount("tmpfs", path, "tmpfs", flags, options)


def read_only(path: Path) -> None:
    """Make a folder read-only."""
    _mount(str(path), path, "", _BIND, "")
    _mount("", path, "", _BIND | _REMOUNT | _RDONLY, "")


def _mount(source: str, path: Path, kind: str, flags: int, options: str) -> None:
    words = [os.fsencode(word) for word in (source, path, kind)]
    if _libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(options)):
        number = ctypes.get_errno()
        if number == errno.EPERM:
            os._exit(NONE)
        raise OSError(number, os.strerror(number), str(path))


def fill(path: Path) -> Path:
    """Fill the disk with a file; return its path."""
    ballast = path / "ballast"
    with ballast.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    return ballast
