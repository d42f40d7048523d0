"""A study from what is there to all of its runs finished."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.errors import ConfigError, DataError
from seq2seq.study.plan import Plan, Run
from seq2seq.study.result import digest
from seq2seq.study.scheduling import Progress, run_all
from seq2seq.study.state import Status, changed_text, status_of


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
        from seq2seq.study.aligning import check_gold

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
