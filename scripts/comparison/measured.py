"""Run a command on one core with one thread; write its seconds and peak memory as JSON.

    python measured.py --core 0 --report FILE --log FILE [--after TEXT --minutes N] -- COMMAND...

With --after, the command gets SIGINT that many minutes after TEXT is first in its log. This process
is small because a process that becomes another program counts what it used before.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def main() -> int:
    """Run the command; return its exit code, or 0 if it was ended by the time limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--core", type=int, required=True)
    for name in ("--report", "--log"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--input", type=Path, default=Path(os.devnull))
    parser.add_argument("--after")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    os.sched_setaffinity(0, {given.core})
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a background process ignores it
    began = time.monotonic()
    with given.log.open("wb") as log, given.input.open("rb") as text:
        running = subprocess.Popen(
            given.command, env=os.environ | THREADS, stdin=text, stdout=log, stderr=log
        )
        ended = given.after is not None and _end_in_time(running, given)
        code = running.wait()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = {"seconds": time.monotonic() - began, "mebibytes": usage.ru_maxrss / 1024}
    if code == 0 or ended:
        given.report.write_text(json.dumps(report), encoding="utf-8")
        return 0
    return code


def _end_in_time(running: subprocess.Popen[bytes], given: argparse.Namespace) -> bool:
    """Send SIGINT at the time limit; return whether the command had not ended before."""
    began = None
    while running.poll() is None:
        if began is None and given.after in given.log.read_text("utf-8", "replace"):
            began = time.monotonic()
        if began is not None and time.monotonic() - began > 60 * given.minutes:
            running.send_signal(signal.SIGINT)
            return True
        time.sleep(0.5)
    return False


if __name__ == "__main__":
    sys.exit(main())
