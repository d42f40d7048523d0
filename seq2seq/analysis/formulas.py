"""What a model computes, in words: its score function, its query, and the use of its output.

Letters: q query, k key, c context, a output of the attention, y piece, s decoder state; W, b, v
weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from seq2seq.config import ModelConfig, Score
from seq2seq.model.attention import Attention, Dot, MultiHeadAttention, SingleHeadAttention


@dataclass(frozen=True)
class Formula:
    """The score of a query and a key, its source, and its scale."""

    text: str
    source: str
    letters: dict[str, str]  # the name of the weight that each letter stands for
    remembered: str  # what is computed of the keys once per sentence
    scale: float | None  # None: not scaled
    scale_reason: str


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
    """Return the formula of a score; its scale is read from the module."""
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
    """Return which state is the query in this style of decoder."""
    if config.attention.previous_piece:
        return "s_(i-1) + W y_(i-1), the decoder's state before this step and the piece before"
    return {
        "bahdanau": "s_(i-1), the decoder's state before this step (Bahdanau et al. 2014, eq. 6)",
        "conditional": "s'_i = GRU_1(y_(i-1), s_(i-1)), the decoder's state after it has read the "
        "piece before (Sennrich et al. 2017, sec. 2)",
        "luong": "s_i, the decoder's state after it has read the piece before "
        "(Luong et al. 2015, sec. 3; h_t there)",
        "pre_attention": "q_i, the state of the first GRU after it has read the piece before",
    }[config.style]


def output_use(config: ModelConfig) -> str:
    """Return what the decoder does with the output a_i of the attention."""
    words = (
        "; tanh(sum of weights x W e_j), of the embeddings e_j of source pieces, is added to what "
        "the logits come from (Nguyen and Chiang 2018, sec. 4)"
    )
    fed = " and enters the GRU of the next step (sec. 3.3)" if config.input_feeding else ""
    return {
        "bahdanau": "s_i = GRU([y_(i-1); a_i], s_(i-1)); the logits come from s_i, y_(i-1) and a_i "
        "(Bahdanau et al. 2014, eq. 4, A.2.2)",
        "conditional": "s_i = GRU_2(a_i, s'_i), the second transition; the logits come from s_i, "
        "y_(i-1) and a_i (Sennrich et al. 2017, sec. 2)",
        "luong": f"the attentional state tanh(W [a_i; s_i]) gives the logits{fed} "
        "(Luong et al. 2015, eqs. 5 and 6)",
        "pre_attention": "a_i is the input of the second GRU, whose state gives the logits",
    }[config.style] + words * config.lexical


def residual_name(config: ModelConfig, attention: Attention) -> str:
    """Return what the residual adds to the context."""
    if attention.residual is None:
        return "none: a_i = c_i (model.attention.residual)"
    if attention.residual.query is None:
        return "a_i = c_i + q_i: the query is added, so that its information is not lost"
    return "a_i = c_i + W q_i: the query is added, by residual.query.weight in the context's size"
