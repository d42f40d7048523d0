"""What translating gives: a line's translation, made of the translations of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Part:
    """A sentence that was translated at once, with one of its hypotheses."""

    source: str
    source_pieces: list[str]  # with the end of sentence
    target_pieces: list[str]  # with the end of sentence
    text: str
    score: float
    log_prob: float
    finished: bool  # false: closed at the length limit
    weights: Tensor | None = None  # [target pieces, source pieces]
    first_word: int = 0  # the word of the source line, from 0, in which the part begins

    def as_json(self, *, attention: bool) -> dict[str, Any]:
        """Return what JSON can hold, with the weights row by row where they are asked for."""
        found: dict[str, Any] = {
            "source": self.source,
            "source_tokens": self.source_pieces,
            "tokens": self.target_pieces,
            "score": self.score,
            "log_prob": self.log_prob,
            "finished": self.finished,
        }
        if attention:
            found["attention"] = None if self.weights is None else self.weights.tolist()
        return found


@dataclass(frozen=True)
class Translation:
    """One of the translations of a line; an empty line has no parts."""

    parts: list[Part] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The whole line; a line break that a model makes up becomes a space."""
        return " ".join(" ".join(part.text for part in self.parts).split())

    @property
    def score(self) -> float:
        """The mean score of the parts."""
        return sum(part.score for part in self.parts) / max(1, len(self.parts))

    def as_json(self, *, attention: bool = False) -> dict[str, Any]:
        """Return text, score and parts as JSON can hold them."""
        parts = [part.as_json(attention=attention) for part in self.parts]
        return {"text": self.text, "score": self.score, "parts": parts}


@dataclass(frozen=True)
class Sampling:
    """Draw translations instead of searching for the best; see seq2seq.inference.sampling."""

    num_samples: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1


def join_parts(parts: Sequence[Sequence[Part]]) -> list[Translation]:
    """Combine the parts of a line: the n-th best line has the n-th best of each part.

    Where a part has fewer, its last one stands in.
    """
    if not parts:
        return [Translation()]
    ranks = max(len(hypotheses) for hypotheses in parts)
    return [
        Translation([hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in parts])
        for rank in range(ranks)
    ]
