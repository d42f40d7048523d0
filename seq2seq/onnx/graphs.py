"""A translation model as three ONNX graphs: encoder, target embedding, one step of the decoder.

encoder: `source` [B, S], padded with PAD on the right, to `state` [B, Z], the initial decoder state
of all layers side by side (and Luong's attentional state, if it is fed to the next step), and to
the memory: everything about a sentence that steps read.
embedding: `pieces` [N] to `inputs` [N, X], the products of their embeddings, as a step reads them.
They depend on nothing else and can be cached.
step: `inputs` [B, K, X], `state` [B, K, Z] and the memory to `log_probs` [B, K, V], `next_state`
[B, K, Z] and, with attention, `weights` [B, K, S].

The memory is `values` and, with attention, `keys` and `mask`; the mask is added to the scores and
is minus infinity at padding. Additive scores also have `energy`, their vector v, and the lexical
shortcut has `words`. The graphs are the functions of `seq2seq.model` up to rounding, after algebra
on the weights:

- W sum_s(a_s v_s) = sum_s(a_s W v_s), and the weights a_s of a sentence sum to one. So the matrix
  that a decoder multiplies the attention output by is joined with the projections before it, and
  the product is computed once per source position, with its bias.
- q'W'Kh = q'(W'K)h: dot products need only a projection of the keys.
- The input and hidden biases of r and z are added up in advance; those of n stay apart.

Legend: B sentences, K hypotheses per sentence, S source length, E embedding size, D state of a
decoder layer, Z whole state, h state of one direction of the encoder, H both directions, G = 3D
gates in the order r, z, n, A attention size, N heads, d key and m value size of one head,
M attention output size, X size of the product of an attention output or an embedding, Q query size,
O readout size, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import onnx
from onnx import TensorProto

from seq2seq.onnx import Precision
from seq2seq.onnx.builder import Graph, Parameters
from seq2seq.runs.tensors import Array

Shape = list[int | str]
Stepped = tuple[str, list[str], str | None]  # readout, next states, weights
_Norm = tuple[Array, Array] | None  # weight and bias


def encoder_graph(params: Parameters, *, precision: Precision) -> onnx.ModelProto:
    """Return the graph that computes the initial state and the memory of sources."""
    g, decoder = Graph("encoder", precision), _decoder(params)
    encoded = _encode(g, params)
    state = _initial_state(g, params, decoder, encoded)
    g.output(state, "state", ["B", sum(decoder.state_sizes)])
    values = decoder.attention.make_memory(g, encoded)
    for value, (name, shape) in zip(values, decoder.attention.memory.items(), strict=True):
        g.output(value, name, shape)
    if params.config.lexical:
        size = params.config.readout_width
        weight_OE = params("lexical.weight", size, params.config.embedding_size)
        words_BSO = g.lookup(params.source_embedding(), "source", weight_OE)
        g.output(words_BSO, "words", ["B", "S", size])
    return g.model()


def embedding_graph(params: Parameters, *, precision: Precision) -> onnx.ModelProto:
    """Return the graph that computes the products of target embeddings, as a step reads them."""
    g = Graph("embedding", precision)
    pieces = g.input("pieces", ["N"], np.int64)
    weight_XE, bias_X = _decoder(params).embedding
    inputs = g.lookup(params.target_embedding(), pieces, weight_XE, bias_X)
    g.output(inputs, "inputs", ["N", len(weight_XE)])
    return g.model()


def step_graph(params: Parameters, *, precision: Precision) -> onnx.ModelProto:
    """Return the graph that advances all hypotheses by one target piece."""
    g, config, decoder = Graph("step", precision), params.config, _decoder(params)
    inputs = g.input("inputs", ["B", "K", len(decoder.embedding[0])])
    sizes = decoder.state_sizes
    state = g.split(g.input("state", ["B", "K", sum(sizes)]), sizes)
    for name, shape in decoder.attention.memory.items():
        g.input(name, shape)
    readout, state, weights = decoder.step(g, inputs, state)
    if config.lexical and weights is not None:
        words = g.input("words", ["B", "S", config.readout_width])
        readout = g("Add", readout, g("Tanh", g("MatMul", weights, words)))
    bias_V = params("output_bias", params.target_vocab)
    bound = None if decoder.has_maxout or config.lexical else 1.0
    logits = g.product(readout, params.output_weight(), bias_V, bound=bound)
    g.output(g("LogSoftmax", logits, axis=-1), "log_probs", ["B", "K", len(bias_V)])
    g.output(g.concat(state), "next_state", ["B", "K", sum(sizes)])
    if weights is not None:
        g.output(weights, "weights", ["B", "K", "S"])
    return g.model()


class _Cell:
    """One GRU layer. Both biases of r and z, and n's input bias, are added to the inputs."""

    def __init__(self, params: Parameters, name: str, input_size: int, size: int) -> None:
        self.size = size
        self.sizes = [2 * size, size]  # of r and z, and of n
        self.input_GI = params(f"{name}.weight_input", 3 * size, input_size)
        self.hidden_GD = params(f"{name}.weight_hidden", 3 * size, size)
        self.input_bias_G, self.hidden_bias_D = np.zeros(3 * size), None
        self.norm_input: _Norm = None
        self.norm_hidden: _Norm = None
        if params.config.layer_norm:
            self.norm_input, self.norm_hidden = (
                (params(f"{name}.{norm}.weight", 3 * size), params(f"{name}.{norm}.bias", 3 * size))
                for norm in ("norm_input", "norm_hidden")
            )
        else:
            bias_hidden_G = params(f"{name}.bias_hidden", 3 * size)
            bias_rz, self.hidden_bias_D = np.split(bias_hidden_G, [2 * size])
            self.input_bias_G = params(f"{name}.bias_input", 3 * size) + np.pad(bias_rz, (0, size))

    def gates(self, g: Graph, inputs: str, *more: int) -> list[str]:
        """Split projected inputs into those of r and z, of n, and parts of `more` sizes."""
        if self.norm_input is None:
            return g.split(inputs, [*self.sizes, *more])
        gates, *rest = g.split(inputs, [3 * self.size, *more])
        return [*g.split(_layer_norm(g, self.norm_input, gates), self.sizes), *rest]

    def hidden(self, g: Graph, state: str) -> list[str]:
        """Return the products of the state, for r and z and for n."""
        if self.norm_hidden is None:
            hidden_rz, hidden_n = np.split(self.hidden_GD, [2 * self.size])
            return [g.product(state, hidden_rz), g.product(state, hidden_n, self.hidden_bias_D)]
        hidden = _layer_norm(g, self.norm_hidden, g.product(state, self.hidden_GD))
        return g.split(hidden, self.sizes)

    def step(self, g: Graph, inputs: list[str], state: str) -> str:
        """Return the next state."""
        return _next_state(g, inputs, self.hidden(g, state), state, self.size)


def _next_state(g: Graph, inputs: list[str], hidden: list[str], state: str, size: int) -> str:
    """Return the next state from the gates' inputs, the state's products, and the state."""
    (inputs_rz, inputs_n), (hidden_rz, hidden_n) = inputs, hidden
    reset, update = g.split(g("Sigmoid", g("Add", inputs_rz, hidden_rz)), [size, size])
    new = g("Tanh", g("Add", inputs_n, g("Mul", reset, hidden_n)))
    return g("Add", new, g("Mul", update, g("Sub", state, new)))


def _layer_norm(g: Graph, norm: _Norm, value: str) -> str:
    return value if norm is None else g("LayerNormalization", value, *norm, epsilon=1e-5)


@dataclass(frozen=True)
class _EncoderStates:
    """The states of the encoder and its mask (1 at real positions, 0 at padding), by name."""

    states_BSH: str
    real_BS: str
    size: int  # of one direction

    def mask_B1S(self, g: Graph) -> str:
        """Return the mask to add to scores: 0, or minus infinity at padding."""
        return g("Unsqueeze", g("Log", self.real_BS), np.array([1]))

    def backward_Bh(self, g: Graph) -> str:
        """Return the backward state of the first position."""
        first_BH = g("Gather", self.states_BSH, np.int64(0), axis=1)
        return g.split(first_BH, [self.size, self.size])[1]

    def summary_BH(self, g: Graph) -> str:
        """Return the last states of both directions."""
        last_B1 = g("Cast", g("Sub", self._lengths_B1(g), np.float32(1)), to=TensorProto.INT64)
        last_BH = g("GatherND", self.states_BSH, last_B1, batch_dims=1)
        return g.concat([g.split(last_BH, [self.size, self.size])[0], self.backward_Bh(g)])

    def mean_BH(self, g: Graph) -> str:
        """Return the mean of the states at real positions."""
        sum_B1H = g("MatMul", g("Unsqueeze", self.real_BS, np.array([1])), self.states_BSH)
        return g("Div", g("Squeeze", sum_B1H, np.array([1])), self._lengths_B1(g))

    def _lengths_B1(self, g: Graph) -> str:
        return g("ReduceSum", self.real_BS, np.array([1]), keepdims=1)


def _encode(g: Graph, params: Parameters) -> _EncoderStates:
    """Run the layers, each as a Scan of both directions side by side.

    The backward direction scans its half in reverse. Its states are zero at padding, so that a
    sentence begins as it would alone; forward states at padding are never read.
    """
    config, size = params.config, params.config.encoder_size
    source_BS = g.input("source", ["B", "S"], np.int64)
    real_BS = g("Cast", g("Cast", source_BS, to=TensorProto.BOOL), to=TensorProto.FLOAT)
    real_SB11 = g("Unsqueeze", g("Transpose", real_BS, perm=[1, 0]), np.array([2, 3]))
    ones_SB11 = g("Expand", np.ones((1, 1, 1, 1)), g("Shape", real_SB11))
    real_SB21 = g("Concat", ones_SB11, _reversed(g, real_SB11), axis=2)
    layer_SBH = g("Transpose", source_BS, perm=[1, 0])
    project: Callable[[str, Array, Array], str] = partial(g.lookup, params.source_embedding())
    for number in range(config.encoder_layers):
        input_size = 2 * size if number else config.embedding_size
        cells = [
            _Cell(params, f"encoder.{direction}.{number}", input_size, size)
            for direction in ("forwards", "backwards")
        ]
        gates = [
            _layer_norm(g, cell.norm_input, project(inputs, cell.input_GI, cell.input_bias_G))
            for cell, inputs in zip(cells, [layer_SBH, _reversed(g, layer_SBH)], strict=True)
        ]
        gates_SB2G = g("Reshape", g.concat(gates), np.array([0, 0, 2, 3 * size]))
        start_B2h = _per_sentence(g, np.zeros((2, size)))
        _, states_SB2h = g.many(
            "Scan",
            *[start_B2h, *g.split(gates_SB2G, cells[0].sizes), real_SB21],
            outputs=2,
            body=_scan_body(g, cells),
            num_scan_inputs=3,
        )
        states_SBH = g("Reshape", states_SB2h, np.array([0, 0, 2 * size]))
        forward_SBh, backward_SBh = g.split(states_SBH, [size, size])
        layer_SBH, project = g.concat([forward_SBh, _reversed(g, backward_SBh)]), g.product
    return _EncoderStates(g("Transpose", layer_SBH, perm=[1, 0, 2]), real_BS, size)


def _reversed(g: Graph, value: str) -> str:
    """Return a value with its first axis reversed."""
    last, before_first = np.array([-1]), np.array([np.iinfo(np.int64).min])
    return g("Slice", value, last, before_first, np.array([0]), np.array([-1]))


def _per_sentence(g: Graph, array: Array) -> str:
    """Return the same array for each sentence, [B, *shape]."""
    batch = g("Shape", "source", start=0, end=1)
    return g("Expand", array[None], g("Concat", batch, np.array(array.shape), axis=0))


def _scan_body(g: Graph, cells: list[_Cell]) -> onnx.GraphProto:
    """Return one step of both directions: state, inputs of r and z and of n, mask."""
    body, size = Graph(g.fresh("body"), g.precision), cells[0].size
    state_B2h, *inputs, real_B21 = (
        body.input(body.fresh("input"), ["B", 2, width]) for width in (size, 2 * size, size, 1)
    )
    states = body.many("Split", state_B2h, np.array([1, 1]), outputs=2, axis=1)
    products = [cell.hidden(body, state) for cell, state in zip(cells, states, strict=True)]
    hidden = [body("Concat", *pair, axis=1) for pair in zip(*products, strict=True)]
    next_B2h = body("Mul", _next_state(body, inputs, hidden, state_B2h, size), real_B21)
    body.output(body("Identity", next_B2h), body.fresh("output"), ["B", 2, size])
    body.output(next_B2h, body.fresh("output"), ["B", 2, size])
    return body.proto()


def _initial_state(g: Graph, params: Parameters, decoder: _Decoder, encoded: _EncoderStates) -> str:
    """Return the state before the first target piece [B, Z]; see Decoder.start."""
    config, sizes = params.config, decoder.state_sizes
    if config.initial_state == "zeros":
        return _per_sentence(g, np.zeros(sum(sizes)))
    reads = {"backward": encoded.backward_Bh, "mean": encoded.mean_BH, "last": encoded.summary_BH}
    read = reads[config.initial_state](g)
    read_size = config.encoder_size * (1 if config.initial_state == "backward" else 2)
    fed, hidden_size = decoder.fed_size, sum(sizes) - decoder.fed_size
    weight = params("decoder.initial.weight", hidden_size, read_size)
    hidden = g("Tanh", g.product(read, weight, params("decoder.initial.bias", hidden_size)))
    return g.concat([hidden, _per_sentence(g, np.zeros(fed))] if fed else [hidden])


class _FusedAttention:
    """The attention, joined with the decoder's product of its output: W (context + query) + b.

    This base class is the score none: the context is the same at every step.
    """

    def __init__(self, params: Parameters, context_XM: Array, bias_X: Array) -> None:
        self.context_XM, self.bias_X = context_XM, bias_X
        # Decoder states lie within [-1, 1], but not after a product of the previous piece is added.
        self.query_bound = None if params.config.attention.previous_piece else 1.0
        self.residual_XQ = None
        if params.config.residual:
            sizes = params.config.attention_output_size, params.config.decoder_size
            same = sizes[0] == sizes[1]
            query = None if same else params("decoder.attention.residual.query.weight", *sizes)
            self.residual_XQ = _joined(context_XM, query)
        self.memory: dict[str, Shape] = {"values": ["B", 1, len(context_XM)]}

    def make_memory(self, g: Graph, encoded: _EncoderStates) -> list[str]:
        """Return the values of the memory."""
        values_BX = g.product(encoded.summary_BH(g), self.context_XM, self.bias_X)
        return [g("Unsqueeze", values_BX, np.array([1]))]

    def attend(self, g: Graph, query_BKQ: str) -> tuple[str, str | None]:
        """Return the product of the contexts [B, K, X], and the weights [B, K, S] if any."""
        return "values", None

    def __call__(
        self, g: Graph, query_BKQ: str, other_XQ: Array | None = None
    ) -> tuple[str, str | None]:
        """Return the product of the outputs, plus `other_XQ` times the query, and the weights."""
        context, weights = self.attend(g, query_BKQ)
        products = [weight for weight in (self.residual_XQ, other_XQ) if weight is not None]
        if products:
            weight_XQ = np.sum(products, 0)
            product = g.product(query_BKQ, weight_XQ, bound=self.query_bound)
            context = g("Add", context, product)
        return context, weights


class _DotProducts(_FusedAttention):
    """One head; dot products, scaled or general: all their matrices are applied to the keys.

    The values are the products of the encoder's states.
    """

    def __init__(self, params: Parameters, context_XM: Array, bias_X: Array) -> None:
        super().__init__(params, context_XM, bias_X)
        config, memory_size = params.config.attention, 2 * params.config.encoder_size
        key_DH, value_MH = (
            None if size is None else params(f"decoder.attention.{name}.weight", size, memory_size)
            for name, size in (("key", config.key_size), ("value", config.value_size))
        )
        self.context_XM = _joined(context_XM, value_MH)
        self.memory = {
            "keys": self.set_score(params, key_DH),
            "values": ["B", "S", len(context_XM)],
            "mask": ["B", 1, "S"],
        }

    def set_score(self, params: Parameters, key_DH: Array | None) -> Shape:
        """Join the weights of the score with the projection of the keys; return the keys' shape."""
        config, size = params.config.attention, params.config.decoder_size
        key_size = config.key_size or 2 * params.config.encoder_size
        self.scale = 1 / math.sqrt(key_size) if config.score == "scaled_dot" else 1.0
        self.key_QH = key_DH
        if config.score == "general":
            weight_QD = params("decoder.attention.score.key.weight", size, key_size)
            self.key_QH = _joined(weight_QD, key_DH)
        elif config.project_query and size != key_size:
            weight_DQ = params("decoder.attention.score.query.weight", key_size, size)
            self.key_QH = _joined(weight_DQ.T, key_DH)
        return ["B", size, "S"]

    def keys(self, g: Graph, states_BSH: str) -> str:
        """Return the keys, as the step reads them."""
        keys_BSQ = states_BSH if self.key_QH is None else g.product(states_BSH, self.key_QH)
        return g("Transpose", g("Mul", keys_BSQ, np.float32(self.scale)), perm=[0, 2, 1])

    def scores(self, g: Graph, query_BKQ: str) -> str:
        """Return scores [B, K, S] before the mask."""
        return g("MatMul", query_BKQ, "keys")

    def make_memory(self, g: Graph, encoded: _EncoderStates) -> list[str]:
        values_BSX = g.product(encoded.states_BSH, self.context_XM, self.bias_X)
        return [self.keys(g, encoded.states_BSH), values_BSX, encoded.mask_B1S(g)]

    def attend(self, g: Graph, query_BKQ: str) -> tuple[str, str | None]:
        weights_BKS = g("Softmax", g("Add", self.scores(g, query_BKQ), "mask"), axis=-1)
        return g("MatMul", weights_BKS, "values"), weights_BKS


class _AdditiveScores(_DotProducts):
    """One head; v'tanh(W q + U k + b), additive or concat."""

    def __init__(self, params: Parameters, context_XM: Array, bias_X: Array) -> None:
        super().__init__(params, context_XM, bias_X)
        self.memory["energy"] = ["B", 1, len(self.energy_A1), 1]

    def make_memory(self, g: Graph, encoded: _EncoderStates) -> list[str]:
        # The vector v is in the memory: ONNX Runtime would rearrange a constant of the step in
        # advance, and that makes products with a single column slow.
        energy_B1A1 = _per_sentence(g, self.energy_A1[None])
        return [*super().make_memory(g, encoded), energy_B1A1]

    def set_score(self, params: Parameters, key_DH: Array | None) -> Shape:
        config, query_size = params.config.attention, params.config.decoder_size
        size, key_size = config.size, config.key_size or 2 * params.config.encoder_size
        if config.score == "additive":
            self.query_AQ = params("decoder.attention.score.query.weight", size, query_size)
            key_AD = params("decoder.attention.score.key.weight", size, key_size)
            self.key_bias_A = params("decoder.attention.score.key.bias", size)
        else:
            weight = params("decoder.attention.score.weight", size, query_size + key_size)
            self.query_AQ, key_AD = np.split(weight, [query_size], axis=1)
            self.key_bias_A = np.zeros(size)
        self.key_AH = _joined(key_AD, key_DH)
        self.energy_A1 = params("decoder.attention.score.energy", size)[:, None]
        return ["B", 1, "S", size]

    def keys(self, g: Graph, states_BSH: str) -> str:
        keys_BSA = g.product(states_BSH, self.key_AH, self.key_bias_A)
        return g("Unsqueeze", keys_BSA, np.array([1]))

    def scores(self, g: Graph, query_BKQ: str) -> str:
        query_BKA = g.product(query_BKQ, self.query_AQ, bound=self.query_bound)
        query_BK1A = g("Unsqueeze", query_BKA, np.array([2]))
        hidden_BKSA = g("Tanh", g("Add", query_BK1A, "keys"))
        scores_BKS1 = g("MatMul", hidden_BKSA, "energy")
        return g("Squeeze", scores_BKS1, np.array([3]))


class _Heads(_FusedAttention):
    """Several heads; one product reads their contexts side by side."""

    def __init__(self, params: Parameters, context_XM: Array, bias_X: Array) -> None:
        super().__init__(params, context_XM, bias_X)
        config, memory_size = params.config.attention, 2 * params.config.encoder_size
        key_size, value_size = config.key_size or memory_size, config.value_size or memory_size
        name, self.heads = "decoder.attention", config.heads
        self.scale = 1 / math.sqrt(key_size // config.heads)
        self.query_DQ = params(f"{name}.query.weight", key_size, params.config.decoder_size)
        self.query_bias_D = params(f"{name}.query.bias", key_size)
        self.key_DH = params(f"{name}.key.weight", key_size, memory_size)
        self.value_MH = params(f"{name}.value.weight", value_size, memory_size)
        self.value_bias_M = params(f"{name}.value.bias", value_size)
        output_MM = params(f"{name}.output.weight", value_size, value_size)
        self.context_XM = context_XM @ output_MM
        self.bias_X = bias_X + context_XM @ params(f"{name}.output.bias", value_size)
        self.memory = {
            "keys": ["B", self.heads, key_size // self.heads, "S"],
            "values": ["B", self.heads, "S", value_size // self.heads],
            "mask": ["B", 1, 1, "S"],
        }

    def make_memory(self, g: Graph, encoded: _EncoderStates) -> list[str]:
        keys_BSD = g.product(encoded.states_BSH, self.key_DH * self.scale)
        values_BSM = g.product(encoded.states_BSH, self.value_MH, self.value_bias_M)
        return [
            self._split(g, keys_BSD, [0, 2, 3, 1]),
            self._split(g, values_BSM, [0, 2, 1, 3]),
            g("Unsqueeze", encoded.mask_B1S(g), np.array([1])),
        ]

    def attend(self, g: Graph, query_BKQ: str) -> tuple[str, str | None]:
        query_BKD = g.product(query_BKQ, self.query_DQ, self.query_bias_D, bound=self.query_bound)
        scores_BNKS = g("MatMul", self._split(g, query_BKD, [0, 2, 1, 3]), "keys")
        weights_BNKS = g("Softmax", g("Add", scores_BNKS, "mask"), axis=-1)
        context_BKNm = g("Transpose", g("MatMul", weights_BNKS, "values"), perm=[0, 2, 1, 3])
        context_BKM = g("Reshape", context_BKNm, np.array([0, 0, -1]))
        weights_BKS = g("ReduceMean", weights_BNKS, axes=[1], keepdims=0)
        return g.product(context_BKM, self.context_XM, self.bias_X, bound=None), weights_BKS

    def _split(self, g: Graph, vectors_BXD: str, order: list[int]) -> str:
        """Return the vectors of the heads [B, X, N, d], with the axes in this order."""
        vectors = g("Reshape", vectors_BXD, np.array([0, 0, self.heads, -1]))
        return g("Transpose", vectors, perm=order)


def _joined(weight: Array, before: Array | None) -> Array:
    """Return one matrix for two products in a row."""
    return weight if before is None else weight @ before


class _Decoder:
    """A decoder style: its layers, its step, and the products that are computed before the step.

    `embedding` is the matrix [X, E] and the bias that are applied to embeddings, `context` the
    matrix [X, M] and the bias that are applied to attention outputs.
    """

    embedding: tuple[Array, Array | None]
    context: tuple[Array, Array]
    attends_below = False  # after its first layer; the second one reads the context
    fed_size = 0  # of the attentional state, if it is fed
    has_maxout = False

    def __init__(self, params: Parameters) -> None:
        self.params, config, size = params, params.config, params.config.decoder_size
        widths = [config.embedding_size, *[config.attention_output_size] * self.attends_below]
        widths += [size] * (config.decoder_layers - 1)
        self.cells = [
            _Cell(params, f"decoder.layers.{n}", width, size) for n, width in enumerate(widths)
        ]
        self.state_sizes = [size] * config.decoder_layers
        self.embedding = self.cells[0].input_GI, self.cells[0].input_bias_G

    def step(self, g: Graph, inputs: str, state: list[str]) -> Stepped:
        """Return the readout, next states and weights, given the product of an embedding."""
        raise NotImplementedError

    @cached_property
    def attention(self) -> _FusedAttention:
        """The attention, joined with the product of its output."""
        kinds = {
            "none": _FusedAttention,
            "multi_head": _Heads,
            "additive": _AdditiveScores,
            "concat": _AdditiveScores,
        }
        kind = kinds.get(self.params.config.attention.score, _DotProducts)
        return kind(self.params, *self.context)


class _DeepOutput(_Decoder):
    """The readout sees state, embedding and context (DeepOutputDecoder).

    Maxout takes the larger of each pair of outputs; here, all first ones precede all second ones.
    """

    def __init__(self, params: Parameters) -> None:
        super().__init__(params)
        config, self.has_maxout = params.config, params.config.readout == "maxout"
        width = config.readout_width * (2 if self.has_maxout else 1)
        sizes = [config.decoder_size, config.embedding_size, config.attention_output_size]
        order = np.r_[0:width:2, 1:width:2] if self.has_maxout else np.arange(width)
        weight = params("decoder.readout.weight", width, sum(sizes))[order]
        bias_W = params("decoder.readout.bias", width)[order]
        self.state_WD, embedded_WE, context_WM = np.split(weight, np.cumsum(sizes)[:-1], axis=1)
        embedding_GE, bias_G = self.cells[0].input_GI, self.cells[0].input_bias_G
        self.embedding = np.concatenate([embedding_GE, embedded_WE]), np.pad(bias_G, (0, width))
        context_GM, bias_G = self.read_context(params)
        context_XM = np.concatenate([context_GM, context_WM])
        self.context = context_XM, np.concatenate([bias_G, bias_W])

    def read_context(self, params: Parameters) -> tuple[Array, Array]:
        """Return the matrix [G, M] and the bias by which the layers read the context."""
        return self.cells[1].input_GI, self.cells[1].input_bias_G

    def read_out(self, g: Graph, deep: str, state: str) -> str:
        """Return the readout, given the products of embedding and context."""
        deep = g("Add", deep, g.product(state, self.state_WD))
        if not self.has_maxout:
            return g("Tanh", deep)
        return g("Max", *g.split(deep, [len(self.state_WD) // 2] * 2))


class _Bahdanau(_DeepOutput):
    """The state before a step queries the attention; the cell reads the context."""

    def __init__(self, params: Parameters) -> None:
        super().__init__(params)
        config, (weight_XE, _) = params.config, self.embedding
        self.has_query = config.attention.previous_piece
        if self.has_query:
            query = params("decoder.query.weight", config.decoder_size, config.embedding_size)
            weight_XE = np.concatenate([weight_XE, query])
        self.embedding = weight_XE, None  # the bias is in the product of the attention's output

    def read_context(self, params: Parameters) -> tuple[Array, Array]:
        bias_G, size = self.cells[0].input_bias_G, params.config.attention_output_size
        return params("decoder.context.weight", len(bias_G), size), bias_G

    def step(self, g: Graph, inputs: str, state: list[str]) -> Stepped:
        cell, query = self.cells[0], state[-1]
        if self.has_query:
            inputs, seen = g.split(inputs, [3 * cell.size + len(self.state_WD), cell.size])
            query = g("Add", query, seen)
        context, weights = self.attention(g, query)
        *gates, deep = cell.gates(g, g("Add", inputs, context), len(self.state_WD))
        hidden = _step_layers(g, self.cells, gates, state)
        return self.read_out(g, deep, hidden[-1]), hidden, weights


class _Conditional(_DeepOutput):
    """The state between two cells of the first layer queries; the second one reads the context."""

    attends_below = True

    def step(self, g: Graph, inputs: str, state: list[str]) -> Stepped:
        first, *upper = self.cells
        *gates, deep_embedded = first.gates(g, inputs, len(self.state_WD))
        query = first.step(g, gates, state[0])
        context, weights = self.attention(g, query)
        *gates, deep_context = upper[0].gates(g, context, len(self.state_WD))
        hidden = _step_layers(g, upper, gates, [query, *state[1:]])
        deep = g("Add", deep_embedded, deep_context)
        return self.read_out(g, deep, hidden[-1]), hidden, weights


class _Luong(_Decoder):
    """The state after a step queries; the attentional state may be fed back."""

    def __init__(self, params: Parameters) -> None:
        super().__init__(params)
        config, size = params.config, params.config.readout_width
        sizes = config.attention_output_size, config.decoder_size
        weight = params("decoder.combine.weight", size, sum(sizes))
        context_OM, self.state_OD = np.split(weight, [sizes[0]], axis=1)
        self.context = context_OM, np.zeros(size)
        if config.input_feeding:
            self.fed_size = size
            self.state_sizes.append(size)
            self.feed_GO = params("decoder.feed.weight", 3 * config.decoder_size, size)

    def step(self, g: Graph, inputs: str, state: list[str]) -> Stepped:
        cells = self.cells
        if self.fed_size:
            inputs = g("Add", inputs, g.product(state[-1], self.feed_GO))
        hidden = _step_layers(g, cells, cells[0].gates(g, inputs), state[: len(cells)])
        context, weights = self.attention(g, hidden[-1], self.state_OD)
        readout = g("Tanh", context)
        return readout, [*hidden, readout] if self.fed_size else hidden, weights


class _PreAttention(_Decoder):
    """The state of the first layer queries; the layers above it read the context."""

    attends_below = True

    def __init__(self, params: Parameters) -> None:
        super().__init__(params)
        self.state_sizes = [params.config.decoder_size] * len(self.cells)
        self.context = self.cells[1].input_GI, self.cells[1].input_bias_G
        sizes = params.config.readout_width, params.config.decoder_size
        self.readout: _Norm = None
        if sizes[0] != sizes[1]:
            bias_O = params("decoder.readout.bias", sizes[0])
            self.readout = params("decoder.readout.weight", *sizes), bias_O

    def step(self, g: Graph, inputs: str, state: list[str]) -> Stepped:
        first, *upper = self.cells
        query = first.step(g, first.gates(g, inputs), state[0])
        context, weights = self.attention(g, query)
        states = [query, *_step_layers(g, upper, upper[0].gates(g, context), state[1:])]
        if self.readout is None:
            return states[-1], states, weights
        return g("Tanh", g.product(states[-1], *self.readout)), states, weights


def _decoder(params: Parameters) -> _Decoder:
    """Return the decoder of the style of a model."""
    styles: dict[str, type[_Decoder]] = {
        "bahdanau": _Bahdanau,
        "conditional": _Conditional,
        "luong": _Luong,
        "pre_attention": _PreAttention,
    }
    return styles[params.config.style](params)


def _step_layers(g: Graph, cells: list[_Cell], gates: list[str], hidden: list[str]) -> list[str]:
    """Return the next states of layers, from the gates of the first one's inputs."""
    states: list[str] = []
    for cell, state in zip(cells, hidden, strict=True):
        if states:
            gates = cell.gates(g, g.product(states[-1], cell.input_GI, cell.input_bias_G))
        states.append(cell.step(g, gates, state))
    return states
