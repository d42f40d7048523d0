"""The exported graphs of a run, and what is checked before ONNX Runtime reads them.

graph/graph.json                   what the graphs were made from, and their checksums
graph/encoder.fp32.onnx            source pieces to the memory and the first state
graph/embedding.fp32.onnx          target pieces to the products of their embeddings in a step
graph/step.fp32.onnx               one target piece to the next probabilities and state
graph/*.int8.onnx                  the same with products of 8-bit integers

docs/export.md describes the format. seq2seq.onnx.export writes it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from seq2seq.errors import CheckpointError
from seq2seq.files import sha256
from seq2seq.runs.checkpoint import Checkpoint
from seq2seq.runs.directory import TOKENIZERS, RunDirectory

if TYPE_CHECKING:
    from seq2seq.config import ModelConfig

META = "graph.json"
FORMAT = 2
Precision = Literal["fp32", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
KINDS = ("encoder", "embedding", "step")
MAX_BLEU_LOSS = 0.2
# What seq2seq.onnx.model writes; none of them opens a file, loops without end or runs code.
OPERATORS = frozenset({
    "Abs", "Add", "Cast", "Concat", "Div", "Expand", "Gather", "GatherND", "Identity",
    "LayerNormalization", "Log", "LogSoftmax", "MatMul", "Max", "Mul", "QuantizeLinear",
    "ReduceMax", "ReduceMean", "ReduceSum", "Reshape", "Scan", "Shape",
    "Sigmoid", "Slice", "Softmax", "Split", "Squeeze", "Sub", "Tanh", "Transpose",
    "Unsqueeze", "com.microsoft.MatMulIntegerToFloat",
})  # fmt: skip
AGAIN = "; export the run again"  # the end of messages about graphs


@dataclass(frozen=True)
class Graphs:
    """A folder of graphs and its description."""

    path: Path
    meta: dict[str, Any]

    def matches(self, origin: dict[str, Any]) -> bool:
        """Return whether the description has all of these keys with these values."""
        return {key: self.meta.get(key) for key in origin} == origin

    @property
    def precisions(self) -> list[str]:
        """The precisions of the graphs."""
        return list(self.meta["graphs"])

    @property
    def int8_is_good(self) -> bool:
        """Whether int8 is known to cost less than 0.2 BLEU on the validation set."""
        cost = self.meta.get("int8_bleu_loss")
        return "int8" in self.precisions and isinstance(cost, float) and cost < MAX_BLEU_LOSS

    def files(self, precision: str) -> Iterator[Path]:
        """Yield the files of the graphs in the order of KINDS, checked.

        Raises CheckpointError for what must not be loaded.
        """
        if precision not in self.precisions:
            raise CheckpointError(
                f"{self.path}: exported in {', '.join(self.precisions)} only, not in {precision}; "
                f"use --precision {self.precisions[0]}, or export the run again"
            )
        described = self.meta["graphs"][precision]
        for kind in KINDS:
            yield self._checked(described[kind])

    def _checked(self, described: dict[str, str]) -> Path:
        path = self.path / Path(described["file"]).name
        try:
            graph = path.read_bytes()
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read ({error.strerror}){AGAIN}") from None
        except ValueError as error:  # a name that no file can have
            raise CheckpointError(f"{self.path / META}: damaged ({error}){AGAIN}") from None
        if hashlib.sha256(graph).hexdigest() != described["sha256"]:
            raise CheckpointError(f"{path}: damaged, it does not match its checksum{AGAIN}")
        check_graph(graph, path)
        return path


def read_graphs(folder: Path) -> Graphs | None:
    """Return the graphs in a folder, or None if there are none.

    Raises CheckpointError if their description is damaged or of another format.
    """
    path = folder / META
    try:
        meta = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}){AGAIN}") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: damaged ({error}){AGAIN}") from None
    found = meta.get("format") if isinstance(meta, dict) else None
    if found != FORMAT:
        raise CheckpointError(
            f"{path}: graph format {found}, but this program reads format {FORMAT}{AGAIN}"
        )
    try:
        texts = [meta["weights"], *(meta["tokenizers"][name] for name in TOKENIZERS)]
        for described, kind in itertools.product(meta["graphs"].values(), KINDS):
            texts += [described[kind]["file"], described[kind]["sha256"]]
    except (AttributeError, KeyError, TypeError):
        raise CheckpointError(f"{path}: damaged, keys are missing{AGAIN}") from None
    if not meta["graphs"] or not all(isinstance(text, str) for text in texts):
        raise CheckpointError(f"{path}: damaged, it does not name its graphs{AGAIN}")
    return Graphs(folder, meta)


def origin_of(
    run: RunDirectory, checkpoint: Checkpoint | None = None, model: ModelConfig | None = None
) -> dict[str, Any]:
    """Return what the graphs of a run are made from, under the keys of their description.

    Without a checkpoint and its model, only the files that an export without weights has.
    """
    try:
        origin: dict[str, Any] = {
            "tokenizers": {name: sha256(run.path / name) for name in TOKENIZERS}
        }
    except OSError as error:
        raise CheckpointError(f"{error.filename}: cannot be read ({error.strerror})") from None
    if checkpoint is not None and model is not None:
        origin["weights"] = checkpoint.weights_sum
        origin["model"] = model.model_dump(mode="json")
    return origin


def check_graph(graph: bytes, path: Path) -> None:
    """Raise CheckpointError for a graph that is not safe to load.

    A safe graph contains its weights (external data could be any file of the machine), and only
    operators that the export uses. Nothing is executed, and only the structure is read.
    """
    try:
        used = set(_operators(memoryview(graph)))
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: not an ONNX graph that can be used ({error})") from None
    unknown = sorted(used - OPERATORS)
    if unknown:
        raise CheckpointError(
            f"{path}: it has the operator {unknown[0]}, which seq2seq does not write; export the "
            "run again, and do not use graphs from elsewhere"
        )


# Field numbers of onnx.proto: where nodes, subgraphs and tensors are, from a model downwards.
_OPERATOR, _DOMAIN = 4, 7  # of a node
_NESTED = {
    "model": {7: "graph"},
    "graph": {1: "node", 5: "tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
}
_REFUSED = {
    ("model", 20): "graphs for training",
    ("model", 25): "functions",
    ("graph", 15): "sparse weights",
    ("tensor", 13): "weights in another file",
    ("attribute", 22): "sparse weights",
    ("attribute", 23): "sparse weights",
}


def _operators(message: memoryview, kind: str = "model", depth: int = 0) -> Iterator[str]:
    """Yield the operators of all nodes in a protocol buffer, subgraphs included.

    Those that are not of ONNX itself have their domain before them.
    """
    if depth > 16:
        raise ValueError("nested too deeply")
    names, domains = [], []
    for field, value in _fields(message):
        if (kind, field) in _REFUSED:
            raise ValueError(f"it has {_REFUSED[kind, field]}")
        if kind == "node" and field == _OPERATOR:
            names.append(str(value, "utf-8"))
        if kind == "node" and field == _DOMAIN:
            domains.append(str(value, "utf-8"))
        if field in _NESTED.get(kind, ()):
            yield from _operators(value, _NESTED[kind][field], depth + 1)
    for name, domain in itertools.product(names, domains or [""]):
        yield name if domain in ("", "ai.onnx") else f"{domain}.{name}"


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield number and content of the fields of a protocol buffer; numbers have no content."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        if key >> 32:  # some readers would drop these bits, and see another field
            raise ValueError("a field number of more than 29 bits")
        size, wire = 0, key & 7
        if wire == 0:
            _, at = _varint(message, at)
        elif wire == 2:
            size, at = _varint(message, at)
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if at + size > len(message):
            raise ValueError("cut short")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return a number, seven bits a byte, and where it ends."""
    number = shift = 0
    while True:
        byte = message[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
