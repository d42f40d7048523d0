"""The parts of graphs: nodes, constants, products in fp32 or int8, and trained weights.

An int8 product has signed weights with a scale for each output, and unsigned inputs with 128 for
zero. Inputs with a known bound have one fixed scale. All others are divided by the largest absolute
value of their own row. So no row depends on the other rows of its batch.

Legend: I inputs, O outputs, V vocabulary, E embedding size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from seq2seq.config import ModelConfig
from seq2seq.errors import CheckpointError
from seq2seq.onnx import Precision
from seq2seq.runs.tensors import Array, quantize_rows

OPSET = 17  # the first with LayerNormalization
IR_VERSION = 8  # of the same release, so that a runtime with the opset can read the file
MICROSOFT = "com.microsoft"  # the domain of ONNX Runtime's own operators
TINY = np.float32(1e-30)


class Graph:
    """A graph under construction; strings are the names of its values.

    The body of a Scan is a Graph with constants of its own: ONNX Runtime converts int8 weights to
    unsigned ones only in the graph of their product (see `_load` in inference/onnx_backend.py).
    """

    def __init__(self, name: str, precision: Precision) -> None:
        self.name, self.precision = name, precision
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self._count = 0
        self._constants: list[onnx.TensorProto] = []
        self._constant_names: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def __call__(self, op: str, *inputs: str | Array, **attributes: Any) -> str:
        """Add a node with one output; return the output's name. Arrays become constants."""
        return self.many(op, *inputs, outputs=1, **attributes)[0]

    def many(
        self, op: str, *inputs: str | Array, outputs: int, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Add a node; return the names of its outputs."""
        given = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        names = [self.fresh(op) for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, given, names, names[0], domain=domain, **attributes))
        return names

    def input(self, name: str, shape: Sequence[int | str], dtype: type = np.float32) -> str:
        """Add an input; axes that have a name instead of a size are dynamic."""
        self.inputs.append(_value_info(name, shape, dtype))
        return name

    def output(self, value: str, name: str, shape: Sequence[int | str]) -> None:
        """Make a node's value an output under this name; it must not be used afterwards."""
        for node in self.nodes:
            for names in (node.input, node.output):
                names[:] = [name if x == value else x for x in names]
        self.outputs.append(_value_info(name, shape, np.float32))

    def constant(self, array: Array) -> str:
        """Return the name of a constant; equal ones are stored once, float64 becomes float32."""
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constant_names:
            name = self._constant_names[key] = f"{self.name}_constant_{len(self._constants)}"
            self._constants.append(numpy_helper.from_array(array, name))
        return self._constant_names[key]

    def split(self, value: str, sizes: Sequence[int]) -> list[str]:
        """Split the last axis into parts of these sizes and return them."""
        if len(sizes) == 1:
            return [value]
        return self.many("Split", value, np.array(sizes), outputs=len(sizes), axis=-1)

    def concat(self, values: Sequence[str]) -> str:
        """Return values side by side along the last axis."""
        return values[0] if len(values) == 1 else self("Concat", *values, axis=-1)

    def product(
        self,
        value: str,
        weight_OI: Array,
        bias_O: Array | None = None,
        *,
        bound: float | None = 1.0,
    ) -> str:
        """Return W x + b over the last axis.

        In int8 all x are scaled by `bound`, and clipped to it; without a bound, each row is scaled
        by its largest |x|.
        """
        if self.precision == "fp32":
            product = self("MatMul", value, weight_OI.T)
        elif bound is not None:
            return self._int8_product(self._quantize(value, bound), bound / 127, weight_OI, bias_O)
        else:
            largest = self("ReduceMax", self("Abs", value), axes=[-1], keepdims=1)
            largest = self("Max", largest, TINY)
            integers = self._quantize(self("Div", value, largest), 1.0)
            product = self("Mul", self._int8_product(integers, 1 / 127, weight_OI), largest)
        return product if bias_O is None else self("Add", product, bias_O)

    def lookup(
        self, embedding_VE: Array, ids: str, weight_OE: Array, bias_O: Array | None = None
    ) -> str:
        """Return W e + b for the embeddings e of ids [...]; in int8, each row has its own scale."""
        if self.precision == "fp32":
            return self.product(self("Gather", embedding_VE, ids), weight_OE, bias_O)
        integers_VE, scale_V = quantize_rows(embedding_VE)
        unsigned_VE = (integers_VE.astype(np.int16) + 128).astype(np.uint8)
        product = self._int8_product(self("Gather", unsigned_VE, ids), 1.0, weight_OE)
        product = self("Mul", product, self("Gather", scale_V[:, None], ids))
        return product if bias_O is None else self("Add", product, bias_O)

    def proto(self) -> onnx.GraphProto:
        """Return the graph with its constants."""
        return helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self._constants)

    def model(self) -> onnx.ModelProto:
        """Return the complete model."""
        opsets = [helper.make_opsetid("", OPSET)]
        if self.precision == "int8":
            opsets.append(helper.make_opsetid(MICROSOFT, 1))
        return helper.make_model(
            self.proto(), opset_imports=opsets, ir_version=IR_VERSION, producer_name="seq2seq"
        )

    def _quantize(self, value: str, bound: float) -> str:
        return self("QuantizeLinear", value, np.float32(bound / 127), np.uint8(128))

    def _int8_product(
        self, integers: str, scale: float, weight_OI: Array, bias_O: Array | None = None
    ) -> str:
        weight_OI, scale_O = quantize_rows(weight_OI)
        biases: list[str | Array] = [] if bias_O is None else ["", bias_O]
        inputs = [integers, weight_OI.T, np.float32(scale), scale_O, np.uint8(128), *biases]
        return self("MatMulIntegerToFloat", *inputs, domain=MICROSOFT)

    def fresh(self, op: str) -> str:
        """Return a new name."""
        self._count += 1
        return f"{self.name}_{op}_{self._count}"


def _value_info(name: str, shape: Sequence[int | str], dtype: type) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
    )


@dataclass(frozen=True)
class Parameters:
    """The weights of a checkpoint, under the names of the parameters in seq2seq.model."""

    config: ModelConfig
    source_vocab: int
    target_vocab: int
    arrays: Mapping[str, Array]
    origin: Path  # for error messages
    _read: set[str] = field(default_factory=set)

    def __call__(self, name: str, *shape: int) -> Array:
        """Return weights in double precision, for products with other weights.

        Raises CheckpointError if they are missing or have another shape.
        """
        if name not in self.arrays:
            raise CheckpointError(
                f"{self.origin}: weights do not match the config: missing ['{name}']"
            )
        found = self.arrays[name]
        if found.shape != shape:
            raise CheckpointError(
                f"{self.origin}: {name} has the shape {found.shape}, but the config asks for "
                f"{shape}"
            )
        self._read.add(name)
        return found.astype(np.float64)

    def source_embedding(self) -> Array:
        """Return the embeddings of source pieces [V, E]."""
        if self.config.joint_embeddings:
            return self.target_embedding()
        return self("source_embedding.weight", self.source_vocab, self.config.embedding_size)

    def target_embedding(self) -> Array:
        """Return the embeddings of target pieces [V, E]; a shared matrix is stored only once."""
        if self.config.tie_target:
            return self.output_weight()
        name = "source" if self.config.joint_embeddings else "target"
        sizes = self.target_vocab, self.config.embedding_size
        return self(f"{name}_embedding.weight", *sizes)

    def output_weight(self) -> Array:
        """Return the matrix of the output projection [V, O]."""
        return self("output_weight", self.target_vocab, self.config.readout_width)

    def check_all_read(self) -> None:
        """Raise CheckpointError if there are weights that no graph has read."""
        if unknown := sorted(self.arrays.keys() - self._read)[:3]:
            raise CheckpointError(
                f"{self.origin}: weights do not match the config: unknown {unknown}"
            )
