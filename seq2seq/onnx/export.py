"""Exporting: write the graphs or the compact weights of a checkpoint, and measure int8's loss."""

from __future__ import annotations

import contextlib
import json
import logging
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizer import BOS, EOS, PAD, UNK
from seq2seq.errors import CheckpointError, ConfigError, DataError, UserError
from seq2seq.evaluation.evaluate import check_direction, read_test, references_of
from seq2seq.evaluation.metrics import score
from seq2seq.files import (
    locked,
    make_folder,
    naming,
    publish_directory,
    remove_directory,
    sha256,
    write_atomic,
)
from seq2seq.inference.translator import Translator
from seq2seq.onnx.backend import OnnxBackend
from seq2seq.onnx.builder import Parameters
from seq2seq.onnx.graphs import (
    FORMAT,
    KINDS,
    META,
    PRECISIONS,
    Graphs,
    Precision,
    origin_of,
    read_graphs,
)
from seq2seq.onnx.model import embedding_graph, encoder_graph, step_graph
from seq2seq.packaged import find_run, is_read_only
from seq2seq.runs.checkpoint import MODEL, Checkpoint, list_checkpoints, save_arrays
from seq2seq.runs.directory import TOKENIZERS, RunDirectory, find_checkpoint, run_of
from seq2seq.runs.tensors import compact, read_arrays
from seq2seq.version import VERSION

log = logging.getLogger(__name__)

_NOT_MEASURED = (
    "int8 was not measured, so --precision auto will not use it; export with --valid FILE to "
    "measure it on a validation set"
)


def export(
    run: str | Path,
    output: str | Path | None = None,
    precisions: Sequence[Precision] = PRECISIONS,
    *,
    valid: Sequence[Pair] = (),
) -> Graphs:
    """Write the graphs of a run's best checkpoint, or of the checkpoint that the path names.

    They go into the run, or with the tokenizers and the recipe into the directory `output`. What
    int8 costs is measured on the pairs `valid`; without them, what the run's own graphs of the same
    weights record is kept. The recipe's validation set is not read: the run may come from anyone,
    and its recipe may name any file. Raises CheckpointError for a run that cannot be used,
    UserError for a checkpoint without `output` (a run has the graphs of its best one), DataError
    for a directory that cannot be written or is another run.
    """
    path = find_run(run)
    checkpoint, source = find_checkpoint(path), run_of(path)
    if output is None and (path != source.path or is_read_only(path)):
        is_run = path == source.path
        kind = "a model of the program or the hub" if is_run else "a checkpoint"
        raise UserError(f"{run}: {kind}; name a directory for its graphs with --output")
    unknown = sorted({*precisions} - {*PRECISIONS})
    if unknown:
        raise ConfigError(f"unknown precision '{unknown[0]}'; use {' or '.join(PRECISIONS)}")
    if output is None:
        graphs = export_graphs(checkpoint, source, source.graphs, precisions)
    else:
        target = _directory(source, output)
        graphs = export_graphs(checkpoint, source, target.graphs, precisions)
        remove_directory(target.checkpoints)  # of an earlier compact export
        _copy(source, target)
    if len(precisions) < len(PRECISIONS):
        return graphs
    if valid:
        return _measure_int8(graphs, source, valid)
    if "int8_bleu_loss" not in graphs.meta:
        log.info(_NOT_MEASURED)
    return graphs


def export_compact(
    run: str | Path, output: str | Path, *, valid: Sequence[Pair] = ()
) -> Checkpoint:
    """Write the weights of a run's best checkpoint in int8, with what else translating needs.

    The directory `output` is a run from which graphs are made at the first use, and which can be
    fine-tuned. What int8 costs is measured on the pairs `valid`, if there are any, and kept in the
    state of its checkpoint: `compact_bleu_loss` by these weights alone, `int8_bleu_loss` by graphs
    of them that also compute in int8. Raises as `export` does.
    """
    path = find_run(run)
    checkpoint, source = find_checkpoint(path), run_of(path)
    target = _directory(source, output)
    kept = {"step", "validation"}
    state = {key: value for key, value in checkpoint.state.items() if key in kept}
    arrays = compact(checkpoint.arrays())
    with tempfile.TemporaryDirectory() as folder:
        # Weights that do not fit the recipe are noticed here, before anything is replaced.
        full = export_graphs(checkpoint, source, Path(folder) / "full", ["fp32"])
        remove_directory(target.graphs)
        remove_directory(target.checkpoints)
        _copy(source, target)
        target.checkpoints.mkdir()
        made = save_arrays(target.checkpoints / checkpoint.path.name, arrays, state)
        if not valid:
            log.info(_NOT_MEASURED)
            return made
        small = export_graphs(made, target, Path(folder) / "compact")
        bleu = _bleu(small, "fp32", target, valid)
        cost = _bleu(full, "fp32", target, valid) - bleu
        state["compact_bleu_loss"] = round(cost, 3)
        state["int8_bleu_loss"] = round(bleu - _bleu(small, "int8", target, valid), 3)
    log.info("int8 weights instead of fp32: %.2f instead of %.2f BLEU", bleu, bleu + cost)
    return save_arrays(made.path, arrays, state)


def export_run(run: str | Path, output: str | Path) -> Checkpoint:
    """Write a run's best checkpoint and its graphs, a run that translates the same, and return it.

    What training and resuming need is left out. Raises as `export` does.
    """
    graphs, checkpoint = export(run, output), find_checkpoint(find_run(run))
    kept = {"step", "validation", "compact_bleu_loss", "int8_bleu_loss"}
    state = {key: value for key, value in checkpoint.state.items() if key in kept}
    path = RunDirectory(Path(output)).checkpoints / checkpoint.path.name
    made = save_arrays(path, read_arrays(checkpoint.path / MODEL), state)
    # The file may differ, as its metadata does; the weights are the same.
    _write_meta(graphs.path, graphs.meta | {"weights": made.weights_sum})
    return made


def _directory(source: RunDirectory, output: str | Path) -> RunDirectory:
    """Return the directory to export a run into.

    Raises DataError for one that is neither empty nor an earlier export.
    """
    target = RunDirectory(Path(output))
    path = target.path
    if path.resolve().is_relative_to(source.path.resolve()):
        raise DataError(f"{path}: within the run itself; name a directory of its own")
    patterns = "step-*", target.average_path.name
    found = [c for name in patterns for c in list_checkpoints(target.checkpoints, pattern=name)]
    compact = {checkpoint.path for checkpoint in found if "progress" not in checkpoint.state}
    if target.sources_path.exists() or {*target.checkpoints.glob("*")} - compact:
        raise DataError(f"{path}: a run with checkpoints of its own; name another directory")
    earlier = target.config_path.exists() and (target.graphs.exists() or bool(compact))
    if path.is_dir() and any(path.iterdir()) and not earlier:
        raise DataError(f"{path}: not empty, and not an earlier export; name another directory")
    source.tokenizers()  # before anything is written
    make_folder(path)
    return target


def _copy(source: RunDirectory, target: RunDirectory) -> None:
    """Write tokenizers and recipe into the directory of an export."""
    for name in (*TOKENIZERS, source.config_path.name):
        write_atomic(target.path / name, (source.path / name).read_bytes())


def read_valid(run: str | Path, path: str, *, target: str | None = None) -> list[Pair]:
    """Return the pairs of a file, read like the validation set of a run.

    With `target` the sides are two files. Raises DataError as read_test and check_direction do.
    """
    translator = Translator.load(run)
    data = translator.config.data.model_copy(update={"test": None})
    pairs = read_test(path, data, target=target)
    check_direction(translator, pairs, path)
    return pairs


def export_trained(run: RunDirectory, valid: Sequence[Pair]) -> None:
    """Write the graphs of a trained run, and measure what int8 costs on its validation set."""
    try:
        checkpoint = run.best(run.config().training.metric)
        graphs = ensure_graphs(checkpoint, run)
        if "int8_bleu_loss" not in graphs.meta:
            _measure_int8(graphs, run, valid)
    except (OSError, UserError) as error:
        log.warning("%s: not exported (%s); training is complete", run.graphs, error)


def _measure_int8(graphs: Graphs, run: RunDirectory, valid: Sequence[Pair]) -> Graphs:
    """Record what int8 costs on a validation set.

    Measuring takes minutes. If another process has exported other graphs into the folder in the
    meantime, nothing is recorded.
    """
    full, int8 = (_bleu(graphs, precision, run, valid) for precision in PRECISIONS)
    log.info("int8 instead of fp32: %.2f instead of %.2f BLEU", int8, full)
    cost = {"int8_bleu_loss": round(full - int8, 3)}
    with locked(graphs.path.parent):
        found = read_graphs(graphs.path)
        if found and found.matches({key: graphs.meta[key] for key in ("weights", "graphs")}):
            _write_meta(graphs.path, found.meta | cost)
        else:
            log.warning(
                "%s: exported again meanwhile; what int8 costs is not recorded", graphs.path
            )
    return replace(graphs, meta=graphs.meta | cost)


def _bleu(graphs: Graphs, precision: Precision, run: RunDirectory, valid: Sequence[Pair]) -> float:
    """Return the BLEU of graphs on the validation set, with the beam of validation."""
    config, (source, target) = run.config(), run.tokenizers()
    pairs = valid[: config.training.validation_sentences]
    backend = OnnxBackend(graphs, precision, target.vocab_size)
    translator = Translator([backend], source, target, config)
    options = translator.options(beam_size=config.training.validation_beam)
    translations = translator.translate([pair.source for pair in pairs], options)
    texts = [best.text for [best] in translations]
    return score(texts, references_of(pairs), metrics=("bleu",))["bleu"].score


def export_graphs(
    checkpoint: Checkpoint,
    run: RunDirectory,
    folder: Path,
    precisions: Sequence[Precision] = PRECISIONS,
) -> Graphs:
    """Write the graphs of a run's checkpoint into a folder, which they replace, and return them.

    Raises CheckpointError for weights that do not fit the run's config, OSError where the folder
    cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent):
        return _export(checkpoint, run, folder, precisions)


def ensure_graphs(checkpoint: Checkpoint, run: RunDirectory) -> Graphs:
    """Return the graphs of a run's checkpoint, which are exported into the run if it lacks them.

    Raises as export_graphs does.
    """
    with locked(run.path):
        with contextlib.suppress(CheckpointError):  # damaged: export them again
            found = read_graphs(run.graphs)
            if found and found.matches(origin_of(run, checkpoint, run.config().model)):
                for precision in PRECISIONS:
                    list(found.files(precision))
                return found
        return _export(checkpoint, run, run.graphs, PRECISIONS)


def _export(
    checkpoint: Checkpoint, run: RunDirectory, folder: Path, precisions: Sequence[Precision]
) -> Graphs:
    with publish_directory(folder) as partial:
        meta = write_graphs(checkpoint, run, partial, precisions)
    log.info("%s: exported %s of %s", folder, " and ".join(precisions), checkpoint.path.name)
    return Graphs(folder, meta)


def write_graphs(
    checkpoint: Checkpoint,
    run: RunDirectory,
    folder: Path,
    precisions: Sequence[Precision] = PRECISIONS,
) -> dict[str, Any]:
    """Write graphs and their description into an empty folder; return the description."""
    config = run.config()
    source, target = (tokenizer.vocab_size for tokenizer in run.tokenizers())
    arrays = checkpoint.arrays()
    params = Parameters(config.model, source, target, arrays, origin=checkpoint.path)
    makers = encoder_graph, embedding_graph, step_graph
    graphs = {
        precision: {
            kind: _write(graph(params, precision=precision), folder / f"{kind}.{precision}.onnx")
            for kind, graph in zip(KINDS, makers, strict=True)
        }
        for precision in precisions
    }
    params.check_all_read()
    origin = origin_of(run, checkpoint, config.model)
    meta = {
        "format": FORMAT,
        "program": f"seq2seq {VERSION}",
        "checkpoint": checkpoint.path.name,
        **origin,
        "vocabulary": {"source": source, "target": target},
        "special_pieces": {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS},
        "inference": config.inference.model_dump(),
        "graphs": graphs,
    }
    cost = checkpoint.state.get("int8_bleu_loss")
    with contextlib.suppress(CheckpointError):  # a measurement of the same weights is still valid
        before = read_graphs(run.graphs)
        if before and before.matches(origin) and before.meta.get("program") == meta["program"]:
            cost = before.meta.get("int8_bleu_loss", cost)
    if isinstance(cost, float) and "int8" in precisions:
        meta["int8_bleu_loss"] = cost
    _write_meta(folder, meta)
    return meta


def _write_meta(folder: Path, meta: dict[str, Any]) -> None:
    write_atomic(folder / META, json.dumps(meta, indent=1) + "\n")


def _write(graph: onnx.ModelProto, path: Path) -> dict[str, str]:
    """Write a graph; return its file and checksum."""
    with naming(path):
        path.write_bytes(graph.SerializeToString())
    return {"file": path.name, "sha256": sha256(path)}
