"""How far a run is, by what is in its directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from seq2seq.config import Config, changed_keys, load_config
from seq2seq.study.plan import Run
from seq2seq.study.result import Result, load_result
from seq2seq.study.spec import Measure

State = Literal["waiting", "begun", "trained", "finished", "changed"]

_UNIMPORTANT = (
    "run_dir", "data.cache", "data.processes", "training.threads", "training.tensorboard",
)  # fmt: skip
_OF_MEASURING = ("inference", "data.test")


@dataclass(frozen=True)
class Status:
    """The state of a run.

    waiting: nothing there; begun: training goes on from its checkpoint; trained: to be measured,
    because the search, the test set or the measures are new; changed: its recipe was another one.
    """

    state: State
    result: Result | None = None
    changes: str = ""  # of the recipe


def status_of(run: Run, measures: Sequence[Measure], test_sha256: str) -> Status:
    """Return how far a run is. Raises CheckpointError for a damaged result."""
    result = load_result(run.path)
    if result is None:
        saved = run.path / "config.yaml"
        if not saved.is_file():
            return Status("waiting")
        changes = _changes(load_config(saved), run.config, (*_UNIMPORTANT, *_OF_MEASURING))
        return Status("changed", changes=changes) if changes else Status("begun")
    changes = _changes(result.config, run.config, (*_UNIMPORTANT, *_OF_MEASURING))
    if changes:
        return Status("changed", result, changes)
    of_measuring = _changes(result.config, run.config, _UNIMPORTANT)
    same_test = result.test_sha256 == test_sha256
    if of_measuring or not same_test or not set(measures) <= set(result.measured):
        return Status("trained", result)
    return Status("finished", result)


def changed_text(changes: Mapping[str, str]) -> str:
    """Return the words for runs whose recipe was another one; the same change is told once."""
    by_change: dict[str, list[str]] = {}
    for name, text in changes.items():
        by_change.setdefault(text, []).append(name)
    told = "; ".join(f"{', '.join(names)}: {text}" for text, names in by_change.items())
    return (
        f"made with another recipe: {told}. Change it back, train these anew (--overwrite), or "
        "choose another 'out'"
    )


def _changes(old: Config, new: Config, ignored: Sequence[str]) -> str:
    return ", ".join(
        f"{key} was {before!r} and is {now!r}"
        for key, (before, now) in changed_keys(old, new).items()
        if not any(f"{key}.".startswith(f"{prefix}.") for prefix in ignored)
    )
