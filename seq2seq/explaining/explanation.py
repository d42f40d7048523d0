"""The record of one sentence's way through a model, as numbers that anyone can recompute.

Legend: S source positions, padding included, L real ones, T steps, Q query size, D key size,
A what the score function keeps of a key, M value size, H memory size, N heads (several heads only:
[N, S] may then stand for [S]).
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
class Candidate:
    """A piece that could have come next, with its probability."""

    piece: str
    id: int
    probability: float


@dataclass(frozen=True)
class AttentionStep:
    """What one step saw of the source; all on the CPU."""

    scores_S: Tensor  # before the mask, scaled where the score is
    weights_S: Tensor  # exactly zero on padding
    mean_weights_S: Tensor  # of all heads; with one head the weights themselves
    context_M: Tensor


@dataclass(frozen=True)
class Step:
    """One step of the decoder: it reads a piece, asks, and chooses the next piece."""

    number: int  # from 1
    reads: Piece
    writes: Piece
    log_prob: float  # of what it writes
    rank: int  # of what it writes, from 1
    candidates: tuple[Candidate, ...]
    query_Q: Tensor
    looked: AttentionStep | None  # None: the model has no attention
    added_M: Tensor | None  # the query as the residual adds it
    output_M: Tensor


@dataclass(frozen=True)
class Source:
    """What is computed once a sentence, and read at every step."""

    pieces: tuple[Piece, ...]  # with the end of sentence and the padding
    mask_S: Tensor
    states_SH: Tensor
    keys_SD: Tensor | None
    remembered_SA: Tensor | None
    values_SM: Tensor | None
    summary_H: Tensor

    @property
    def length(self) -> int:
        """Return L: the positions that are not padding."""
        return int(self.mask_S.sum())


@dataclass(frozen=True)
class Explanation:
    """A sentence followed through a model, step by step."""

    config: ModelConfig
    languages: tuple[str, str]
    formula: Formula
    query: str  # what asks, in words
    residual: str  # what is added to the context, in words
    output_use: str  # what the decoder does with the attention's output, in words
    source: Source
    part: Part  # the translation, with the weights of real positions
    forced: bool  # the translation was given, not found
    parameters: dict[str, Tensor]  # of the attention, by their names in the model
    steps: tuple[Step, ...]
    padding_difference: float  # largest change of a weight or probability by the padding

    @property
    def words(self) -> tuple[list[str], list[str]]:
        """Return the words of source and translation, as white space separates them."""
        return self.part.source.split(), self.part.text.split()

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it.

        A tensor is {"shape", "data"}; null among the scores after the mask is minus infinity.
        """
        return {
            "source_language": self.languages[0],
            "target_language": self.languages[1],
            "source": self.part.source,
            "translation": self.part.text,
            "forced": self.forced,
            "log_prob": self.part.log_prob,
            "finished": self.part.finished,
            "model": self._model(),
            "memory": self._memory(),
            "parameters": {name: tensor(value) for name, value in self.parameters.items()},
            "steps": [self._step(step) for step in self.steps],
            "padding_difference": self.padding_difference,
            "words": self._words(),
        }

    def _model(self) -> dict[str, Any]:
        attention = self.config.attention
        return {
            "style": self.config.style,
            "score": attention.score,
            "heads": attention.heads,
            "formula": self.formula.as_json(),
            "query": self.query,
            "residual": self.residual,
            "output_use": self.output_use,
        }

    def _memory(self) -> dict[str, Any]:
        source = self.source
        return {
            "length": source.length,
            "pieces": [asdict(piece) for piece in source.pieces],
            "mask": tensor(source.mask_S),
            "states": tensor(source.states_SH),
            "keys": tensor(source.keys_SD),
            "remembered": tensor(source.remembered_SA),
            "values": tensor(source.values_SM),
            "summary": tensor(source.summary_H),
        }

    def _step(self, step: Step) -> dict[str, Any]:
        found: dict[str, Any] = {
            "number": step.number,
            "reads": asdict(step.reads),
            "writes": asdict(step.writes),
            "log_prob": step.log_prob,
            "rank": step.rank,
            "candidates": [asdict(candidate) for candidate in step.candidates],
            "query": tensor(step.query_Q),
        }
        if step.looked is not None:
            looked = step.looked
            found |= {
                "scores": tensor(looked.scores_S),
                "masked_scores": tensor(self.masked(looked.scores_S)),
                "weights": tensor(looked.weights_S),
                "mean_weights": tensor(looked.mean_weights_S),
                "context": tensor(looked.context_M),
            }
        return found | {"residual": tensor(step.added_M), "output": tensor(step.output_M)}

    def masked(self, scores_S: Tensor) -> Tensor:
        """Return the scores as the softmax sees them: minus infinity on padding."""
        return torch.where(self.source.mask_S, scores_S, -torch.inf)

    def _words(self) -> dict[str, Any] | None:
        if self.part.weights is None:
            return None
        source, target = self.words
        return {"source": source, "target": target, "weights": word_weights(self.part).tolist()}


def tensor(values: Tensor | None) -> dict[str, Any] | None:
    """Return shape and data of a tensor, each number in as few digits as give it back exactly."""
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
