"""Write the graphs of a checkpoint, with what a program needs to know of them."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from seq2seq.data.tokenizer import BOS, EOS, PAD, UNK
from seq2seq.errors import CheckpointError
from seq2seq.files import locked, naming, publish_directory, sha256, write_atomic
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
from seq2seq.onnx.weights import Model
from seq2seq.runs.checkpoint import Checkpoint
from seq2seq.runs.directory import RunDirectory
from seq2seq.version import VERSION

log = logging.getLogger(__name__)


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
    """Return the graphs of a run's checkpoint in the run, exported now if they are not there.

    Another process may have just done that. Raises what export_graphs does.
    """
    with locked(run.path):
        with contextlib.suppress(CheckpointError):  # damaged: made again
            found = read_graphs(run.graphs)
            if found and found.is_of(origin_of(run, checkpoint, run.config().model)):
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
    model = Model(config.model, source, target, arrays, origin=checkpoint.path)
    makers = encoder_graph, embedding_graph, step_graph
    graphs = {
        precision: {
            kind: _write(graph(model, precision=precision), folder / f"{kind}.{precision}.onnx")
            for kind, graph in zip(KINDS, makers, strict=True)
        }
        for precision in precisions
    }
    model.check_all_read()
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
    with contextlib.suppress(CheckpointError):  # what was measured of the same weights holds still
        before = read_graphs(run.graphs)
        if before and before.is_of(origin) and before.meta.get("program") == meta["program"]:
            cost = before.meta.get("int8_bleu_loss", cost)
    if isinstance(cost, float) and "int8" in precisions:
        meta["int8_bleu_loss"] = cost
    _write_meta(folder, meta)
    return meta


def record_int8_loss(graphs: Graphs, bleu: float) -> Graphs:
    """Record how much BLEU int8 costs on the validation set, for `--precision auto`.

    Measuring takes minutes. If another process has exported other graphs into the folder in the
    meantime, nothing is recorded.
    """
    cost = {"int8_bleu_loss": round(bleu, 3)}
    with locked(graphs.path.parent):
        found = read_graphs(graphs.path)
        if found and found.is_of({key: graphs.meta[key] for key in ("weights", "graphs")}):
            _write_meta(graphs.path, found.meta | cost)
        else:
            log.warning(
                "%s: exported again meanwhile; what int8 costs is not recorded", graphs.path
            )
    return replace(graphs, meta=graphs.meta | cost)


def _write_meta(folder: Path, meta: dict[str, Any]) -> None:
    write_atomic(folder / META, json.dumps(meta, indent=1) + "\n")


def _write(graph: onnx.ModelProto, path: Path) -> dict[str, Any]:
    """Write a graph; return its file, checksum, inputs and outputs."""
    with naming(path):
        path.write_bytes(graph.SerializeToString())
    return {
        "file": path.name,
        "sha256": sha256(path),
        "inputs": dict(map(_described, graph.graph.input)),
        "outputs": dict(map(_described, graph.graph.output)),
    }


def _described(value: onnx.ValueInfoProto) -> tuple[str, list[Any]]:
    """Return the name of an input or output, its type and its shape."""
    tensor = value.type.tensor_type
    shape = [axis.dim_param or axis.dim_value for axis in tensor.shape.dim]
    return value.name, [onnx.TensorProto.DataType.Name(tensor.elem_type).lower(), shape]
