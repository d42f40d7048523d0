"""From a run to its graphs, and what int8 costs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from seq2seq.data.cleaning import read_validation
from seq2seq.data.corpus import Pair
from seq2seq.device import multiplies_int8
from seq2seq.errors import ConfigError, DataError, UserError
from seq2seq.evaluation.evaluate import references_of
from seq2seq.evaluation.metrics import score
from seq2seq.export.run import ensure_graphs, export_graphs, record_int8_loss
from seq2seq.files import make_folder, write_atomic
from seq2seq.inference.onnx_backend import OnnxBackend
from seq2seq.inference.translator import Translator
from seq2seq.runs.directory import TOKENIZERS, RunDirectory, find_checkpoint, run_of
from seq2seq.runs.graphs import PRECISIONS, Graphs, Precision

log = logging.getLogger(__name__)


def export(
    run: str | Path,
    output: str | Path | None = None,
    precisions: Sequence[Precision] = PRECISIONS,
) -> Graphs:
    """Write the graphs of a run's best checkpoint, or of the checkpoint that the path names.

    They go into the run, or with the tokenizers and the recipe into the directory `output`. What
    int8 costs is measured on the recipe's validation set. Raises CheckpointError for a run that
    cannot be used, UserError for a checkpoint without `output` (a run has the graphs of its best
    one), DataError for a directory that cannot be written or is another run.
    """
    checkpoint, source = find_checkpoint(Path(run)), run_of(Path(run))
    target = source if output is None else RunDirectory(Path(output))
    if output is None and Path(run) != source.path:
        raise UserError(f"{run}: a checkpoint; name a directory for its graphs with --output")
    unknown = sorted({*precisions} - {*PRECISIONS})
    if unknown:
        raise ConfigError(f"unknown precision '{unknown[0]}'; use {' or '.join(PRECISIONS)}")
    if target is not source:
        _check_output(target, source)
        names = (*TOKENIZERS, source.config_path.name)
        source.tokenizers()  # before anything is written
        contents = [(source.path / name).read_bytes() for name in names]
        make_folder(target.path)
        for name, content in zip(names, contents, strict=True):
            write_atomic(target.path / name, content)
    graphs = export_graphs(checkpoint, source, target.graphs, precisions)
    if len(precisions) < len(PRECISIONS) or "int8_bleu_loss" in graphs.meta:
        return graphs
    try:
        valid = read_validation(source.config().data)
    except UserError as error:
        log.warning(
            "int8 was not measured, so --precision auto will not use it: %s (paths of the recipe "
            "start from the current directory)", error,
        )  # fmt: skip
        return graphs
    return _measure_int8(graphs, source, valid)


def _check_output(target: RunDirectory, source: RunDirectory) -> None:
    """Raise DataError for a directory that is not empty, unless it is an earlier export."""
    path = target.path
    if path.resolve().is_relative_to(source.path.resolve()):
        raise DataError(f"{path}: within the run itself; name a directory of its own")
    if target.checkpoints.exists():
        raise DataError(f"{path}: a run with checkpoints of its own; name another directory")
    if path.is_dir() and any(path.iterdir()) and not target.graphs.exists():
        raise DataError(f"{path}: not empty, and not an earlier export; name another directory")


def export_trained(run: RunDirectory, valid: list[Pair]) -> None:
    """Write the graphs that translating uses; without them it would make them at its first call."""
    try:
        checkpoint = run.best(run.config().training.metric)
        graphs = ensure_graphs(checkpoint, run)
        if "int8_bleu_loss" not in graphs.meta:
            _measure_int8(graphs, run, valid)
    except (OSError, UserError) as error:
        log.warning("%s: not exported (%s); training is complete", run.graphs, error)


def _measure_int8(graphs: Graphs, run: RunDirectory, valid: list[Pair]) -> Graphs:
    """Record what int8 costs on the validation set, if this processor can tell."""
    if not multiplies_int8():
        log.info("int8 was not measured: this processor has no instructions for it (VNNI)")
        return graphs
    config, (source, target) = run.config(), run.tokenizers()
    pairs = valid[: config.training.validation_sentences]
    found = []
    for precision in PRECISIONS:
        backend = OnnxBackend(graphs, precision, target.vocab_size)
        translator = Translator([backend], source, target, config)
        options = translator.options(beam_size=config.training.validation_beam)
        translations = translator.translate([pair.source for pair in pairs], options)
        texts = [best.text for [best] in translations]
        found.append(score(texts, references_of(pairs), metrics=("bleu",))["bleu"].score)
    full, int8 = found
    log.info("int8 instead of fp32: %.2f instead of %.2f BLEU", int8, full)
    return record_int8_loss(graphs, full - int8)
