"""Make the runs of a study: one in this process, or all of them in processes of their own."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tqdm import tqdm

from seq2seq.analysis.study.plan import Measure, Plan, Run, join_messages
from seq2seq.analysis.study.results import RESULT, Point, Result, digest, status_of, statuses
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.errors import ConfigError, DataError

# Imports of torch are local to what needs it, because --list and --launcher are fast without it.

log = logging.getLogger(__name__)

OUTPUT = "output.txt"  # in the run directory, when several runs are made at a time
_POLL_SECONDS = 0.1


def complete(
    run: Run, measures: Sequence[Measure], pairs: Sequence[Pair], *, overwrite: bool = False
) -> str:
    """Train and measure a run as far as it is not done; return why training ended.

    An interrupted run continues from its checkpoint. Raises ConfigError for a run that was trained
    with another recipe, unless `overwrite` allows to train it again, and UserError as training and
    translating do.
    """
    import torch

    from seq2seq.pipeline import train
    from seq2seq.runs.directory import RunDirectory

    if run.config.training.threads:
        torch.set_num_threads(run.config.training.threads)
    status = status_of(run, measures, digest(pairs))
    if status.state == "finished" and status.result:
        log.info("%s: already finished", run.name)
        return status.result.ended
    if status.state == "changed" and not overwrite:
        raise ConfigError(f"{run.path}: {_changed({run.name: status.changes})}")
    if status.state == "trained" and status.result:
        ended = status.result.ended
    else:
        (run.path / RESULT).unlink(missing_ok=True)
        begun = any(RunDirectory(run.path).checkpoints.glob("step-*"))
        resume = begun and status.state != "changed"
        ended = train(run.config, resume=resume, overwrite=not resume)
        if ended in ("interrupted", "terminated"):
            return ended
    began = time.monotonic()
    _measure(run, measures, pairs, ended=ended).save(run.path)
    log.info("%s: measured in %.0f s", run.name, time.monotonic() - began)
    return ended


def _measure(run: Run, measures: Sequence[Measure], pairs: Sequence[Pair], *, ended: str) -> Result:
    """Translate and score the test set with a trained run; collect the record of its training."""
    import torch

    from seq2seq.analysis.alignment import align, alignment_error, gold_of
    from seq2seq.evaluation.evaluate import evaluate
    from seq2seq.inference.translator import Translator
    from seq2seq.inference.words import WORDS
    from seq2seq.runs.directory import RunDirectory, find_checkpoint
    from seq2seq.runs.logs import read_metrics

    translator = Translator.load(run.path, device=run.config.training.device)
    translator.config = run.config  # its search settings may have changed since training
    evaluation = evaluate(translator, pairs)
    records = read_metrics(RunDirectory(run.path).metrics)
    validations = [record for record in records if record["kind"] == "validation"]
    error = None
    if "alignment_error" in measures and run.config.model.attention.score != "none":
        split = WORDS["marks"]
        gold = gold_of(pairs, split=split)
        if gold is not None:
            error = alignment_error(align(translator, pairs, split=split), gold).aer
    shapes = find_checkpoint(run.path).shapes().values()
    return Result(
        config=run.config,
        test_sha256=digest(pairs),
        ended=ended,
        steps=int(validations[-1]["step"]),
        minutes=float(validations[-1]["minutes"]),
        parameters=sum(map(math.prod, shapes)),
        curve=tuple(
            Point.model_validate({key: record[key] for key in Point.model_fields})
            for record in validations
        ),
        measured=tuple(measures),
        bleu=evaluation.metrics["bleu"].score,
        chrf=evaluation.metrics["chrf"].score,
        signatures={name: metric.signature for name, metric in evaluation.metrics.items()},
        alignment_error=None if error is None else 100 * error,
        hypotheses=tuple(evaluation.hypotheses),
        torch=str(torch.__version__),
    )


def _changed(changes: Mapping[str, str]) -> str:
    return (
        f"trained with another recipe: {join_messages(changes)}. Change it back, retrain with "
        "--overwrite, or choose another 'out'"
    )


def unfinished(plan: Plan, pairs: Sequence[Pair], *, overwrite: bool) -> list[Run]:
    """Return the runs that are not finished.

    Raises, before anything is trained: ConfigError, which names them all, for runs that were
    trained with another recipe, unless `overwrite` allows to train them again; DataError for
    corpora and gold alignments that cannot be read.
    """
    found = statuses(plan, pairs)
    changed = {name: status.changes for name, status in found.items() if status.state == "changed"}
    if changed and not overwrite:
        raise ConfigError(f"{plan.path}: {_changed(changed)}")
    left = [run for run in plan.runs if found[run.name].state != "finished"]
    for data in {run.config.data.model_dump_json(): run.config.data for run in left}.values():
        for corpus in (*data.train, data.valid):
            if next(iter(read_corpus(corpus)), None) is None:
                raise DataError(f"{corpus.path}: no pairs; choose another corpus")
    if left and "alignment_error" in plan.study.measure:
        from seq2seq.analysis.alignment import gold_of
        from seq2seq.inference.words import WORDS

        gold_of(pairs, split=WORDS["marks"])
    return left


def launcher_line(plan: Plan, run: Run, *, overwrite: bool = False) -> str:
    """Return the shell command that makes one run."""
    return shlex.join(["seq2seq", *_arguments(plan, run, overwrite=overwrite)])


def _arguments(plan: Plan, run: Run, *changes: str, overwrite: bool) -> list[str]:
    flags = ["--overwrite"] if overwrite else []
    return ["study", plan.path, *plan.changes, *changes, "--cell", run.name, *flags]


def run_study(
    plan: Plan, pairs: Sequence[Pair], *, jobs: int = 1, overwrite: bool = False
) -> tuple[str, dict[str, str]]:
    """Make all runs that are not finished, each in a process, `jobs` at a time.

    Several at a time have one thread each. Return how the study ended (finished, interrupted or
    terminated), and by the name of each failed run why it failed. Raises as `unfinished` does.
    """
    left = unfinished(plan, pairs, overwrite=overwrite)
    results = [status.result for status in statuses(plan, pairs).values()]
    threads = ["training.threads=1"] if jobs > 1 else []

    def command(run: Run) -> list[str]:
        arguments = _arguments(plan, run, *threads, overwrite=overwrite)
        return [sys.executable, "-m", "seq2seq", *arguments]

    scheduler = Scheduler(
        command,
        jobs=jobs,
        total=len(plan.runs),
        done=len(plan.runs) - len(left),
        minutes=[result.minutes for result in results if result],
    )
    return scheduler.run(left), scheduler.failed


@dataclass
class _Job:
    run: Run
    process: subprocess.Popen[bytes]
    began: float


@dataclass
class Scheduler:
    """Starts a process for each run, `jobs` at a time, and counts how they end."""

    command: Callable[[Run], list[str]]
    jobs: int
    total: int
    done: int = 0
    minutes: list[float] = field(default_factory=list)  # of runs that are done
    failed: dict[str, str] = field(default_factory=dict)  # why, by the name of the run

    def run(self, runs: Sequence[Run]) -> str:
        """Make the runs; return finished, or why it stopped: interrupted or terminated.

        A run that fails is reported and does not stop the others. An interrupt (Ctrl-C, SIGTERM)
        is forwarded to the processes, which save, and no further one is started. A second one
        kills them all.
        """
        from seq2seq.training.monitor import REASONS, StopRequest

        signals = {reason: number for number, reason in REASONS.items()}
        waiting, running = deque(runs), list[_Job]()
        bar = tqdm(
            total=self.total, initial=self.done, unit="run", dynamic_ncols=True,
            # A single run shows a bar of its own.
            disable=self.jobs == 1 or not sys.stderr.isatty(),
        )  # fmt: skip
        with bar, StopRequest(at_once=False) as stop, contextlib.ExitStack() as at_exit:
            forwarded = ""
            while running or (waiting and not stop.reason):
                while waiting and len(running) < self.jobs and not stop.reason:
                    job = self._start(waiting.popleft())
                    running.append(job)
                    # Nothing is left running when this process has to stop immediately.
                    at_exit.callback(job.process.wait)
                    at_exit.callback(job.process.kill)
                if stop.reason != forwarded:
                    forwarded = stop.reason
                    for job in running:
                        job.process.send_signal(signals[stop.reason])
                for job in [job for job in running if job.process.poll() is not None]:
                    running.remove(job)
                    self._record(job, stopped=bool(stop.reason))
                time.sleep(_POLL_SECONDS)
                bar.update(self.done - bar.n)
                bar.refresh()
        return stop.reason or "finished"

    def progress(self) -> str:
        """Return how many runs are done, with the time left once it can be estimated."""
        done = f"{self.done} of {self.total} done"
        if not self.minutes:
            return done
        left = self.total - self.done - len(self.failed)
        minutes = sum(self.minutes) / len(self.minutes) * left / self.jobs
        return f"{done}, about {duration(minutes)} left"

    def _start(self, run: Run) -> _Job:
        _log(f"{self.progress()}; next: {run.name}")
        run.path.mkdir(parents=True, exist_ok=True)
        parallel = self.jobs > 1
        output = (run.path / OUTPUT).open("wb") if parallel else contextlib.nullcontext()
        with output as file:
            # In a session of its own, the process receives Ctrl-C only when it is forwarded.
            process = subprocess.Popen(
                self.command(run), stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                env={**os.environ, "OMP_NUM_THREADS": "1"} if parallel else None,
                start_new_session=True,
            )  # fmt: skip
        return _Job(run, process, time.monotonic())

    def _record(self, job: _Job, *, stopped: bool) -> None:
        code = job.process.returncode
        if code == 0:
            self.done += 1
            self.minutes.append((time.monotonic() - job.began) / 60)
        elif not stopped:
            why = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
            if self.jobs > 1:
                why += f"; see {job.run.path / OUTPUT}"
            self.failed[job.run.name] = why
            _log(f"{job.run.name}: FAILED ({why})")


def duration(minutes: float) -> str:
    """Return minutes in hours and minutes, at least 1 min."""
    hours, rest = divmod(max(1, round(minutes)), 60)
    return f"{hours} h {rest} min" if hours else f"{rest} min"


def _log(message: str) -> None:
    """Log a message without breaking up the progress bar."""
    with tqdm.external_write_mode(file=sys.stderr):
        log.info("%s", message)
