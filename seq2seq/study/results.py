"""A run is trained as far as it is not yet, measured on the test set, and recorded."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import ValidationError

from seq2seq.config import Config, Section, changed_keys, load_config
from seq2seq.data.corpus import Pair
from seq2seq.errors import CheckpointError, ConfigError
from seq2seq.evaluation.alignment import WORDS, align, alignment_error, gold_of
from seq2seq.evaluation.evaluate import evaluate
from seq2seq.files import write_atomic
from seq2seq.inference.translator import Translator
from seq2seq.pipeline import train
from seq2seq.runs.directory import RunDirectory
from seq2seq.runs.logs import read_metrics
from seq2seq.study.plan import Measure, Run

FILE = "result.json"


class Point(Section):
    """A validation while training; a number that is not finite is null."""

    step: int
    minutes: float
    loss: float | None
    bleu: float | None
    chrf: float | None


class Result(Section):
    """A run's recipe, its training, and its measures on the test set."""

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
        write_atomic(directory / FILE, text + "\n")


def load_result(directory: Path) -> Result | None:
    """Return the result of a run, or None where there is none.

    Raises CheckpointError for a file that is not what this program writes.
    """
    path = directory / FILE
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
    """Return a checksum of sentences, references and alignments of a test set."""
    rows = [[p.source, p.target, *p.references, p.alignment or ""] for p in pairs]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def alignment_error_percent(translator: Translator, pairs: Sequence[Pair]) -> float | None:
    """Return the error rate of the links of forced decoding, as `seq2seq align` counts it.

    None where the model has no attention, or the test set no gold links.
    """
    if translator.config.model.attention.score == "none":
        return None
    gold = gold_of(pairs, split=WORDS["marks"])
    if gold is None:
        return None
    rate = alignment_error(align(translator, pairs, split=WORDS["marks"]), gold).rate
    return None if rate is None else 100 * rate


def check_gold(pairs: Sequence[Pair]) -> None:
    """Raise DataError where the test set has gold links that cannot be used."""
    gold_of(pairs, split=WORDS["marks"])


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


log = logging.getLogger(__name__)


def complete(
    run: Run, measures: Sequence[Measure], pairs: Sequence[Pair], *, overwrite: bool = False
) -> str:
    """Train and measure a run, as far as it is not done; return why training ended.

    A run that was interrupted, now or before, goes on from its checkpoint. Raises ConfigError for
    one that was trained with another recipe, unless it is to be trained anew (`overwrite`), and
    UserError as training and translating do.
    """
    if run.config.training.threads:
        torch.set_num_threads(run.config.training.threads)
    status = status_of(run, measures, digest(pairs))
    if status.state == "finished" and status.result:
        log.info("%s: finished already", run.name)
        return status.result.ended
    if status.state == "changed" and not overwrite:
        raise ConfigError(f"{run.path}: {changed_text({run.name: status.changes})}")
    if status.state == "trained" and status.result:
        ended = status.result.ended
    else:
        (run.path / FILE).unlink(missing_ok=True)
        ended = _train(run, anew=status.state == "changed")
        if ended in ("interrupted", "terminated"):
            return ended
    began = time.monotonic()
    measure(run, measures, pairs, ended=ended).save(run.path)
    log.info("%s: measured in %.0f s", run.name, time.monotonic() - began)
    return ended


def measure(run: Run, measures: Sequence[Measure], pairs: Sequence[Pair], *, ended: str) -> Result:
    """Translate and score the test set with a trained run; gather what is known of its training."""
    translator = Translator.load(run.path, device=run.config.training.device)
    translator.config = run.config  # whose search may be newer than that of the training
    evaluation = evaluate(translator, pairs)
    records = read_metrics(RunDirectory(run.path).metrics)
    aligned = alignment_error_percent(translator, pairs) if "alignment_error" in measures else None
    validations = [record for record in records if record["kind"] == "validation"]
    [model] = translator.models
    return Result(
        config=run.config,
        test_sha256=digest(pairs),
        ended=ended,
        steps=int(validations[-1]["step"]),
        minutes=float(validations[-1]["minutes"]),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        curve=tuple(map(_point, validations)),
        measured=tuple(measures),
        bleu=evaluation.metrics["bleu"].score,
        chrf=evaluation.metrics["chrf"].score,
        signatures={name: metric.signature for name, metric in evaluation.metrics.items()},
        alignment_error=aligned,
        hypotheses=tuple(evaluation.hypotheses),
        torch=str(torch.__version__),
    )


def _train(run: Run, *, anew: bool) -> str:
    directory = RunDirectory(run.path)
    resume = not anew and any(directory.checkpoints.glob("step-*"))
    return train(run.config, resume=resume, overwrite=not resume)


def _point(record: dict[str, Any]) -> Point:
    return Point.model_validate({key: record[key] for key in Point.model_fields})
