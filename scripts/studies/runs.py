"""The runs of a study: their states and results, and how they are made."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import math
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from pydantic import Field, ValidationError

from seq2seq.analysis.alignment import forced_alignment_error
from seq2seq.config import Config, Section, changed_keys, load_config
from seq2seq.config.loading import dump_config
from seq2seq.data.corpus import Pair
from seq2seq.data.sources import checksum_sources, read_checksums
from seq2seq.errors import CheckpointError, ConfigError
from seq2seq.evaluation.challenge import read_challenge, score_challenge
from seq2seq.evaluation.evaluate import evaluate, translate_all
from seq2seq.evaluation.robustness import KindScores, measure_robustness
from seq2seq.files import sha256, write_atomic
from seq2seq.inference.translator import Translator
from seq2seq.runs.directory import RunDirectory, find_checkpoint
from seq2seq.runs.logs import read_metrics
from studies.plan import Cell, Measure, Plan, Run, Study

log = logging.getLogger(__name__)

RESULT = "result.json"
_CURVE = ("step", "minutes", "loss", "bleu", "chrf")
# Keys that do not affect the result, and keys that affect only how it is measured.
_IRRELEVANT = (
    "run_dir", "data.cache", "data.processes", "training.threads", "training.tensorboard",
)  # fmt: skip
_NOT_TRAINING = (*_IRRELEVANT, "inference", "data.test")


class RunResult(Section):
    """The recipe of a run, its training, and its measures on the test set."""

    config: Config
    test_sha256: str
    ended: str  # finished, or early
    steps: int
    minutes: float  # of training, validations included
    parameters: int
    # Validations: step, minutes, loss, BLEU and chrF; what is not finite is null.
    curve: tuple[dict[str, float | None], ...]
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


def finished_result(run: Run, study: Study, test_sha256: str) -> RunResult | None:
    """Return the result of a run if it was trained and measured as the study asks."""
    result = load_result(run.path)
    finished = (
        result is not None
        and not changes_of(run, result)
        and not _changes(result.config, run.config, _IRRELEVANT)
        and result.test_sha256 == test_sha256
        and set(study.measure) <= set(result.measured)
        and (not study.challenge or result.challenge_sha256 == sha256(Path(study.challenge)))
    )
    return result if finished else None


def changes_of(run: Run, result: RunResult | None) -> str:
    """Return how a recipe and its files differ from those that a run was trained with, in words."""
    directory = RunDirectory(run.path)
    if result is None and not directory.config_path.is_file():
        return ""
    old = result.config if result else load_config(directory.config_path)
    before, now = {}, dict[str, str]()
    if directory.sources_path.exists():
        before, now = read_checksums(directory.sources_path), _checksum_sources(run.config.data)
    # Data that is gone has not changed: finished runs need none.
    files = [f"{key} has new content" for key in before if now.get(key, before[key]) != before[key]]
    return _changes(old, run.config, _NOT_TRAINING) or ", ".join(files)


_checksum_sources = functools.cache(checksum_sources)  # most runs of a study share their files


def same_training(one: Config, other: Config) -> bool:
    """Tell whether two recipes differ at most by how their model is measured."""
    return not _changes(one, other, _NOT_TRAINING)


def _changes(old: Config, new: Config, ignored: Sequence[str]) -> str:
    return ", ".join(
        f"{key} was {before!r} and is {now!r}"
        for key, (before, now) in changed_keys(old, new).items()
        if not any(f"{key}.".startswith(f"{prefix}.") for prefix in ignored)
    )


def chosen(cell: Cell) -> list[Run]:
    """Return the runs of the value with the lowest validation loss at the end, a run a seed.

    Empty where values are still to be tried.
    """
    losses = []
    for first, *_ in cell.options if len(cell.options) > 1 else ():
        result = load_result(first.path)
        if result is None or changes_of(first, result):
            return []
        loss = result.curve[-1]["loss"]
        losses.append(math.inf if loss is None else loss)
    return cell.options[losses.index(min(losses)) if losses else 0]


def make_cell(cell: Cell, plan: Plan, pairs: Sequence[Pair]) -> str:
    """Make the runs of a cell that are not finished: first those that try its values.

    Return why training ended: finished, interrupted or terminated. Raises as `make_run` does.
    """
    for run in _in_order(cell):
        ended = make_run(run, plan, pairs)
        if ended in ("interrupted", "terminated"):
            return ended
    return "finished"


def _in_order(cell: Cell) -> Iterator[Run]:
    """Yield the runs that try the values of a cell and, once these are made, those of the best."""
    yield from (option[0] for option in cell.options)
    yield from chosen(cell)


def make_run(run: Run, plan: Plan, pairs: Sequence[Pair]) -> str:
    """Train and measure a run as far as it is not done; return why training ended.

    An interrupted run continues from its checkpoint. One that differs from a trained one only by
    its search starts from a copy of it. Raises ConfigError for a run that was trained with another
    recipe, and UserError as training and translating do.
    """
    from seq2seq.pipeline import train

    if not run.path.exists() and (twin := _same_training(run, plan)):
        log.info("%s: trained as %s, which is copied", run.name, twin.name)
        shutil.copytree(twin.path, run.path)
        write_atomic(RunDirectory(run.path).config_path, dump_config(run.config))
    if result := finished_result(run, plan.study, checksum_of(pairs)):
        log.info("%s: already finished", run.name)
        return result.ended
    result = load_result(run.path)
    if changes := changes_of(run, result):
        raise ConfigError(
            f"{run.path}: trained with another recipe or on other data: {changes}. Change it back, "
            "delete this folder to train it again, or choose another 'out'"
        )
    if result:
        ended = result.ended
    else:
        resume = any(RunDirectory(run.path).checkpoints.glob("step-*"))
        ended = train(run.config, resume=resume, overwrite=not resume)
        if ended in ("interrupted", "terminated"):
            return ended
    _measure(run, plan.study, pairs, ended=ended).save(run.path)
    return ended


def _same_training(run: Run, plan: Plan) -> Run | None:
    """Return a trained run that differs only by how it is measured."""
    for other in (other for cell in plan.cells for option in cell.options for other in option):
        # Planned recipes are compared first: results, which hold all translations, are large.
        if same_training(other.config, run.config):
            result = load_result(other.path)
            if result and not changes_of(other, result):
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
        source = run.config.data.source_language
        kinds = measure_robustness(pairs, evaluation, again, source).kinds
    lost = {kind.kind: kind.lost for kind in kinds if kind.copied is None}
    copied = {f"{kind.kind}, copied %": kind.copied for kind in kinds if kind.copied is not None}
    phenomena, challenge_sha256 = dict[str, float](), None
    if study.challenge:
        scored = score_challenge(translator, read_challenge(study.challenge)).phenomena
        phenomena = {each.phenomenon: each.total["percent"] for each in scored}
        challenge_sha256 = sha256(Path(study.challenge))
    shapes = find_checkpoint(run.path).shapes().values()
    return RunResult(
        config=run.config,
        test_sha256=checksum_of(pairs),
        ended=ended,
        steps=int(validations[-1]["step"]),
        minutes=float(validations[-1]["minutes"]),
        parameters=sum(map(math.prod, shapes)),
        curve=tuple({key: record[key] for key in _CURVE} for record in validations),
        measured=tuple(measures),
        bleu=evaluation.metrics["bleu"].score,
        chrf=evaluation.metrics["chrf"].score,
        signatures={name: metric.signature for name, metric in evaluation.metrics.items()},
        alignment_error=None if error is None or error.aer is None else 100 * error.aer,
        lost=fmean(lost.values()) if lost else None,
        copied=fmean(copied.values()) if copied else None,
        kinds=lost | copied,
        challenge=next(reversed(phenomena.values()), None),  # of all, or of the only one
        phenomena=phenomena,
        challenge_sha256=challenge_sha256,
        hypotheses=tuple(evaluation.hypotheses),
        torch=str(torch.__version__),
    )
