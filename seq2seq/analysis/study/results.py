"""The recorded result of a run, and how far each run of a study is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from seq2seq.analysis.study.plan import Measure, Plan, Run
from seq2seq.config import Config, Section, changed_keys, load_config
from seq2seq.data.corpus import Pair
from seq2seq.errors import CheckpointError
from seq2seq.files import write_atomic

RESULT = "result.json"

# Keys that do not affect the result, and keys that affect only how it is measured.
_IRRELEVANT = (
    "run_dir", "data.cache", "data.processes", "training.threads", "training.tensorboard",
)  # fmt: skip
_MEASURING = ("inference", "data.test")


class Point(Section):
    """A validation during training; a number that is not finite is null."""

    step: int
    minutes: float
    loss: float | None
    bleu: float | None
    chrf: float | None


class Result(Section):
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
    hypotheses: tuple[str, ...]
    torch: str  # its version

    def save(self, directory: Path) -> None:
        """Write the result of a run into its directory."""
        text = json.dumps(self.model_dump(mode="json"), ensure_ascii=False, indent=1)
        write_atomic(directory / RESULT, text + "\n")


def load_result(directory: Path) -> Result | None:
    """Return the result of a run, or None if it has none.

    Raises CheckpointError for a file that this program did not write.
    """
    path = directory / RESULT
    try:
        return Result.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        why = str(error).splitlines()[0]
        raise CheckpointError(
            f"{path}: not a result of this version ({why}); remove it to measure the run again"
        ) from None


def digest(pairs: Sequence[Pair]) -> str:
    """Return a checksum of the sentences, references and alignments of a test set."""
    rows = [[p.source, p.target, *p.references, p.alignment or ""] for p in pairs]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


@dataclass(frozen=True)
class Status:
    """The state of a run.

    begun: training continues from its checkpoint; trained: to be measured, because the search, the
    test set or the measures are new; changed: trained with another recipe.
    """

    state: Literal["not started", "begun", "trained", "finished", "changed"]
    result: Result | None = None
    changes: str = ""  # of the recipe


def status_of(run: Run, measures: Sequence[Measure], test_sha256: str) -> Status:
    """Return how far a run is. Raises CheckpointError for a damaged result."""
    result = load_result(run.path)
    recipe = run.path / "config.yaml"
    if result is None and not recipe.is_file():
        return Status("not started")
    old = load_config(recipe) if result is None else result.config
    changes = _changes(old, run.config, (*_IRRELEVANT, *_MEASURING))
    if changes:
        return Status("changed", result, changes)
    if result is None:
        return Status("begun")
    measured_as_now = (
        not _changes(old, run.config, _IRRELEVANT)
        and result.test_sha256 == test_sha256
        and set(measures) <= set(result.measured)
    )
    return Status("finished" if measured_as_now else "trained", result)


def statuses(plan: Plan, pairs: Sequence[Pair]) -> dict[str, Status]:
    """Return how far each run is, by name. Raises CheckpointError for a damaged result."""
    test_sha256 = digest(pairs)
    return {run.name: status_of(run, plan.study.measure, test_sha256) for run in plan.runs}


def _changes(old: Config, new: Config, ignored: Sequence[str]) -> str:
    return ", ".join(
        f"{key} was {before!r} and is {now!r}"
        for key, (before, now) in changed_keys(old, new).items()
        if not any(f"{key}.".startswith(f"{prefix}.") for prefix in ignored)
    )
