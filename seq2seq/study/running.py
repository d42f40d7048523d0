"""A study from what is there to all of its runs finished."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from tqdm import tqdm

from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.errors import ConfigError, DataError
from seq2seq.study.plan import Plan, Run
from seq2seq.study.results import Status, changed_text, digest, status_of
from seq2seq.training.monitor import REASONS, StopRequest

log = logging.getLogger(__name__)

OUTPUT = "output.txt"  # in the run's directory, when several run at a time
_POLL_SECONDS = 0.1
_SIGNALS: dict[str, signal.Signals] = {reason: number for number, reason in REASONS.items()}

Command = Callable[[Run], list[str]]


@dataclass
class Progress:
    """How many runs are done, and how long those took that were seen."""

    total: int
    done: int
    minutes: list[float]  # of runs that are done
    jobs: int
    failed: dict[str, str] = field(default_factory=dict)  # why, by the run's name

    def text(self) -> str:
        """Return the minutes that are left, where they can be known."""
        left = self.total - self.done - len(self.failed)
        if not self.minutes:
            return f"{self.done} of {self.total} done"
        estimate = sum(self.minutes) / len(self.minutes) * left / self.jobs
        return f"{self.done} of {self.total} done, about {duration(estimate)} left"


@dataclass
class _Job:
    run: Run
    process: subprocess.Popen[bytes]
    began: float


def run_all(runs: Sequence[Run], command: Command, progress: Progress) -> str:
    """Start the command of each run, `progress.jobs` at a time; return why it ended.

    A run that fails is told, counted in `progress.failed`, and does not end the others. An
    interrupt (Ctrl-C, SIGTERM) is handed to the processes, which save, and no further one is
    started: the answer is then interrupted or terminated, else finished. A second one ends all at
    once.
    """
    waiting, jobs = deque(runs), list[_Job]()
    bar = tqdm(
        total=progress.total, initial=progress.done, unit="run", dynamic_ncols=True,
        # A run that is alone has a bar of its own.
        disable=progress.jobs == 1 or not sys.stderr.isatty(),
    )  # fmt: skip
    with bar, StopRequest(at_once=False) as stop, _ended_with(jobs):
        told = ""
        while jobs or (waiting and not stop.reason):
            while waiting and len(jobs) < progress.jobs and not stop.reason:
                jobs.append(_start(waiting.popleft(), command, progress, bar))
            if stop.reason != told:
                told = stop.reason
                for job in jobs:
                    job.process.send_signal(_SIGNALS[stop.reason])
            for job in [job for job in jobs if job.process.poll() is not None]:
                jobs.remove(job)
                _end(job, progress, bar, stopped=bool(stop.reason))
            time.sleep(_POLL_SECONDS)
            bar.refresh()
    return stop.reason or "finished"


def duration(minutes: float) -> str:
    """Return minutes as a person says them."""
    rounded = max(1, round(minutes))
    hours, rest = divmod(rounded, 60)
    return f"{hours} h {rest} min" if hours else f"{rest} min"


def _start(run: Run, command: Command, progress: Progress, bar: tqdm[NoReturn]) -> _Job:
    _say(bar, f"{progress.text()}; next: {run.name}")
    run.path.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        output = None
        if progress.jobs > 1:
            output = stack.enter_context((run.path / OUTPUT).open("wb"))
        # In a session of its own it has no Ctrl-C but the one that is handed on.
        process = subprocess.Popen(
            command(run), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            env={**os.environ, "OMP_NUM_THREADS": "1"} if progress.jobs > 1 else None,
            start_new_session=True,
        )  # fmt: skip
    return _Job(run, process, time.monotonic())


def _end(job: _Job, progress: Progress, bar: tqdm[NoReturn], *, stopped: bool) -> None:
    code = job.process.returncode
    if code == 0:
        progress.done += 1
        progress.minutes.append((time.monotonic() - job.began) / 60)
        bar.update()
    elif not stopped:
        why = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        if progress.jobs > 1:
            why += f"; see {job.run.path / OUTPUT}"
        progress.failed[job.run.name] = why
        _say(bar, f"{job.run.name}: FAILED ({why})")


def _say(bar: tqdm[NoReturn], message: str) -> None:
    """Log a message without tearing the bar."""
    with bar.external_write_mode(file=sys.stderr):
        log.info("%s", message)


@contextlib.contextmanager
def _ended_with(jobs: list[_Job]) -> Iterator[None]:
    """End the processes that are left when this one is ended at once."""
    try:
        yield
    finally:
        for job in jobs:
            job.process.kill()
            job.process.wait()


@dataclass(frozen=True)
class Outcome:
    """How a study ended (finished, interrupted or terminated), and the runs that failed."""

    ended: str
    failed: dict[str, str]  # why, by the run's name


def statuses(plan: Plan, pairs: Sequence[Pair]) -> dict[str, Status]:
    """Return how far each run is, by name. Raises CheckpointError for a damaged result."""
    test_sha256 = digest(pairs)
    return {run.name: status_of(run, plan.study.measure, test_sha256) for run in plan.runs}


def read_test_set(plan: Plan) -> list[Pair]:
    """Return the test set that all cells share. Raises DataError where it cannot be read."""
    return list(read_corpus(plan.test))


def unfinished(plan: Plan, pairs: Sequence[Pair], *, overwrite: bool) -> list[Run]:
    """Return the runs that are yet to be made.

    Raises, before anything is trained: ConfigError, which names them all, for runs that were made
    with another recipe, unless they are to be made anew (`overwrite`); DataError for corpora and
    gold alignments that cannot be read.
    """
    found = statuses(plan, pairs)
    changed = {name: status.changes for name, status in found.items() if status.state == "changed"}
    if changed and not overwrite:
        raise ConfigError(f"{plan.path}: {changed_text(changed)}")
    left = [run for run in plan.runs if found[run.name].state != "finished"]
    if left:
        _check_corpora(left)
    if left and "alignment_error" in plan.study.measure:
        # Torch is imported here, seconds that a study with nothing left to do can spare.
        from seq2seq.study.results import check_gold

        check_gold(pairs)
    return left


def cell_command(plan: Plan, run: Run, *changes: str, overwrite: bool = False) -> list[str]:
    """Return the arguments of `seq2seq` that make one run."""
    again = ["--overwrite"] if overwrite else []
    return ["study", plan.path, *plan.changes, *changes, "--cell", run.name, *again]


def launcher_line(plan: Plan, run: Run, *, overwrite: bool = False) -> str:
    """Return the shell command that makes one run."""
    return shlex.join(["seq2seq", *cell_command(plan, run, overwrite=overwrite)])


def run_study(
    plan: Plan, pairs: Sequence[Pair], *, jobs: int = 1, overwrite: bool = False
) -> Outcome:
    """Make all runs that are not finished, each in a process, `jobs` at a time.

    Several at a time have one thread each. Raises as `unfinished` does.
    """
    left = unfinished(plan, pairs, overwrite=overwrite)
    results = [status.result for status in statuses(plan, pairs).values()]
    progress = Progress(
        total=len(plan.runs),
        done=len(plan.runs) - len(left),
        minutes=[result.minutes for result in results if result],
        jobs=jobs,
    )
    threads = ["training.threads=1"] if jobs > 1 else []

    def command(run: Run) -> list[str]:
        arguments = cell_command(plan, run, *threads, overwrite=overwrite)
        return [sys.executable, "-m", "seq2seq", *arguments]

    return Outcome(run_all(left, command, progress), progress.failed)


def _check_corpora(runs: Sequence[Run]) -> None:
    """Raise DataError where the first pair of a corpus cannot be read."""
    data = {run.config.data.model_dump_json(): run.config.data for run in runs}
    for each in data.values():
        for corpus in (*each.train, each.valid):
            if next(iter(read_corpus(corpus)), None) is None:
                raise DataError(f"{corpus.path}: no pairs")
