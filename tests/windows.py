"""What Windows lacks or refuses, hidden from the modules of this package.

Other packages keep what they use: they have code of their own for Windows. What the package asks
the system to do with a file that this process has open is refused as there.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import mmap
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
MISSING = {
    "os": {
        "chown", "chroot", "fchmod", "fchown", "fdatasync", "fork", "forkpty", "getegid", "geteuid",
        "getgid", "getloadavg", "getpgid", "getsid", "getuid", "killpg", "mkfifo", "mknod", "nice",
        "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "openpty", "posix_fadvise",
        "posix_fallocate", "posix_spawn", "pread", "pwrite", "register_at_fork",
        "sched_getaffinity", "sched_yield", "sendfile", "setsid", "statvfs", "sync", "uname",
        "wait", "wait3", "wait4", "waitid", "WNOHANG",
    },
    "signal": {
        "alarm", "pause", "pthread_kill", "pthread_sigmask", "setitimer", "SIGALRM", "SIGCHLD",
        "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGSTOP", "SIGUSR1", "SIGUSR2", "sigwait",
    },
    "mmap": {name for name in dir(mmap) if name.startswith(("MADV_", "MAP_", "PROT_"))},
    "sys": set[str](),
}  # fmt: skip


class StandIn:
    """A module without some names, and with others of its own."""

    def __init__(self, module: ModuleType, missing: set[str], **own: Any) -> None:
        self._module, self._missing = module, missing
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> Any:
        if name in self._missing:
            raise AttributeError(f"module '{self._module.__name__}' has no attribute '{name}'")
        return getattr(self._module, name)


def hide() -> None:
    """Hide it from what is imported from now on."""
    own: dict[str, dict[str, Any]] = {
        "os": {"name": "nt", "open": _open, "fsync": _fsync},
        "sys": {"platform": "win32"},
    }
    modules = {"os": os, "signal": signal, "mmap": mmap, "sys": sys}
    stand_ins = {n: StandIn(m, MISSING[n], **own.get(n, {})) for n, m in modules.items()}
    real = builtins.__import__

    def limited(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        if not str((globals or {}).get("__name__")).startswith("seq2seq"):
            return real(name, globals, locals, fromlist, level)
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        found = real(name, globals, locals, fromlist, level)
        return stand_ins.get(name, found) if level == 0 else found

    builtins.__import__ = limited
    sys.addaudithook(_refuse_open_files)


def _open(path: Any, *arguments: Any, **options: Any) -> int:
    if os.path.isdir(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return os.open(path, *arguments, **options)


def _fsync(descriptor: int) -> None:
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    os.fsync(descriptor)


def _refuse_open_files(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise PermissionError where a file, or one in the folder, is open or mapped."""
    if event not in ("os.rename", "os.remove") or not isinstance(arguments[0], str | os.PathLike):
        return
    if sys._getframe(1).f_globals["__name__"] == "tempfile":  # has a way of its own on Windows
        return
    path = os.path.abspath(arguments[0])
    if any(f"{name}/".startswith(f"{path}/") for name in _open_files()):
        raise PermissionError(errno.EACCES, "used by this process", path)


def _open_files() -> Iterator[str]:
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:  # that of the listing itself
            continue
    for line in Path("/proc/self/maps").read_text().splitlines():
        yield from line.split(maxsplit=5)[5:]
