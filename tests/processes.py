"""Commands in separate processes that start quickly, forked from one with all modules imported.

That server process is this file run as a script. It has a single thread when it forks and computes
nothing before, so a child is equivalent to a newly started process.

What starts processes by itself is given `Server.python` in place of Python.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any


class Training:
    """A process that runs `seq2seq ARGUMENTS`."""

    def __init__(self, server: Server, pid: int, output: Path) -> None:
        self.server, self.pid, self.output = server, pid, output
        self._code: int | None = None

    def send(self, number: int) -> None:
        """Send a signal; the process id stays valid until `code` has returned its exit code."""
        if self._code is None:
            os.kill(self.pid, number)

    def code(self) -> int | None:
        """Return the exit code, negative for the signal that killed it; None while it runs."""
        if self._code is None:
            self._code = self.server.ask(poll=self.pid)["code"]
        return self._code

    def wait(self, seconds: float = 60) -> int:
        """Wait for the process and return its exit code."""
        end = time.monotonic() + seconds
        while (code := self.code()) is None:
            if time.monotonic() > end:
                self.send(signal.SIGKILL)
                raise TimeoutError(f"still running after {seconds} s: {self.text()}")
            time.sleep(0.01)
        return code

    def text(self) -> str:
        """Return the output so far."""
        return self.output.read_text(encoding="utf-8")


class Server:
    """A context in which processes are started by a server process.

    `python` is a program that runs a module (-m), code (-c) or a script as Python does, in such a
    process.
    """

    def __enter__(self) -> Server:
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name, "socket")
        self.python = path.with_name("python")
        relay = [sys.executable, "-IS", str(Path(__file__).with_name("relay.py")), str(path)]
        self.python.write_text(f'#!/bin/sh\nexec {shlex.join(relay)} "$@"\n')
        self.python.chmod(0o755)
        self._server = subprocess.Popen(
            [sys.executable, __file__, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.communicate()
        self._folder.cleanup()

    def start(
        self,
        arguments: Sequence[object],
        output: Path,
        setup: str = "",
        *,
        given: str = "",
        errors: Path | None = None,
        module: str = "seq2seq.cli",
        **environment: str,
    ) -> Training:
        """Start `seq2seq ARGUMENTS`; what it writes goes into a file, or into two with `errors`.

        `setup` is Python that the process runs first; `given` is its standard input. `module` is
        the one whose `main` it calls: that of seq2seq, or a script's.
        """
        output.touch()
        words = [str(argument) for argument in arguments]
        answer = self.ask(
            arguments=words, given=given, output=str(output), errors=str(errors or output),
            setup=setup, environment=environment, module=module,
        )  # fmt: skip
        return Training(self, answer["pid"], output)

    def start_ranks(
        self,
        size: int,
        arguments: Sequence[object],
        output: Path,
        setup: str = "",
        **environment: str,
    ) -> list[Training]:
        """Start `size` processes that work together, as torchrun does; rank N writes OUTPUT.N."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(size)}
        environment |= {"LOCAL_WORLD_SIZE": str(size)}
        return [
            self.start(
                arguments, output.with_name(f"{output.name}.{rank}"), setup,
                RANK=str(rank), LOCAL_RANK=str(rank), **environment,
            )
            for rank in range(size)
        ]  # fmt: skip

    def ask(self, **request: Any) -> Any:
        """Return the server's answer."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(json.dumps(request), file=self._server.stdin, flush=True)
        return json.loads(self._server.stdout.readline())


# What commands import when they need it; not onnxruntime, which starts a thread.
LAZY = (
    "sacrebleu",
    "torch.distributed.launcher.api",
    "seq2seq.pipeline",
    "seq2seq.serving.server",
)


def serve(path: str) -> None:
    """Answer requests until standard input ends, and those of relays at a socket."""
    os.fsync = os.fstat  # as in conftest.py
    for name in LAZY:
        importlib.import_module(name)
    sys.path.append(str(Path(__file__).parents[1] / "scripts"))
    from seq2seq import cli
    from seq2seq.config import load_config
    from seq2seq.packaged import find_recipe

    # Once for all: the models of the configuration and of the options are built at their first use.
    load_config(find_recipe("quickstart"))
    cli.parse(["train", "quickstart"])
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(path)
    listening.listen()
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ, answer)
        selector.register(listening, selectors.EVENT_READ, lambda: accept(listening, selector))
        while not sys.stdin.closed:
            for key, _ in selector.select():
                key.data()


def answer() -> None:
    """Answer a request on standard input; close it at its end."""
    line = sys.stdin.readline()
    if not line:
        sys.stdin.close()
        return
    request = json.loads(line)
    if "poll" in request:
        pid, status = os.waitpid(request["poll"], os.WNOHANG)
        found = {"code": os.waitstatus_to_exitcode(status) if pid else None}
    else:
        found = {"pid": forked(lambda: run(**request))}
    print(json.dumps(found), flush=True)


def accept(listening: socket.socket, selector: selectors.BaseSelector) -> None:
    """Start what a relay asks for; from then on pass its signals on, and in the end the code."""
    relay, _ = listening.accept()
    request, streams, _, _ = socket.recv_fds(relay, 1 << 20, 3)
    words, folder, environment = json.loads(request)
    pid = forked(lambda: as_python(words, folder, environment, streams))
    for stream in streams:
        os.close(stream)
    process = os.pidfd_open(pid)

    def pass_signal() -> None:
        number = relay.recv(1)
        if not number:  # the relay has ended
            selector.unregister(relay)
            relay.close()
        if process in selector.get_map():
            signal.pidfd_send_signal(process, number[0] if number else signal.SIGKILL)

    def pass_code() -> None:
        selector.unregister(process)
        os.close(process)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(OSError):  # the relay may have been killed
            relay.send(str(os.waitstatus_to_exitcode(status)).encode())

    selector.register(relay, selectors.EVENT_READ, pass_signal)
    selector.register(process, selectors.EVENT_READ, pass_code)


def forked(work: Callable[[], int]) -> int:
    """Return the id of a process that does the work, whose result is its exit code."""
    assert len(threads()) == 1, "a fork would lose threads"
    pid = os.fork()
    if not pid:
        os._exit(work())
    return pid


def threads() -> list[str]:
    """Return the names of this process's threads."""
    return [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]


# Python for `setup`: say which threads there are besides the one that forks.
SHOW_FORKS = """
import os, threading, processes
def show():
    python = [thread.name for thread in threading.enumerate()[1:]]
    print("fork beside", python, len(processes.threads()) - 1, flush=True)
os.register_at_fork(before=show)
"""


def run(
    *, arguments: list[str], given: str, output: str, errors: str, setup: str,
    environment: dict[str, str], module: str,
) -> int:  # fmt: skip
    """Run the requested command in this process; return its exit code."""
    os.environ |= environment
    with tempfile.TemporaryFile() as file:
        file.write(given.encode())
        file.seek(0)
        os.dup2(file.fileno(), 0)
    for path, number in ((output, 1), (errors, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)

    def command() -> int:
        exec(setup, {})
        code: int = importlib.import_module(module).main(arguments)
        return code

    return ended(command)


def as_python(
    words: list[str], folder: str, environment: dict[str, str], streams: list[int]
) -> int:
    """Do in this process what Python does with these arguments; return its exit code."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)

    def program() -> int:
        if words[0] == "-u":
            sys.stdout.reconfigure(line_buffering=True)
            del words[0]
        if words[0] == "-m":
            sys.argv[:] = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        elif words[0] == "-c":
            sys.argv[:] = ["-c", *words[2:]]
            code = compile(words[1], "<string>", "exec", dont_inherit=True)
            exec(code, {"__name__": "__main__"})
        else:
            sys.argv[:] = words
            runpy.run_path(words[0], run_name="__main__")
        return 0

    return ended(program)


def ended(work: Callable[[], int]) -> int:
    """Return the exit code of this process, which its work returns or raises."""
    try:
        code = work()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve(sys.argv[1])
