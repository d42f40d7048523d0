"""GRU, layer normalization and attention on single vectors.

Legend: S source length, H memory size, M value size, T time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from seq2seq.config import AttentionConfig

Array = npt.NDArray[np.float64]
Weights = dict[str, Array]


def under(weights: Weights, prefix: str) -> Weights:
    """Return the weights with a prefix, by the rest of their names."""
    start = prefix + "."
    return {name[len(start) :]: w for name, w in weights.items() if name.startswith(start)}


def affine(weights: Weights, name: str, vector: Array) -> Array:
    """Return W x + b, or W x without a b."""
    product: Array = weights[f"{name}.weight"] @ vector
    return product + weights[f"{name}.bias"] if f"{name}.bias" in weights else product


def sigmoid(vector: Array) -> Array:
    """Return the logistic function."""
    result: Array = 1 / (1 + np.exp(-vector))
    return result


def normalise(weights: Weights, name: str, vector: Array) -> Array:
    """Return the layer normalization of a vector (Ba et al. 2016, eqs. 3 and 4)."""
    mean = sum(vector) / len(vector)
    variance = sum((x - mean) ** 2 for x in vector) / len(vector)
    normal: Array = (vector - mean) / np.sqrt(variance + 1e-5)
    return normal * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def gru_gates(weights: Weights, gates_input: Array, hidden: Array, *, layer_norm: bool) -> Array:
    """Return the next state (Cho et al. 2014, eqs. 5-8; the reset after the product, as cuDNN)."""
    gates_hidden = weights["weight_hidden"] @ hidden + weights.get("bias_hidden", 0.0)
    if layer_norm:
        gates_input = normalise(weights, "norm_input", gates_input)
        gates_hidden = normalise(weights, "norm_hidden", gates_hidden)
    input_r, input_z, input_n = np.split(gates_input, 3)
    hidden_r, hidden_z, hidden_n = np.split(gates_hidden, 3)
    reset, update = sigmoid(input_r + hidden_r), sigmoid(input_z + hidden_z)
    new: Array = np.tanh(input_n + reset * hidden_n)
    result: Array = (1 - update) * new + update * hidden
    return result


def gru_step(weights: Weights, vector: Array, hidden: Array, *, layer_norm: bool) -> Array:
    """Return the next state from an input that is not projected yet."""
    gates_input = weights["weight_input"] @ vector + weights.get("bias_input", 0.0)
    return gru_gates(weights, gates_input, hidden, layer_norm=layer_norm)


def gru(weights: Weights, vectors: list[Array], hidden: Array, *, layer_norm: bool) -> list[Array]:
    """Return the states of a whole sequence."""
    states = []
    for vector in vectors:
        hidden = gru_step(weights, vector, hidden, layer_norm=layer_norm)
        states.append(hidden)
    return states


def bigru(
    forwards: Weights, backwards: Weights, vectors: list[Array], *, layer_norm: bool
) -> tuple[list[Array], Array, Array]:
    """Return the concatenated states, the last forward and the first backward one."""
    zeros = np.zeros(forwards["weight_hidden"].shape[1])
    forth = gru(forwards, vectors, zeros, layer_norm=layer_norm)
    back = gru(backwards, vectors[::-1], zeros, layer_norm=layer_norm)[::-1]
    joined = [np.concatenate(pair) for pair in zip(forth, back, strict=True)]
    return joined, forth[-1], back[0]


def softmax(scores: list[float]) -> list[float]:
    """Return the softmax, shifted so that nothing overflows."""
    largest = max(scores)
    exponentials = [float(np.exp(score - largest)) for score in scores]
    return [e / sum(exponentials) for e in exponentials]


def weighted_sum(weights: list[float], vectors: list[Array]) -> Array:
    """Return the context: the sum of weights times values (Bahdanau et al. 2014, eq. 5)."""
    context = np.zeros_like(vectors[0])
    for weight, vector in zip(weights, vectors, strict=True):
        context = context + weight * vector
    return context


def score_function(config: AttentionConfig, weights: Weights) -> Callable[[Array, Array], float]:
    """Return the score of one query with one key.

    Luong et al. (2015), sec. 3.1; Bahdanau et al. (2014), A.1.2; Vaswani et al. (2017), eq. 1.
    """

    def dot(query: Array, key: Array) -> float:
        if config.project_query and len(query) != len(key):
            query = affine(weights, "query", query)
        return float(sum(q * k for q, k in zip(query, key, strict=True)))

    def additive(query: Array, key: Array) -> float:
        inside = affine(weights, "query", query) + affine(weights, "key", key)
        return float(weights["energy"] @ np.tanh(inside))

    def concat(query: Array, key: Array) -> float:
        inside = weights["weight"] @ np.concatenate([query, key])
        return float(weights["energy"] @ np.tanh(inside))

    return {
        "dot": dot,
        "scaled_dot": lambda query, key: dot(query, key) / float(np.sqrt(len(key))),
        "general": lambda query, key: float(query @ weights["key.weight"] @ key),
        "additive": additive,
        "concat": concat,
    }[config.score]


def single_head(
    config: AttentionConfig, weights: Weights, query: Array, states: list[Array]
) -> tuple[Array, list[float]]:
    """Return context and weights of one query; project keys and values if they have sizes."""
    score = score_function(config, under(weights, "score"))
    keys = states if config.key_size is None else [affine(weights, "key", s) for s in states]
    values = states if config.value_size is None else [affine(weights, "value", s) for s in states]
    shares = softmax([score(query, key) for key in keys])
    return weighted_sum(shares, values), shares


def multi_head(
    config: AttentionConfig, weights: Weights, query: Array, states: list[Array]
) -> tuple[Array, list[float]]:
    """Return output and mean weights of all heads (Vaswani et al. 2017, sec. 3.2.2)."""
    queries = np.split(affine(weights, "query", query), config.heads)
    keys = [np.split(affine(weights, "key", s), config.heads) for s in states]
    values = [np.split(affine(weights, "value", s), config.heads) for s in states]
    contexts, shares = [], []
    for head, part in enumerate(queries):
        scores = [float(part @ key[head]) / float(np.sqrt(len(part))) for key in keys]
        shares.append(softmax(scores))
        contexts.append(weighted_sum(shares[-1], [value[head] for value in values]))
    mean = [sum(column) / config.heads for column in zip(*shares, strict=True)]
    return affine(weights, "output", np.concatenate(contexts)), mean


def attend(
    config: AttentionConfig,
    weights: Weights,
    query: Array,
    states: list[Array],
    summary: Array,
    *,
    residual: bool,
) -> tuple[Array, list[float] | None]:
    """Return attention output and weights of one query over the states of one sentence."""
    shares: list[float] | None = None
    if config.score == "none":
        output = summary
    elif config.score == "multi_head":
        output, shares = multi_head(config, weights, query, states)
    else:
        output, shares = single_head(config, weights, query, states)
    if residual and len(query) != len(output):
        return output + affine(weights, "residual.query", query), shares
    return (output + query if residual else output), shares
