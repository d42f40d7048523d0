"""A run is trained as far as it is not yet, measured on the test set, and recorded."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from typing import Any

import torch

from seq2seq.data.corpus import Pair
from seq2seq.errors import ConfigError
from seq2seq.evaluation.evaluate import evaluate
from seq2seq.inference.translator import Translator
from seq2seq.pipeline import train
from seq2seq.runs.directory import RunDirectory
from seq2seq.study.aligning import alignment_error_percent
from seq2seq.study.plan import Run
from seq2seq.study.result import FILE, Point, Result, digest
from seq2seq.study.spec import Measure
from seq2seq.study.state import changed_text, status_of

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
    records = _records(RunDirectory(run.path))
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


def _records(directory: RunDirectory) -> list[dict[str, Any]]:
    lines = directory.metrics.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
