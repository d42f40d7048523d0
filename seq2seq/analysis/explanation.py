"""The record of how a model translates one sentence, as numbers that anyone can recompute.

Legend: S source positions, padding included, T steps, Q query size, D key size, A size of what the
score function keeps of a key, M value size, H encoder state size, N heads (with several heads,
[N, S] takes the place of [S]), V target vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from seq2seq.analysis import to_json
from seq2seq.analysis.formulas import Formula
from seq2seq.config import ModelConfig
from seq2seq.inference.text import Part
from seq2seq.inference.words import words_as_json


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
    """What is computed once per sentence and used at every step."""

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
class Step:
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


@dataclass(frozen=True)
class Explanation:
    """A sentence followed through a model, step by step; its repr has no tensors."""

    config: ModelConfig
    languages: tuple[str, str]
    formula: Formula
    query: str  # which state is the query, in words
    residual: str  # what is added to the context, in words
    output_use: str  # what the decoder does with the output of the attention, in words
    source: Source = field(repr=False)
    part: Part  # the translation, with the weights of positions that are not padding
    forced: bool  # the translation was given, not found by the search
    # Of the attention, by their names in the model.
    parameters: dict[str, Tensor] = field(repr=False)
    steps: tuple[Step, ...] = field(repr=False)
    log_probs_TV: Tensor = field(repr=False)  # of all pieces at each step; not in the JSON
    padding_difference: float  # largest change of a weight or probability caused by padding

    def as_json(self) -> dict[str, Any]:
        """Return all of it in types that JSON has.

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
            "words": words_as_json(self.part),
        }

    def _repr_html_(self) -> str:
        """Return the explanation for a notebook: a picture of the attention, and each step."""
        from seq2seq.analysis.show import notebook_html  # which knows this class

        return notebook_html(self)
