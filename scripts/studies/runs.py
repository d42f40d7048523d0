"""The runs of a study: their states and results, and the processes that make them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Literal

from pydantic import Field, ValidationError

from seq2seq.analysis.alignment import forced_alignment_error, gold_of
from seq2seq.config import Config, Section, changed_keys, load_config
from seq2seq.config.loading import dump_config
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.data.sources import checksum_sources, read_checksums
from seq2seq.errors import CheckpointError, ConfigError, DataError
from seq2seq.evaluation.challenge import read_challenge, score_challenge
from seq2seq.evaluation.evaluate import evaluate, translate_all
from seq2seq.evaluation.robustness import KindScores, measure_robustness
from seq2seq.files import sha256, write_atomic
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import WORDS
from seq2seq.runs.directory import RunDirectory, find_checkpoint
from seq2seq.runs.logs import read_metrics
from seq2seq.training.monitor import REASONS, StopRequest
from studies.plan import SCRIPT, Measure, Plan, Run, Study, join_messages

# Torch, and what imports it, is imported where it is needed: --list and --launcher are fast
# without it.

log = logging.getLogger(__name__)

RESULT = "result.json"
OUTPUT = "output.txt"  # in the run directory, when several runs are made at a time
_POLL_SECONDS = 0.1
# Keys that do not affect the result, and keys that affect only how it is measured.
_IRRELEVANT = (
    "run_dir", "data.cache", "data.processes", "training.threads", "training.tensorboard",
)  # fmt: skip
_MEASURING = ("inference", "data.test")
_NOT_TRAINING = (*_IRRELEVANT, *_MEASURING)


class Point(Section):
    """A validation during training; a number that is not finite is null."""

    step: int
    minutes: float
    loss: float | None
    bleu: float | None
    chrf: float | None


class RunResult(Section):
    """The recipe of a run, its training, and its measures on the test set."""

    config: Config
    test_sha256: str
    ended: str  # finished, or early
    steps: int
    minutes: float  # of training, validations included
    parameters: int
    curve: tuple[Point, ...]
    measured: tuple[Measure, ...]
    bleu: float
    chrf: float
    signatures: dict[str, str]
    alignment_error: float | None  # in percent; null without attention
    lost: float | None = None  # BLEU, mean over the kinds of text in which nothing is to be copied
    copied: float | None = None  # in percent, mean over the other kinds
    kinds: dict[str, float] = Field(default_factory=dict)  # lost of each, or copied
    challenge: float | None = None  # right translations that are more probable, in percent
    phenomena: dict[str, float] = Field(default_factory=dict)  # the same of each phenomenon
    challenge_sha256: str | None = None  # of the file
    hypotheses: tuple[str, ...]
    torch: str  # its version

    def save(self, directory: Path) -> None:
        """Write the result of a run into its directory."""
        text = json.dumps(self.model_dump(mode="json"), ensure_ascii=False, indent=1)
        write_atomic(directory / RESULT, text + "\n")


def load_result(directory: Path) -> RunResult | None:
    """Return the result of a run, or None if it has none.

    Raises CheckpointError for a file that this program did not write.
    """
    path = directory / RESULT
    try:
        return RunResult.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        why = str(error).splitlines()[0]
        raise CheckpointError(
            f"{path}: not a result of this version ({why}); remove it to measure the run again"
        ) from None


def checksum_of(pairs: Sequence[Pair]) -> str:
    """Return a checksum of the sentences, references and alignments of a test set."""
    rows = [[p.source, p.target, *p.references, p.alignment or ""] for p in pairs]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


@dataclass(frozen=True)
class Status:
    """The state of a run.

    begun: training continues from its checkpoint; trained: to be measured, because the search, the
    test set or the measures are new; changed: trained with another recipe or on other data.
    """

    state: Literal["not started", "begun", "trained", "finished", "changed"]
    result: RunResult | None = None
    changes: str = ""  # of the recipe and of its data


def status_of(run: Run, study: Study, test_sha256: str) -> Status:
    """Return the state of a run. Raises CheckpointError for a damaged result."""
    result = load_result(run.path)
    recipe = run.path / "config.yaml"
    if result is None and not recipe.is_file():
        return Status("not started")
    old = load_config(recipe) if result is None else result.config
    changes = _changes(old, run.config, _NOT_TRAINING) or _changed_files(run)
    if changes:
        return Status("changed", result, changes)
    if result is None:
        return Status("begun")
    measured_as_now = (
        not _changes(old, run.config, _IRRELEVANT)
        and result.test_sha256 == test_sha256
        and set(study.measure) <= set(result.measured)
        and (not study.challenge or result.challenge_sha256 == sha256(Path(study.challenge)))
    )
    return Status("finished" if measured_as_now else "trained", result)


def statuses(plan: Plan, pairs: Sequence[Pair]) -> dict[str, Status]:
    """Return the state of each run by its name. Raises CheckpointError for a damaged result."""
    test_sha256 = checksum_of(pairs)
    return {run.name: status_of(run, plan.study, test_sha256) for run in plan.runs}


def same_training(one: Config, other: Config) -> bool:
    """Tell whether two recipes differ at most by how their model is measured."""
    return not _changes(one, other, _NOT_TRAINING)


def _changes(old: Config, new: Config, ignored: Sequence[str]) -> str:
    return ", ".join(
        f"{key} was {before!r} and is {now!r}"
        for key, (before, now) in changed_keys(old, new).items()
        if not any(f"{key}.".startswith(f"{prefix}.") for prefix in ignored)
    )


_checksum_sources = functools.cache(checksum_sources)  # most runs of a study share their files


def _changed_files(run: Run) -> str:
    """Return which training and validation files have changed since a run began, in words."""
    path = RunDirectory(run.path).sources_path
    if not path.exists():
        return ""
    before, now = read_checksums(path), _checksum_sources(run.config.data)
    # Data that is gone has not changed: finished runs need none.
    changed = [key for key, checksum in before.items() if now.get(key, checksum) != checksum]
    return ", ".join(f"{key} has new content" for key in changed)


def decide(plan: Plan, pairs: Sequence[Pair]) -> Plan:
    """Return a plan with all seeds of each cell whose values have been tried, with the best value.

    The best value has the lowest validation loss at the end. Raises as `status_of` does.
    """
    best, test_sha256 = dict(plan.best), checksum_of(pairs)
    for cell in plan.undecided:
        options = plan.options[cell]
        tried = [status_of(option[0], plan.study, test_sha256) for option in options]
        if all(status.state in ("finished", "trained") for status in tried):
            losses = [_final_loss(status.result) for status in tried]
            best[cell] = options[losses.index(min(losses))]
    return replace(plan, best=best)


def _final_loss(result: RunResult | None) -> float:
    loss = result.curve[-1].loss if result else None
    return math.inf if loss is None else loss


# --- One run


def complete(
    run: Run,
    study: Study,
    pairs: Sequence[Pair],
    *,
    overwrite: bool = False,
    others: Sequence[Run] = (),
) -> str:
    """Train and measure a run as far as it is not done; return why training ended.

    An interrupted run continues from its checkpoint. One that differs from a finished one of the
    `others` only by its search starts from a copy of it. Raises ConfigError for a run that was
    trained with another recipe, unless `overwrite` is given, and UserError as training and
    translating do.
    """
    import torch

    from seq2seq.pipeline import train

    if run.config.training.threads:
        torch.set_num_threads(run.config.training.threads)
    status = status_of(run, study, checksum_of(pairs))
    if status.state == "not started" and (twin := _same_training(run, others)):
        log.info("%s: trained as %s, which is copied", run.name, twin.name)
        ignored = shutil.ignore_patterns(OUTPUT)
        shutil.copytree(twin.path, run.path, ignore=ignored, dirs_exist_ok=True)
        write_atomic(RunDirectory(run.path).config_path, dump_config(run.config))
        status = status_of(run, study, checksum_of(pairs))
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
    _measure(run, study, pairs, ended=ended).save(run.path)
    log.info("%s: measured in %.0f s", run.name, time.monotonic() - began)
    return ended


def _same_training(run: Run, others: Sequence[Run]) -> Run | None:
    """Return a finished run that differs only by how it is measured."""
    for other in others:
        # Planned recipes are compared first: results, which hold all translations, are large.
        if same_training(other.config, run.config):
            result = load_result(other.path)
            if result and same_training(result.config, run.config) and not _changed_files(other):
                return other
    return None


def _measure(run: Run, study: Study, pairs: Sequence[Pair], *, ended: str) -> RunResult:
    """Translate and score the test set with a trained run; collect the record of its training."""
    import torch

    measures = study.measure
    translator = Translator.load(run.path, device=run.config.training.device)
    translator.config = run.config  # its search settings may have changed since training
    evaluation = evaluate(translator, pairs)
    records = read_metrics(RunDirectory(run.path).metrics)
    validations = [record for record in records if record["kind"] == "validation"]
    error = None
    if "alignment_error" in measures and run.config.model.attention.score != "none":
        error = forced_alignment_error(translator, pairs)
    kinds: list[KindScores] = []
    if {"lost", "copied"} & set(measures):
        again = partial(translate_all, translator, options=translator.options())
        kinds = measure_robustness(pairs, evaluation, again).kinds
    phenomena, challenge, challenge_sha256 = dict[str, float](), None, None
    if study.challenge:
        scored = score_challenge(translator, read_challenge(study.challenge)).phenomena
        phenomena = {each.phenomenon: each.total["percent"] for each in scored}
        challenge = scored[-1].total["percent"]  # of all, or of the only one
        challenge_sha256 = sha256(Path(study.challenge))
    shapes = find_checkpoint(run.path).shapes().values()
    return RunResult(
        config=run.config,
        test_sha256=checksum_of(pairs),
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
        alignment_error=None if error is None or error.aer is None else 100 * error.aer,
        lost=_mean([kind.lost for kind in kinds if kind.copied is None]),
        copied=_mean([kind.copied for kind in kinds if kind.copied is not None]),
        kinds={k.kind: k.lost for k in kinds if k.copied is None}
        | {f"{k.kind}, copied %": k.copied for k in kinds if k.copied is not None},
        challenge=challenge,
        phenomena=phenomena,
        challenge_sha256=challenge_sha256,
        hypotheses=tuple(evaluation.hypotheses),
        torch=str(torch.__version__),
    )


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _changed(changes: Mapping[str, str]) -> str:
    return (
        f"trained with another recipe or on other data: {join_messages(changes)}. Change it back, "
        "retrain with --overwrite, or choose another 'out'"
    )


# --- All runs


def unfinished(plan: Plan, pairs: Sequence[Pair], *, overwrite: bool) -> list[Run]:
    """Return the runs that are not finished.

    Raises, before anything is trained: ConfigError, which names them all, for runs that were
    trained with another recipe, unless `overwrite` is given; DataError for corpora and gold
    alignments that cannot be read.
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
        gold_of(pairs, split=WORDS["marks"])
    return left


def launcher_line(plan: Plan, run: Run, *, overwrite: bool = False) -> str:
    """Return the shell command that makes one run."""
    return plan.command(*_options(run, overwrite=overwrite))


def _options(run: Run, *, overwrite: bool) -> list[str]:
    return ["--cell", run.name, *(["--overwrite"] if overwrite else [])]


def run_study(
    plan: Plan, pairs: Sequence[Pair], *, jobs: int = 1, overwrite: bool = False
) -> tuple[str, dict[str, str]]:
    """Make all runs that are not finished, each in a process, `jobs` at a time.

    Several at a time have one thread each. Return how the study ended (finished, interrupted or
    terminated), and by the name of each failed run why it failed. Raises as `unfinished` does.
    """
    threads = ["training.threads=1"] if jobs > 1 else []

    def command(run: Run) -> list[str]:
        arguments = [plan.path, *plan.changes, *threads, *_options(run, overwrite=overwrite)]
        return [sys.executable, str(SCRIPT), *arguments]

    while True:
        left = unfinished(plan, pairs, overwrite=overwrite)
        total = len(plan.runs)
        scheduler = Scheduler(command, jobs=jobs, total=total, done=total - len(left))
        ended = scheduler.run(left)
        if ended != "finished" or scheduler.failed or not plan.undecided:
            return ended, scheduler.failed
        plan = decide(plan, pairs)


@dataclass
class _Job:
    run: Run
    process: subprocess.Popen[bytes]


@dataclass
class Scheduler:
    """Starts a process for each run, `jobs` at a time, and counts how they end."""

    command: Callable[[Run], list[str]]
    jobs: int
    total: int
    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # why, by the name of the run

    def run(self, runs: Sequence[Run]) -> str:
        """Make the runs; return finished, or why it stopped: interrupted or terminated.

        A run that fails is reported and does not stop the others. An interrupt (Ctrl-C, SIGTERM)
        is forwarded to the processes, which save, and no further one is started. A second one
        kills them all.
        """
        signals = {reason: number for number, reason in REASONS.items()}
        waiting, running = deque(runs), list[_Job]()
        with StopRequest(at_once=False) as stop, contextlib.ExitStack() as at_exit:
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
        return stop.reason or "finished"

    def _start(self, run: Run) -> _Job:
        log.info("%d of %d done; next: %s", self.done, self.total, run.name)
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
        return _Job(run, process)

    def _record(self, job: _Job, *, stopped: bool) -> None:
        code = job.process.returncode
        if code == 0:
            self.done += 1
        elif not stopped:
            why = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
            if self.jobs > 1:
                why += f"; see {job.run.path / OUTPUT}"
            self.failed[job.run.name] = why
            log.info("%s: FAILED (%s)", job.run.name, why)
