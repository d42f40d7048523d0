"""Export a run: copy it, with its weights as they are or in int8, and write ONNX files.

The ONNX files are for other programs and for browsers (docs/export.md); seq2seq builds its own.

graph/graph.json                   a description of the files
graph/encoder.fp32.onnx            source pieces to the memory and the first state
graph/embedding.fp32.onnx          target pieces to the products of their embeddings in a step
graph/step.fp32.onnx               one target piece to the next probabilities and state
graph/*.int8.onnx                  the same with products of 8-bit integers
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizer import BOS, EOS, PAD, UNK
from seq2seq.errors import ConfigError, DataError, UserError
from seq2seq.evaluation.evaluate import check_direction, read_test, references_of
from seq2seq.evaluation.metrics import score
from seq2seq.files import make_folder, publish_directory, remove_directory, write_atomic
from seq2seq.inference.onnx_backend import build_graphs
from seq2seq.inference.translator import Translator
from seq2seq.onnx import PRECISIONS, Precision
from seq2seq.packaged import find_run
from seq2seq.runs.checkpoint import MODEL, Checkpoint, add_to_state, list_checkpoints, save_arrays
from seq2seq.runs.directory import TOKENIZERS, RunDirectory, find_checkpoint, run_of
from seq2seq.runs.tensors import compact as compacted
from seq2seq.runs.tensors import read_arrays, read_weights
from seq2seq.version import VERSION

log = logging.getLogger(__name__)

FORMAT = 1  # of the description
META = "graph.json"
_COSTS = {"compact_bleu_loss", "int8_bleu_loss"}
_NOT_MEASURED = (
    "int8 was not measured, so --precision auto will not use it; export with --valid FILE to "
    "measure it on a validation set"
)


def export(
    run: str | Path,
    output: str | Path,
    precisions: Sequence[Precision] = PRECISIONS,
    *,
    compact: bool = False,
    valid: Sequence[Pair] = (),
) -> Checkpoint:
    """Write a run's best checkpoint, or the one that the path names, as a run of its own.

    Files that only training and resuming need are left out. Beside the weights there are ONNX files
    in these precisions; with `compact` the weights are in int8, without ONNX files. The cost of
    int8 is measured on the pairs `valid` and recorded in the state of the checkpoint:
    `int8_bleu_loss` for products in int8, and `compact_bleu_loss` for compact weights. Without
    `valid`, a cost that was recorded for the same weights is kept. The recipe's validation set is
    not read: the run may come from anyone, and its recipe may name any file. Raises CheckpointError
    for a run that cannot be used, DataError for a directory that cannot be written or is another
    run.
    """
    checkpoint, source = _find(run)
    if compact:
        precisions = ()
    # A run that cannot be exported is refused here, before anything is written or replaced.
    graphs = _build(checkpoint, source, precisions or ("fp32",))
    target = _directory(source, output)
    kept = {"step", "validation"} | (set() if compact else _COSTS)
    state = {key: value for key, value in checkpoint.state.items() if key in kept}
    weights = checkpoint.path / MODEL
    arrays = compacted(read_weights(weights)) if compact else read_arrays(weights)
    remove_directory(target.graphs)
    remove_directory(target.checkpoints)
    _copy(source, target)
    target.checkpoints.mkdir()
    made = save_arrays(target.checkpoints / checkpoint.path.name, arrays, state)
    if valid:
        costs = _int8_cost(made, valid)
        if compact:
            bleu = _bleu(made, "fp32", valid)
            cost = _bleu(checkpoint, "fp32", valid) - bleu
            costs["compact_bleu_loss"] = round(cost, 3)
            log.info("int8 weights instead of fp32: %.2f instead of %.2f BLEU", bleu, bleu + cost)
        made = add_to_state(made, costs)
    elif "int8_bleu_loss" not in state:
        log.info(_NOT_MEASURED)
    if precisions:
        _write(graphs, made, target)
    return made


def export_graphs(
    run: str | Path, folder: Path, precisions: Sequence[Precision] = PRECISIONS
) -> None:
    """Write the ONNX files of a run with its tokenizers and recipe, but without weights.

    Other programs need no more; this one cannot translate with them. Raises as `export` does.
    """
    checkpoint, source = _find(run)
    graphs, target = _build(checkpoint, source, precisions), RunDirectory(folder)
    make_folder(folder)
    _copy(source, target)
    _write(graphs, checkpoint, target)


def _find(run: str | Path) -> tuple[Checkpoint, RunDirectory]:
    path = find_run(run)
    return find_checkpoint(path), run_of(path)


def _build(
    checkpoint: Checkpoint, run: RunDirectory, precisions: Sequence[Precision]
) -> dict[Precision, dict[str, bytes]]:
    """Return the serialized graphs of each precision by their kinds."""
    unknown = sorted({*precisions} - {*PRECISIONS})
    if unknown:
        raise ConfigError(f"unknown precision '{unknown[0]}'; use {' or '.join(PRECISIONS)}")
    model, sizes = run.config().model, _sizes(run)
    return {each: build_graphs(checkpoint, model, sizes, each) for each in precisions}


def _sizes(run: RunDirectory) -> tuple[int, int]:
    source, target = run.tokenizers()
    return source.vocab_size, target.vocab_size


def _write(
    graphs: dict[Precision, dict[str, bytes]], checkpoint: Checkpoint, run: RunDirectory
) -> None:
    """Write the graphs of a checkpoint and their description into the directory of an export."""
    config, (source, target) = run.config(), _sizes(run)
    meta = {
        "format": FORMAT,
        "program": f"seq2seq {VERSION}",
        "checkpoint": checkpoint.path.name,
        "weights": checkpoint.weights_sum,
        "vocabulary": {"source": source, "target": target},
        "special_pieces": {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS},
        "model": config.model.model_dump(mode="json"),
        "inference": config.inference.model_dump(),
        "graphs": {
            precision: {kind: {"file": f"{kind}.{precision}.onnx"} for kind in built}
            for precision, built in graphs.items()
        },
    }
    with publish_directory(run.graphs) as partial:
        for precision, built in graphs.items():
            for kind, graph in built.items():
                write_atomic(partial / f"{kind}.{precision}.onnx", graph)
        write_atomic(partial / META, json.dumps(meta, indent=1) + "\n")


def _directory(source: RunDirectory, output: str | Path) -> RunDirectory:
    """Return the directory to export a run into.

    Raises DataError for one that is neither empty nor an earlier export.
    """
    target = RunDirectory(Path(output))
    path = target.path
    if path.resolve().is_relative_to(source.path.resolve()):
        raise DataError(f"{path}: within the run itself; name a directory of its own")
    found = list_checkpoints(target.checkpoints, pattern="*")
    exported = {checkpoint.path for checkpoint in found if "progress" not in checkpoint.state}
    if target.sources_path.exists() or {*target.checkpoints.glob("*")} - exported:
        raise DataError(f"{path}: a run with checkpoints of its own; name another directory")
    earlier = target.config_path.exists() and (target.graphs.exists() or bool(exported))
    if path.is_dir() and any(path.iterdir()) and not earlier:
        raise DataError(f"{path}: not empty, and not an earlier export; name another directory")
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


def measure_trained(run: RunDirectory, valid: Sequence[Pair]) -> None:
    """Record the cost of int8 on the validation set in a trained run's best checkpoint."""
    try:
        checkpoint = run.best(run.config().training.metric)
        if "int8_bleu_loss" in checkpoint.state:
            return
        add_to_state(checkpoint, _int8_cost(checkpoint, valid))
    except (OSError, UserError) as error:
        log.warning("%s: int8 was not measured (%s); training is complete", run.path, error)


def _int8_cost(checkpoint: Checkpoint, valid: Sequence[Pair]) -> dict[str, float]:
    """Return how much BLEU products in int8 cost; measuring takes minutes."""
    full, int8 = (_bleu(checkpoint, precision, valid) for precision in PRECISIONS)
    log.info("int8 instead of fp32: %.2f instead of %.2f BLEU", int8, full)
    return {"int8_bleu_loss": round(full - int8, 3)}


def _bleu(checkpoint: Checkpoint, precision: Precision, valid: Sequence[Pair]) -> float:
    """Return the BLEU of a checkpoint on the validation set, with the beam of validation."""
    translator = Translator.load(checkpoint.path, device="cpu", precision=precision)
    config, language = translator.config.training, translator.config.data.target_language
    pairs = valid[: config.validation_sentences]
    options = translator.options(beam_size=config.validation_beam)
    translations = translator.translate([pair.source for pair in pairs], options)
    texts = [best.text for [best] in translations]
    return score(texts, references_of(pairs), language, metrics=("bleu",))["bleu"].score
