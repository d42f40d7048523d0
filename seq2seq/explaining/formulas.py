"""What a model computes, in words: its score function, its query, and where the output goes.

Letters: q query, k key, h encoder state, c context, y piece, s decoder state; W, b, v weights.

Legend: S source positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from seq2seq.config import ModelConfig, Score
from seq2seq.model.attention import Attention, Dot, MultiHeadAttention, SingleHeadAttention

_HEAVIEST = 3
_LIGHT = 0.005  # what two digits show as nothing
_SIGN_BARS = " ▁▂▃▄▅▆▇█"


def piece_name(piece: str) -> str:
    """Return a piece as a person reads it."""
    return {"</s>": "(end)", "<s>": "(start)", "<pad>": "(padding)"}.get(piece, piece)


def heaviest(names: Sequence[str], weights_S: Tensor) -> str:
    """Return the heaviest pieces or words with their weights, heaviest first."""
    order = weights_S[: len(names)].argsort(descending=True, stable=True).tolist()
    heavy = [place for place in order if weights_S[place] >= _LIGHT][:_HEAVIEST]
    return "  ".join(f"{piece_name(names[place])} {weights_S[place]:.2f}" for place in heavy)


def bars(weights_S: Tensor) -> str:
    """Return a bar for each weight, one sign wide."""
    return "".join(_SIGN_BARS[round(float(weight) * (len(_SIGN_BARS) - 1))] for weight in weights_S)


def vector(values: Tensor) -> str:
    """Return the size of a vector and its first numbers."""
    # Adding 0 makes 0 of what would be shown as -0.
    first = ", ".join(f"{value:.3f}" for value in values[:4] + 0.0)
    return f"[{len(values)}]  ({first}{', ...' if len(values) > 4 else ''})"


def shape(values: Tensor) -> str:
    """Return the sizes of a tensor."""
    return " x ".join(map(str, values.shape))


def number(value: Tensor) -> str:
    """Return a score; what the mask has hidden is minus infinity."""
    return "-inf" if value == -torch.inf else f"{value:.4f}"


@dataclass(frozen=True)
class Formula:
    """The score of a query and a key, where it comes from, and what it is multiplied with."""

    text: str
    source: str
    letters: dict[str, str]  # each letter's name among the weights
    remembered: str  # what is kept of the keys, once a sentence
    scale: float | None  # None: nothing is scaled
    scale_reason: str

    def as_json(self) -> dict[str, Any]:
        """Return the same as JSON can hold it."""
        return asdict(self)


_ADDITIVE = "Bahdanau et al. 2014, A.1.2"
_LUONG = "Luong et al. 2015, eq. 8"
_VASWANI = "Vaswani et al. 2017, eq. 1"

_TEXTS: dict[Score, tuple[str, str, dict[str, str], str]] = {
    "dot": ("q·k", _LUONG, {}, "the keys as they are"),
    "scaled_dot": ("q·k / sqrt(size of k)", _VASWANI, {}, "the keys as they are"),
    "general": ("q·(W k)", _LUONG, {"W": "score.key.weight"}, "W k of each key"),
    "additive": (
        "v·tanh(W1 q + W2 k + b)",
        _ADDITIVE,
        {
            "v": "score.energy",
            "W1": "score.query.weight",
            "W2": "score.key.weight",
            "b": "score.key.bias",
        },
        "W2 k + b of each key",
    ),
    "concat": (
        "v·tanh(W [q; k])",
        _LUONG,
        {"v": "score.energy", "W": "score.weight"},
        "the key's half of W [q; k], of each key",
    ),
    "multi_head": (
        "for each head n: (W q + b)_n·k_n / sqrt(size of k_n)",
        "Vaswani et al. 2017, sec. 3.2.2",
        {"W": "query.weight", "b": "query.bias"},
        "the keys as they are",
    ),
    "none": (
        "none: nothing is compared, every step gets the same summary of the source",
        "Cho et al. 2014, fig. 1",
        {},
        "nothing",
    ),
}

_UNSCALED: dict[Score, str] = {
    "dot": "a plain product; its spread grows as the root of the size of a key, and scaled_dot "
    "divides by that",
    "general": "W can learn any scale",
    "additive": "tanh is between -1 and 1, and v can learn any scale",
    "concat": "tanh is between -1 and 1, and v can learn any scale",
    "none": "there is no score",
}


def score_formula(score: Score, attention: Attention) -> Formula:
    """Return what the attention computes; the scale is the module's own number."""
    text, source, letters, remembered = _TEXTS[score]
    module = attention.score if isinstance(attention, SingleHeadAttention) else None
    if isinstance(module, Dot) and module.query is not None:
        text, letters = text.replace("q·k", "(W q)·k"), {"W": "score.query.weight"}
    scale = None
    reason = _UNSCALED.get(score, "")
    if isinstance(attention, MultiHeadAttention):
        scale, reason = attention.scale, _root(attention.scale, "one key in one head")
    elif score == "scaled_dot" and isinstance(module, Dot):
        scale, reason = module.scale, _root(module.scale, "one key, not of the sentence")
    return Formula(text, source, letters, remembered, scale, reason)


def _root(scale: float, of: str) -> str:
    size = round(1 / scale**2)
    return f"1/sqrt({size}) = {1 / math.sqrt(size):.6g}; {size} is the size of {of}"


def query_name(config: ModelConfig) -> str:
    """Return what asks in this style of decoder."""
    return {
        "bahdanau": "s_(i-1), the decoder's state before this step (Bahdanau et al. 2014, eq. 6)",
        "luong": "s_i, the decoder's state after it has read the piece before "
        "(Luong et al. 2015, sec. 3; h_t there)",
        "pre_attention": "q_i, the state of the first GRU after it has read the piece before",
    }[config.style]


def output_use(config: ModelConfig) -> str:
    """Return what the decoder does with the attention's output a_i."""
    fed = " and enters the GRU of the next step (sec. 3.3)" if config.input_feeding else ""
    return {
        "bahdanau": "s_i = GRU([y_(i-1); a_i], s_(i-1)); the logits come from s_i, y_(i-1) and a_i "
        "(Bahdanau et al. 2014, eq. 4, A.2.2)",
        "luong": f"the attentional state tanh(W [a_i; s_i]) gives the logits{fed} "
        "(Luong et al. 2015, eqs. 5 and 6)",
        "pre_attention": "a_i is the input of the second GRU, whose state gives the logits",
    }[config.style]


def residual_name(config: ModelConfig, attention: Attention) -> str:
    """Return what is added to the context."""
    if attention.residual is None:
        return "none: a_i = c_i (model.attention.residual)"
    if attention.residual.query is None:
        return "a_i = c_i + q_i: the query is added, so that what the decoder knew is not lost"
    return "a_i = c_i + W q_i: the query is added, by residual.query.weight in the context's size"
