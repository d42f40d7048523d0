"""The record of how a model translates one sentence, as numbers that anyone can recompute.

Legend: S source positions, padding included, T steps, Q query size, D key size, A size of what the
score function keeps of a key, M value size, H encoder state size, N heads (with several heads,
[N, S] takes the place of [S]).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seq2seq.config import ModelConfig
from seq2seq.evaluation.alignment import word_weights
from seq2seq.explaining.formulas import Formula
from seq2seq.inference.text import Part


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
    projected_keys_SA: Tensor | None
    values_SM: Tensor | None
    summary_H: Tensor

    @property
    def length(self) -> int:
        """The number of positions that are not padding."""
        return int(self.mask_S.sum())

    def as_json(self) -> dict[str, Any]:
        """Return all of it in types that JSON has."""
        return {
            "length": self.length,
            "pieces": [asdict(piece) for piece in self.pieces],
            "mask": tensor_json(self.mask_S),
            "states": tensor_json(self.states_SH),
            "keys": tensor_json(self.keys_SD),
            "remembered": tensor_json(self.projected_keys_SA),
            "values": tensor_json(self.values_SM),
            "summary": tensor_json(self.summary_H),
        }


@dataclass(frozen=True)
class AttentionStep:
    """The attention of one step, on the CPU."""

    scores_S: Tensor  # scaled, but before the mask
    weights_S: Tensor  # exactly zero on padding
    mean_weights_S: Tensor  # over all heads
    context_M: Tensor


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

    def as_json(self, mask_S: Tensor) -> dict[str, Any]:
        """Return all of it in types that JSON has."""
        found: dict[str, Any] = {
            "number": self.number,
            "reads": asdict(self.reads),
            "writes": asdict(self.writes),
            "log_prob": self.log_prob,
            "rank": self.rank,
            "candidates": [asdict(candidate) for candidate in self.candidates],
            "query": tensor_json(self.query_Q),
        }
        if self.attention is not None:
            found |= {
                "scores": tensor_json(self.attention.scores_S),
                "masked_scores": tensor_json(mask_scores(self.attention.scores_S, mask_S)),
                "weights": tensor_json(self.attention.weights_S),
                "mean_weights": tensor_json(self.attention.mean_weights_S),
                "context": tensor_json(self.attention.context_M),
            }
        residual, output = tensor_json(self.residual_M), tensor_json(self.output_M)
        return found | {"residual": residual, "output": output}


@dataclass(frozen=True)
class Explanation:
    """A sentence followed through a model, step by step."""

    config: ModelConfig
    languages: tuple[str, str]
    formula: Formula
    query: str  # which state is the query, in words
    residual: str  # what is added to the context, in words
    output_use: str  # what the decoder does with the output of the attention, in words
    source: Source
    part: Part  # the translation, with the weights of positions that are not padding
    forced: bool  # the translation was given, not found by the search
    parameters: dict[str, Tensor]  # of the attention, by their names in the model
    steps: tuple[Step, ...]
    padding_difference: float  # largest change of a weight or probability caused by padding

    @property
    def words(self) -> tuple[list[str], list[str]]:
        """The words of source and translation, as white space separates them."""
        return self.part.source.split(), self.part.text.split()

    def as_json(self) -> dict[str, Any]:
        """Return all of it in types that JSON has.

        A tensor is {"shape", "data"}; null among the masked scores is minus infinity.
        """
        words = None
        if self.part.weights is not None:
            source, target = self.words
            weights = word_weights(self.part).tolist()
            words = {"source": source, "target": target, "weights": weights}
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
                "formula": asdict(self.formula),
                "query": self.query,
                "residual": self.residual,
                "output_use": self.output_use,
            },
            "memory": self.source.as_json(),
            "parameters": {name: tensor_json(value) for name, value in self.parameters.items()},
            "steps": [step.as_json(self.source.mask_S) for step in self.steps],
            "padding_difference": self.padding_difference,
            "words": words,
        }


def mask_scores(scores_S: Tensor, mask_S: Tensor) -> Tensor:
    """Return the scores as the softmax gets them: minus infinity on padding."""
    return torch.where(mask_S, scores_S, -torch.inf)


def tensor_json(values: Tensor | None) -> dict[str, Any] | None:
    """Return shape and data of a tensor; its numbers have the fewest digits that are exact."""
    if values is None:
        return None
    return {"shape": list(values.shape), "data": _data(values.numpy())}


def _data(values: np.ndarray[Any, Any]) -> Any:
    if values.ndim > 1:
        return [_data(row) for row in values]
    if values.dtype == np.bool_:
        return values.tolist()
    # The shortest text of a 32-bit number is half as long as that of the same number in 64 bits.
    return [float(str(number)) if number > -np.inf else None for number in values]
