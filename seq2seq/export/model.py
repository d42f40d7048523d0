"""A translation model as three ONNX graphs: encoder, target embedding, one step of the decoder.

encoder: `source` [B, S], padded with PAD on the right, to `state` [B, Z], the initial decoder state
of all layers side by side (and Luong's attentional state, where it is fed), and to the memory,
all that is fixed for a sentence.
embedding: `pieces` [N] to `inputs` [N, X], the products of their embeddings that a step needs. They
can be kept, as they depend on nothing else.
step: `inputs` [B, K, X], `state` [B, K, Z] and the memory to `log_probs` [B, K, V], `next_state`
[B, K, Z] and, with attention, `weights` [B, K, S].

The memory is `values` and, with attention, `keys` and `mask`, which is added to the scores: minus
infinity at padding; for additive scores also `energy`, their vector v. The graphs are the functions
of `seq2seq.model` up to rounding, after algebra on the weights:

- W sum_s(a_s v_s) = sum_s(a_s W v_s), and the weights a_s of a sentence sum to one. So the product
  by which a decoder reads the output of its attention is joined with the projections before it, and
  computed once per source position, with its bias.
- q'W'Kh = q'(W'K)h: of dot products only the keys' side is left.
- The biases of r and z, and of n's input, are one.

Legend: B sentences, K hypotheses per sentence, S source length, E embedding size, D state of a
decoder layer, Z whole state, h state of one direction of the encoder, H both directions, G = 3D
gates in the order r, z, n, A attention size, N heads, d key and m value size of one head,
M attention output size, X what is read of an attention output or an embedding, Q query size,
O features size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx
import torch
from onnx import TensorProto
from torch import Tensor, nn

from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.export.graph import Array, Graph
from seq2seq.model.attention import (
    Additive,
    Attention,
    Concat,
    Dot,
    General,
    MultiHeadAttention,
    ScoreFunction,
    SingleHeadAttention,
)
from seq2seq.model.decoder import BahdanauDecoder, Decoder, LuongDecoder, PreAttentionDecoder
from seq2seq.model.gru import GRU
from seq2seq.model.model import Encoder, TranslationModel
from seq2seq.runs.graphs import Precision

Shape = list[int | str]
Stepped = tuple[str, list[str], str | None]  # features, next states, weights


def encoder_graph(model: TranslationModel, *, precision: Precision) -> onnx.ModelProto:
    """Return the graph that computes the initial state and the memory of sources."""
    g, decoder = Graph("encoder", precision), model.decoder
    encoded = _encode(g, model.encoder, _array(model.source_embedding.weight))
    g.output(_initial_state(g, decoder, encoded), "state", ["B", sum(_state_sizes(decoder))])
    attention = _fused_attention(decoder)
    values = attention.make_memory(g, encoded)
    for value, (name, shape) in zip(values, attention.memory.items(), strict=True):
        g.output(value, name, shape)
    return g.model()


def embedding_graph(model: TranslationModel, *, precision: Precision) -> onnx.ModelProto:
    """Return the graph that computes what a step needs of the embeddings of target pieces."""
    g = Graph("embedding", precision)
    pieces = g.input("pieces", ["N"], np.int64)
    weight_XE, bias_X = _entering(model.decoder)
    inputs = g.lookup(_array(model.target_embedding.weight), pieces, weight_XE, bias_X)
    g.output(inputs, "inputs", ["N", len(weight_XE)])
    return g.model()


def step_graph(model: TranslationModel, *, precision: Precision) -> onnx.ModelProto:
    """Return the graph that advances all hypotheses by one target piece."""
    g, decoder = Graph("step", precision), model.decoder
    sizes = _state_sizes(decoder)
    entering, _ = _entering(decoder)
    inputs = g.input("inputs", ["B", "K", len(entering)])
    state = g.split(g.input("state", ["B", "K", sum(sizes)]), sizes)
    attention = _fused_attention(decoder)
    for name, shape in attention.memory.items():
        g.input(name, shape)
    bound = 1.0
    if isinstance(decoder, BahdanauDecoder):
        features, state, weights = _bahdanau(g, decoder, attention, inputs, state)
        if decoder.maxout and precision == "int8":
            bound = _largest_feature(model)
    elif isinstance(decoder, LuongDecoder):
        features, state, weights = _luong(g, decoder, attention, inputs, state)
    else:
        assert isinstance(decoder, PreAttentionDecoder)
        features, state, weights = _pre_attention(g, decoder, attention, inputs, state)
    weight_VO, bias_V = _array(model.output_weight), _array(model.output_bias)
    logits = g.product(features, weight_VO, bias_V, bound=bound)
    g.output(g("LogSoftmax", logits, axis=-1), "log_probs", ["B", "K", len(bias_V)])
    g.output(g.concat(state), "next_state", ["B", "K", sum(sizes)])
    if weights is not None:
        g.output(weights, "weights", ["B", "K", "S"])
    return g.model()


@torch.no_grad()
def _largest_feature(model: TranslationModel) -> float:
    """Return a bound of maxout features, which int8 features are scaled by.

    It is a little more than the largest one while random pieces are translated. Features beyond it
    are cut off.
    """
    generator = np.random.default_rng(1)
    sources = generator.integers(EOS, model.source_embedding.num_embeddings, (32, 12))
    source_BS = torch.from_numpy(sources).to(model.output_bias.device)
    decoding = model.decoding(source_BS, torch.ones_like(source_BS, dtype=torch.bool))
    state, tokens_B = decoding.start(), torch.full_like(source_BS[:, 0], BOS)
    largest = 0.0
    for _ in range(24):
        embedded_BE = model.target_embedding(tokens_B)
        features_BO, _, state = model.decoder.step(embedded_BE, state, decoding.memory)
        largest = max(largest, float(features_BO.abs().max()))
        tokens_B = model.logits(features_BO).argmax(1)
    return max(1.25 * largest, 1e-6)


def _array(tensor: Tensor) -> Array:
    """Return weights in double precision, in which they are joined."""
    array: Array = tensor.detach().double().cpu().numpy()
    return array


class _Cell:
    """One GRU layer. The biases of r and z, and of n's input, enter with the inputs."""

    def __init__(self, gru: GRU) -> None:
        self.norm_input, self.norm_hidden = gru.norm_input, gru.norm_hidden
        self.size = gru.hidden_size
        self.sizes = [2 * self.size, self.size]  # of r and z, and of n
        self.input_GI, self.hidden_GD = _array(gru.weight_input), _array(gru.weight_hidden)
        self.input_bias_G, self.hidden_bias_D = np.zeros(3 * self.size), None
        if gru.bias_input is not None and gru.bias_hidden is not None:
            bias_rz, self.hidden_bias_D = np.split(_array(gru.bias_hidden), [2 * self.size])
            self.input_bias_G = _array(gru.bias_input) + np.pad(bias_rz, (0, self.size))

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


def _layer_norm(g: Graph, norm: nn.LayerNorm | None, value: str) -> str:
    if norm is None:
        return value
    return g("LayerNormalization", value, _array(norm.weight), _array(norm.bias), epsilon=norm.eps)


@dataclass(frozen=True)
class _Encoded:
    """The names of the encoder's states, and of the padding mask (1: real)."""

    states_BSH: str
    real_BS: str
    size: int  # of one direction

    def mask_B1S(self, g: Graph) -> str:
        """Return what is added to scores: 0, or minus infinity at padding."""
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


def _encode(g: Graph, encoder: Encoder, embedding_VE: Array) -> _Encoded:
    """Run the layers, each as a Scan of both directions side by side.

    The backward direction's half of all that is scanned is reversed. Its states are zero at
    padding, so that a sentence begins as it would without; forward states there are never read.
    """
    source_BS = g.input("source", ["B", "S"], np.int64)
    real_BS = g("Cast", g("Cast", source_BS, to=TensorProto.BOOL), to=TensorProto.FLOAT)
    real_SB11 = g("Unsqueeze", g("Transpose", real_BS, perm=[1, 0]), np.array([2, 3]))
    always_SB11 = g("Expand", np.ones((1, 1, 1, 1)), g("Shape", real_SB11))
    real_SB21 = g("Concat", always_SB11, _reversed(g, real_SB11), axis=2)
    layer_SBH = g("Transpose", source_BS, perm=[1, 0])
    enter: Callable[[str, Array, Array], str] = partial(g.lookup, embedding_VE)
    for forwards, backwards in zip(encoder.forwards, encoder.backwards, strict=True):
        cells, size = [_Cell(forwards), _Cell(backwards)], forwards.hidden_size
        gates = [
            _layer_norm(g, cell.norm_input, enter(inputs, cell.input_GI, cell.input_bias_G))
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
        forth_SBh, back_SBh = g.split(states_SBH, [size, size])
        layer_SBH, enter = g.concat([forth_SBh, _reversed(g, back_SBh)]), g.product
    return _Encoded(g("Transpose", layer_SBH, perm=[1, 0, 2]), real_BS, size)


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
    body, size = Graph(g.fresh("body"), g.precision, around=g), cells[0].size
    state_B2h, *inputs, real_B21 = (
        body.input(body.fresh("input"), ["B", 2, width]) for width in (size, 2 * size, size, 1)
    )
    states = body.many("Split", state_B2h, np.array([1, 1]), outputs=2, axis=1)
    products = [cell.hidden(body, state) for cell, state in zip(cells, states, strict=True)]
    hidden = [body("Concat", *pair, axis=1) for pair in zip(*products, strict=True)]
    next_B2h = body("Mul", _next_state(body, inputs, hidden, state_B2h, size), real_B21)
    body.output(body("Identity", next_B2h), body.fresh("output"), ["B", 2, size])
    body.output(next_B2h, body.fresh("output"), ["B", 2, size])
    return body.body()


def _state_sizes(decoder: Decoder) -> list[int]:
    """Return the sizes of what the decoder's state holds side by side."""
    sizes = [layer.hidden_size for layer in decoder.layers]
    if isinstance(decoder, LuongDecoder) and decoder.feed is not None:
        sizes.append(decoder.features_size)
    return sizes


def _initial_state(g: Graph, decoder: Decoder, encoded: _Encoded) -> str:
    """Return the state before the first target piece [B, Z]; see Decoder.start."""
    if decoder.initial is None:
        return _per_sentence(g, np.zeros(sum(_state_sizes(decoder))))
    reads = {"backward": encoded.backward_Bh, "mean": encoded.mean_BH, "last": encoded.summary_BH}
    read = reads[decoder.initial_state](g)
    weight, bias = _array(decoder.initial.weight), _array(decoder.initial.bias)
    hidden = g("Tanh", g.product(read, weight, bias))
    fed = _state_sizes(decoder)[len(decoder.layers) :]
    return g.concat([hidden, *(_per_sentence(g, np.zeros(size)) for size in fed)])


class _FusedAttention:
    """An attention with the product by which a decoder reads its output: W (context + query) + b.

    This one reads the same of the source at every step (score none).
    """

    def __init__(self, attention: Attention, read_XM: Array, bias_X: Array) -> None:
        self.read_XM, self.bias_X = read_XM, bias_X
        residual = attention.residual
        self.residual_XQ = None if residual is None else _joined(read_XM, residual.query)
        self.memory: dict[str, Shape] = {"values": ["B", 1, len(read_XM)]}

    def make_memory(self, g: Graph, encoded: _Encoded) -> list[str]:
        """Return the values of the memory."""
        values_BX = g.product(encoded.summary_BH(g), self.read_XM, self.bias_X)
        return [g("Unsqueeze", values_BX, np.array([1]))]

    def attend(self, g: Graph, query_BKQ: str) -> tuple[str, str | None]:
        """Return what is read of the contexts [B, K, X], and weights [B, K, S] if there are any."""
        return "values", None

    def __call__(
        self, g: Graph, query_BKQ: str, other_XQ: Array | None = None
    ) -> tuple[str, str | None]:
        """Return what is read of the outputs, plus another product of the query, and weights."""
        reads, weights = self.attend(g, query_BKQ)
        products = [weight for weight in (self.residual_XQ, other_XQ) if weight is not None]
        if products:
            reads = g("Add", reads, g.product(query_BKQ, np.sum(products, 0)))
        return reads, weights


class _DotProducts(_FusedAttention):
    """One head; dot products, scaled or general, with all their matrices on the side of the keys.

    The values are what is read of the encoder's states.
    """

    def __init__(self, attention: SingleHeadAttention, read_XM: Array, bias_X: Array) -> None:
        super().__init__(attention, read_XM, bias_X)
        self.read_XM = _joined(read_XM, attention.value)
        self.memory = {
            "keys": self.set_score(attention.score, attention.key),
            "values": ["B", "S", len(read_XM)],
            "mask": ["B", 1, "S"],
        }

    def set_score(self, score: ScoreFunction, key: nn.Linear | None) -> Shape:
        """Join the weights of the score with the projection of the keys; return the keys' shape."""
        assert isinstance(score, Dot | General)
        self.scale = score.scale if isinstance(score, Dot) else 1.0
        if isinstance(score, General):
            self.key_QH: Array | None = _joined(_array(score.key.weight), key)
        elif score.query is not None:
            self.key_QH = _joined(_array(score.query.weight).T, key)
        else:
            self.key_QH = None if key is None else _array(key.weight)
        size = self.read_XM.shape[1] if self.key_QH is None else len(self.key_QH)
        return ["B", size, "S"]

    def keys(self, g: Graph, states_BSH: str) -> str:
        """Return the keys, as the step reads them."""
        keys_BSQ = states_BSH if self.key_QH is None else g.product(states_BSH, self.key_QH)
        return g("Transpose", g("Mul", keys_BSQ, np.float32(self.scale)), perm=[0, 2, 1])

    def scores(self, g: Graph, query_BKQ: str) -> str:
        """Return scores [B, K, S] before the mask."""
        return g("MatMul", query_BKQ, "keys")

    def make_memory(self, g: Graph, encoded: _Encoded) -> list[str]:
        values_BSX = g.product(encoded.states_BSH, self.read_XM, self.bias_X)
        return [self.keys(g, encoded.states_BSH), values_BSX, encoded.mask_B1S(g)]

    def attend(self, g: Graph, query_BKQ: str) -> tuple[str, str | None]:
        weights_BKS = g("Softmax", g("Add", self.scores(g, query_BKQ), "mask"), axis=-1)
        return g("MatMul", weights_BKS, "values"), weights_BKS


class _AdditiveScores(_DotProducts):
    """One head; v'tanh(W q + U k + b), additive or concat."""

    def __init__(self, attention: SingleHeadAttention, read_XM: Array, bias_X: Array) -> None:
        super().__init__(attention, read_XM, bias_X)
        self.memory["energy"] = ["B", 1, len(self.energy_A1), 1]

    def make_memory(self, g: Graph, encoded: _Encoded) -> list[str]:
        # The vector v is memory, not a constant of the step, where it would be laid out in advance;
        # that makes products with a single column slow.
        energy_B1A1 = _per_sentence(g, self.energy_A1[None])
        return [*super().make_memory(g, encoded), energy_B1A1]

    def set_score(self, score: ScoreFunction, key: nn.Linear | None) -> Shape:
        assert isinstance(score, Additive | Concat)
        if isinstance(score, Additive):
            self.query_AQ, key_AD = _array(score.query.weight), _array(score.key.weight)
            self.key_bias_A = _array(score.key.bias)
        else:
            self.query_AQ, key_AD = np.split(_array(score.weight), [score.query_size], axis=1)
            self.key_bias_A = np.zeros(len(key_AD))
        self.key_AH, self.energy_A1 = _joined(key_AD, key), _array(score.energy)[:, None]
        return ["B", 1, "S", len(key_AD)]

    def keys(self, g: Graph, states_BSH: str) -> str:
        keys_BSA = g.product(states_BSH, self.key_AH, self.key_bias_A)
        return g("Unsqueeze", keys_BSA, np.array([1]))

    def scores(self, g: Graph, query_BKQ: str) -> str:
        query_BK1A = g("Unsqueeze", g.product(query_BKQ, self.query_AQ), np.array([2]))
        hidden_BKSA = g("Tanh", g("Add", query_BK1A, "keys"))
        scores_BKS1 = g("MatMul", hidden_BKSA, "energy")
        return g("Squeeze", scores_BKS1, np.array([3]))


class _Heads(_FusedAttention):
    """Several heads, whose contexts go side by side through one product."""

    def __init__(self, attention: MultiHeadAttention, read_XM: Array, bias_X: Array) -> None:
        super().__init__(attention, read_XM, bias_X)
        self.attention, heads, output = attention, attention.heads, attention.output
        self.read_XM, self.bias_X = _joined(read_XM, output), bias_X + read_XM @ _array(output.bias)
        self.memory = {
            "keys": ["B", heads, attention.key.out_features // heads, "S"],
            "values": ["B", heads, "S", attention.value.out_features // heads],
            "mask": ["B", 1, 1, "S"],
        }

    def make_memory(self, g: Graph, encoded: _Encoded) -> list[str]:
        key, value = self.attention.key, self.attention.value
        keys_BSD = g.product(encoded.states_BSH, _array(key.weight) * self.attention.scale)
        values_BSM = g.product(encoded.states_BSH, _array(value.weight), _array(value.bias))
        return [
            self._split(g, keys_BSD, [0, 2, 3, 1]),
            self._split(g, values_BSM, [0, 2, 1, 3]),
            g("Unsqueeze", encoded.mask_B1S(g), np.array([1])),
        ]

    def attend(self, g: Graph, query_BKQ: str) -> tuple[str, str | None]:
        query = self.attention.query
        query_BKD = g.product(query_BKQ, _array(query.weight), _array(query.bias))
        scores_BNKS = g("MatMul", self._split(g, query_BKD, [0, 2, 1, 3]), "keys")
        weights_BNKS = g("Softmax", g("Add", scores_BNKS, "mask"), axis=-1)
        context_BKNm = g("Transpose", g("MatMul", weights_BNKS, "values"), perm=[0, 2, 1, 3])
        context_BKM = g("Reshape", context_BKNm, np.array([0, 0, -1]))
        weights_BKS = g("ReduceMean", weights_BNKS, axes=[1], keepdims=0)
        return g.product(context_BKM, self.read_XM, self.bias_X, bound=None), weights_BKS

    def _split(self, g: Graph, vectors_BXD: str, order: list[int]) -> str:
        """Return those of the heads [B, X, N, d], with the axes in this order."""
        vectors = g("Reshape", vectors_BXD, np.array([0, 0, self.attention.heads, -1]))
        return g("Transpose", vectors, perm=order)


def _joined(weight: Array, before: nn.Linear | None) -> Array:
    """Return the matrix of two products in a row."""
    return weight if before is None else weight @ _array(before.weight)


def _fused_attention(decoder: Decoder) -> _FusedAttention:
    """Return the attention of a decoder with the product that reads it."""
    attention = decoder.attention
    if isinstance(decoder, BahdanauDecoder):
        first, (*_, read_WM, bias_W) = _Cell(decoder.layers[0]), _readout(decoder)
        read_XM = np.concatenate([_array(decoder.context.weight), read_WM])
        bias_X = np.concatenate([first.input_bias_G, bias_W])
    elif isinstance(decoder, LuongDecoder):
        read_XM = _array(decoder.combine.weight)[:, : attention.output_size]
        bias_X = np.zeros(len(read_XM))
    else:
        second = _Cell(decoder.layers[1])
        read_XM, bias_X = second.input_GI, second.input_bias_G
    if isinstance(attention, MultiHeadAttention):
        return _Heads(attention, read_XM, bias_X)
    if isinstance(attention, SingleHeadAttention):
        is_dot = isinstance(attention.score, Dot | General)
        return (_DotProducts if is_dot else _AdditiveScores)(attention, read_XM, bias_X)
    return _FusedAttention(attention, read_XM, bias_X)


def _readout(decoder: BahdanauDecoder) -> tuple[Array, Array, Array, Array]:
    """Return the matrices of state, embedding and context, and the bias.

    Maxout takes pairs of outputs; here, the second ones follow all first ones.
    """
    width = decoder.readout.out_features
    order = np.r_[0:width:2, 1:width:2] if decoder.maxout else np.arange(width)
    weight, bias_W = _array(decoder.readout.weight)[order], _array(decoder.readout.bias)[order]
    size, context_size = decoder.layers[0].hidden_size, decoder.attention.output_size
    state_WD, embedded_WE, context_WM = np.split(weight, [size, -context_size], axis=1)
    return state_WD, embedded_WE, context_WM, bias_W


def _entering(decoder: Decoder) -> tuple[Array, Array | None]:
    """Return the matrix [X, E] and the bias by which embeddings enter a step."""
    cell = _Cell(decoder.layers[0])
    if isinstance(decoder, BahdanauDecoder):  # the bias is in what is read of the attention
        return np.concatenate([cell.input_GI, _readout(decoder)[1]]), None
    return cell.input_GI, cell.input_bias_G


def _bahdanau(
    g: Graph, decoder: BahdanauDecoder, attention: _FusedAttention, inputs: str, hidden: list[str]
) -> Stepped:
    cells, (state_WD, *_) = _cells(decoder), _readout(decoder)
    reads, weights = attention(g, hidden[-1])
    inputs = g("Add", inputs, reads)
    *gates, deep = cells[0].gates(g, inputs, len(state_WD))
    hidden = _step_layers(g, cells, gates, hidden)
    deep = g("Add", deep, g.product(hidden[-1], state_WD))
    if not decoder.maxout:
        return g("Tanh", deep), hidden, weights
    return g("Max", *g.split(deep, [len(state_WD) // 2] * 2)), hidden, weights


def _luong(
    g: Graph, decoder: LuongDecoder, attention: _FusedAttention, inputs: str, state: list[str]
) -> Stepped:
    cells = _cells(decoder)
    if decoder.feed is not None:
        inputs = g("Add", inputs, g.product(state[-1], _array(decoder.feed.weight)))
    hidden = _step_layers(g, cells, cells[0].gates(g, inputs), state[: len(cells)])
    state_OD = _array(decoder.combine.weight)[:, decoder.attention.output_size :]
    reads, weights = attention(g, hidden[-1], state_OD)
    features = g("Tanh", reads)
    return features, hidden if decoder.feed is None else [*hidden, features], weights


def _pre_attention(
    g: Graph,
    decoder: PreAttentionDecoder,
    attention: _FusedAttention,
    inputs: str,
    hidden: list[str],
) -> Stepped:
    first, *upper = _cells(decoder)
    query = first.step(g, first.gates(g, inputs), hidden[0])
    reads, weights = attention(g, query)
    states = [query, *_step_layers(g, upper, upper[0].gates(g, reads), hidden[1:])]
    readout = decoder.readout
    if readout is None:
        return states[-1], states, weights
    features = g("Tanh", g.product(states[-1], _array(readout.weight), _array(readout.bias)))
    return features, states, weights


def _cells(decoder: Decoder) -> list[_Cell]:
    return [_Cell(layer) for layer in decoder.layers]


def _step_layers(g: Graph, cells: list[_Cell], gates: list[str], hidden: list[str]) -> list[str]:
    """Return the next states of layers, from the gates of the first one's inputs."""
    states: list[str] = []
    for cell, state in zip(cells, hidden, strict=True):
        if states:
            gates = cell.gates(g, g.product(states[-1], cell.input_GI, cell.input_bias_G))
        states.append(cell.step(g, gates, state))
    return states
