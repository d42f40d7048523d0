"""The record of how a model translates one sentence: numbers to recompute, and the formulas.

Legend: S source positions, padding included, T steps, Q query size, D key size, A size of a key
after the score's projection, M value size, H encoder state size, N heads (with several heads,
[N, S] takes the place of [S]), V target vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from seq2seq.analysis import Method, to_json
from seq2seq.analysis.attribution import MEANINGS
from seq2seq.config import ModelConfig, Score, Style
from seq2seq.inference.text import Part
from seq2seq.inference.words import WordAttention, word_attention
from seq2seq.model.attention import Attention, Dot


@dataclass(frozen=True)
class Piece:
    """A subword with its number in the vocabulary."""

    piece: str
    id: int


@dataclass(frozen=True)
class Candidate(Piece):
    """A piece that could have come next."""

    probability: float


@dataclass(frozen=True)
class Source:
    """Everything that is computed once per sentence and used at every step."""

    pieces: tuple[Piece, ...]  # with the end of sentence and the padding
    mask_S: Tensor
    states_SH: Tensor
    keys_SD: Tensor | None
    remembered_SA: Tensor | None  # what the score function computes of the keys
    values_SM: Tensor | None
    summary_H: Tensor

    @property
    def length(self) -> int:
        """The number of positions that are not padding."""
        return int(self.mask_S.sum())


@dataclass(frozen=True)
class AttentionStep:
    """The attention of one step, on the CPU."""

    scores_S: Tensor  # scaled, but before the mask
    masked_scores_S: Tensor  # minus infinity on padding
    weights_S: Tensor  # exactly zero on padding
    mean_weights_S: Tensor  # over all heads
    context_M: Tensor
    looked: bool = False  # the weights were given, they are not the softmax of the scores


@dataclass(frozen=True)
class DecoderStep:
    """One step of the decoder: it reads a piece, attends, and writes the next piece."""

    number: int  # from 1
    reads: Piece
    writes: Piece
    log_prob: float  # of the piece it writes
    rank: int  # of the piece it writes, from 1
    candidates: tuple[Candidate, ...]
    query_Q: Tensor
    attention: AttentionStep | None  # None: the model has no attention
    residual_M: Tensor | None  # what the residual adds to the context
    output_M: Tensor
    attribution_S: Tensor | None = None  # to log_prob, in nats; zero on padding


@dataclass(frozen=True)
class Formula:
    """The score of a query and a key, its source, and its scale."""

    text: str
    source: str
    letters: dict[str, str]  # the name of the weight that each letter stands for
    remembered: str  # what is computed of the keys once per sentence
    scale: float | None  # None: not scaled
    scale_reason: str


@dataclass(frozen=True)
class Explanation:
    """A sentence followed through a model, step by step; its repr has no tensors."""

    config: ModelConfig
    languages: tuple[str, str]
    formula: Formula
    source: Source = field(repr=False)
    part: Part  # the translation, with the weights of positions that are not padding
    forced: bool  # the translation was given, not found by the search
    has_tokens: bool  # in the source, which has no stand-ins for them here
    attribution: Method | None  # the method of the steps' attributions
    # Of the attention, by their names in the model.
    parameters: dict[str, Tensor] = field(repr=False)
    steps: tuple[DecoderStep, ...] = field(repr=False)
    log_probs_TV: Tensor = field(repr=False)  # of all pieces at each step; not in the JSON
    padding_difference: float  # largest change of a weight or probability caused by padding

    def as_json(self) -> dict[str, Any]:
        """Return the explanation in types that JSON has.

        A tensor is {"shape", "data"}; null among the masked scores is minus infinity.
        """
        steps = [to_json(step) for step in self.steps]
        for step in steps:
            step |= step.pop("attention") or {}
        return {
            "source_language": self.languages[0],
            "target_language": self.languages[1],
            "source": self.part.source,
            "translation": self.part.text,
            "forced": self.forced,
            "log_prob": self.part.log_prob,
            "finished": self.part.finished,
            "model": {
                "style": self.config.style,
                "score": self.config.attention.score,
                "heads": self.config.attention.heads,
                "formula": to_json(self.formula),
                "query": self.query,
                "residual": self.residual,
                "output_use": self.output_use,
            },
            "memory": {"length": self.source.length, **to_json(self.source)},
            "parameters": to_json(self.parameters),
            "steps": steps,
            "padding_difference": self.padding_difference,
            "words": None if self.part.weights is None else to_json(word_attention(self.part)),
            "attribution": self.attribution
            and {"method": self.attribution, "meaning": MEANINGS[self.attribution]},
            "attributed_words": to_json(self.attributed_words()),
        }

    @property
    def query(self) -> str:
        """The state that is the query, in words."""
        if self.config.attention.previous_piece:
            return "s_(i-1) + W y_(i-1), the decoder's state before this step and the piece before"
        return _QUERIES[self.config.style]

    @property
    def residual(self) -> str:
        """The residual that is added to the context, in words."""
        query_Q, residual_M = self.steps[0].query_Q, self.steps[0].residual_M
        if residual_M is None:
            return "none: a_i = c_i (model.attention.residual)"
        if len(residual_M) == len(query_Q):
            return "a_i = c_i + q_i: the query is added, so that its information is not lost"
        return (
            "a_i = c_i + W q_i: the query is added, by residual.query.weight in the context's size"
        )

    @property
    def output_use(self) -> str:
        """The use that the decoder makes of the attention's output a_i, in words."""
        fed = " and enters the GRU of the next step (sec. 3.3)" * self.config.input_feeding
        use = _OUTPUT_USES[self.config.style].format(fed=fed)
        return use + _LEXICAL_USE * self.config.lexical

    @property
    def origin(self) -> str:
        """The origin of the translation, in words."""
        looked = [str(s.number) for s in self.steps if s.attention and s.attention.looked]
        if looked:
            return f"what follows if the weights of step {', '.join(looked)} are as given"
        if self.forced:
            return "given"
        tokens = " without the stand-ins that translate uses for tokens"
        return "found by the search" + tokens * self.has_tokens

    def attributed_words(self) -> WordAttention | None:
        """Return the steps' attributions between words, merged as attention weights are."""
        rows = [s.attribution_S for s in self.steps if s.attribution_S is not None]
        if not rows:
            return None
        weights_TS = torch.stack(rows)[:, : self.source.length].numpy()
        return word_attention(replace(self.part, weights=weights_TS))

    def _repr_html_(self) -> str:
        """Return the explanation for a notebook: a picture of the attention, and each step."""
        from seq2seq.analysis.show import notebook_html  # show imports this module

        return notebook_html(self)


# --- What the model computes, in words
#
# Letters: q query, k key, c context, a output of the attention, y piece, s decoder state; W, b, v
# weights.


_LUONG = "Luong et al. 2015, sec. 3.1"
_ANY_SCALE = "tanh is between -1 and 1, and v can learn any scale"
_FORMULAS: dict[Score, Formula] = {
    "dot": Formula(
        "q·k", _LUONG, {}, "the keys as they are", None,
        "a plain product; its spread grows as the root of the size of a key, and scaled_dot "
        "divides by that",
    ),
    "scaled_dot": Formula(
        "q·k / sqrt(size of k)", "Vaswani et al. 2017, eq. 1", {}, "the keys as they are", None, ""
    ),
    "general": Formula(
        "q·(W k)", _LUONG, {"W": "score.key.weight"}, "W k of each key", None,
        "W can learn any scale",
    ),
    "additive": Formula(
        "v·tanh(W1 q + W2 k + b)", "Bahdanau et al. 2014, A.1.2",
        {"v": "score.energy", "W1": "score.query.weight", "W2": "score.key.weight",
         "b": "score.key.bias"},
        "W2 k + b of each key", None, _ANY_SCALE,
    ),
    "concat": Formula(
        "v·tanh(W [q; k])", _LUONG, {"v": "score.energy", "W": "score.weight"},
        "the key's half of W [q; k], of each key", None, _ANY_SCALE,
    ),
    "multi_head": Formula(
        "for each head n: (W q + b)_n·k_n / sqrt(size of k_n)", "Vaswani et al. 2017, sec. 3.2.2",
        {"W": "query.weight", "b": "query.bias"}, "the keys as they are", None, "",
    ),
    "none": Formula(
        "none: nothing is compared, every step gets the same summary of the source",
        "Cho et al. 2014, fig. 1", {}, "nothing", None, "there is no score",
    ),
}  # fmt: skip

_QUERIES: dict[Style, str] = {
    "bahdanau": "s_(i-1), the decoder's state before this step (Bahdanau et al. 2014, eq. 6)",
    "conditional": "s'_i = GRU_1(y_(i-1), s_(i-1)), the decoder's state after it has read the "
    "piece before (Sennrich et al. 2017, sec. 2)",
    "luong": "s_i, the decoder's state after it has read the piece before "
    "(Luong et al. 2015, sec. 3; h_t there)",
    "pre_attention": "q_i, the state of the first GRU after it has read the piece before",
}
_OUTPUT_USES: dict[Style, str] = {
    "bahdanau": "s_i = GRU([y_(i-1); a_i], s_(i-1)); the logits come from s_i, y_(i-1) and a_i "
    "(Bahdanau et al. 2014, eq. 4, A.2.2)",
    "conditional": "s_i = GRU_2(a_i, s'_i), the second transition; the logits come from s_i, "
    "y_(i-1) and a_i (Sennrich et al. 2017, sec. 2)",
    "luong": "the attentional state tanh(W [a_i; s_i]) gives the logits{fed} "
    "(Luong et al. 2015, eqs. 5 and 6)",
    "pre_attention": "a_i is the input of the second GRU, whose state gives the logits",
}
_LEXICAL_USE = (
    "; tanh(sum of weights x W e_j), of the embeddings e_j of source pieces, is added to what the "
    "logits come from (Nguyen and Chiang 2018, sec. 4)"
)


def score_formula(score: Score, attention: Attention) -> Formula:
    """Return the formula of a score; its scale is read from the module."""
    found = _FORMULAS[score]
    module: Any = getattr(attention, "score", attention)
    if isinstance(module, Dot) and module.query is not None:
        text = found.text.replace("q·k", "(W q)·k")
        found = replace(found, text=text, letters={"W": "score.query.weight"})
    if score not in ("scaled_dot", "multi_head"):
        return found
    size = round(1 / module.scale**2)
    of = "one key in one head" if score == "multi_head" else "one key, not of the sentence"
    reason = f"1/sqrt({size}) = {1 / math.sqrt(size):.6g}; {size} is the size of {of}"
    return replace(found, scale=module.scale, scale_reason=reason)
