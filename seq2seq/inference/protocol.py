"""What search asks of a model, what it is told, and what it gives back.

B sentences, K hypotheses a sentence, R = B * K rows (sentence-major), S source length, V vocabulary
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from seq2seq.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor
    from typing_extensions import Self


MOST_PIECES = 10_000  # of a hypothesis, beyond what is a multiple of its source


class State(Protocol):
    """What changes with each step, one row a hypothesis."""

    def select(self, rows_R: Tensor) -> Self:
        """Return the state of these rows, in this order; a row may come twice or not at all."""
        ...


StateT = TypeVar("StateT", bound=State)


class Decoding(Protocol[StateT]):
    """A model bound to a batch of encoded sentences."""

    @property
    def num_sentences(self) -> int:
        """Return B."""
        ...

    @property
    def source_lengths_B(self) -> Tensor:
        """Return the numbers of source pieces, the end of sentence included."""
        ...

    def start(self) -> StateT:
        """Return the state before the first piece, one row a sentence."""
        ...

    def step(self, tokens_R: Tensor, state: StateT) -> tuple[Tensor, Tensor | None, StateT]:
        """Read one piece a row; return logits_RV, attention weights_RS if there are any, the state.

        R is any multiple of `num_sentences`. Weights are zero at padded positions.
        """
        ...

    def select(self, sentences_B: Tensor) -> Decoding[StateT]:
        """Return the decoding of these sentences only, in this order; S may become smaller."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """One translation.

    `tokens` are without the ends of sentence. `log_prob` is the model's own, the end of sentence
    included; `score` is equation 14 of Wu et al. (2016), see `SearchOptions`. `finished` is false
    where the hypothesis was closed at the length limit although the model preferred to go on.
    `weights` has one attention row a step, the step of the end of sentence included, over the
    sentence's own source pieces: [len(tokens) + 1, source length], on the CPU.
    """

    tokens: list[int]
    score: float
    log_prob: float
    finished: bool
    weights: Tensor | None = None


@dataclass(frozen=True)
class SearchOptions:
    """How hypotheses are sought and scored.

    A hypothesis Y of source X has the score

        log P(Y | X) / ((5 + |Y|) / 6) ** alpha + beta * sum_i log(min(sum_j p_ij, 1))

    of Wu et al. (2016, eq. 14), where |Y| counts the end of sentence, i runs over all source
    pieces, j over all steps, and p_ij is the attention weight. A sum of weights below the smallest
    normal float32 counts as that. The score ranks finished hypotheses; the unfinished ones, which
    all have one length, are ranked by log probability.

    The longest output has max_length_factor * (source pieces) + max_length_offset pieces before
    the end of sentence. Padding and the begin of sentence are never produced, the unknown piece
    only where it is allowed; log probabilities are not renormalised for what is forbidden.

    Raises ConfigError for values out of range.
    """

    beam_size: int = 5
    nbest: int = 1
    length_penalty: float = 1.0
    coverage_penalty: float = 0.0
    max_length_factor: float = 2.0
    max_length_offset: int = 10
    no_repeat_ngram: int = 0
    keep_weights: bool = False
    allow_unk: bool = False
    pad: int = 0
    unk: int = 1
    bos: int = 2
    eos: int = 3

    def __post_init__(self) -> None:
        """Refuse values that no search can use."""
        for name, least, most in (
            ("beam_size", 1, 10_000),
            ("nbest", 1, 10_000),
            ("length_penalty", 0, 10),
            ("coverage_penalty", 0, 100),
            ("max_length_factor", 0, 100),
            ("max_length_offset", 1, MOST_PIECES),
            ("no_repeat_ngram", 0, 10_000),
        ):
            value = getattr(self, name)
            if not value >= least:
                raise ConfigError(f"{name}: expected {least} or more, found {value}")
            if value > most:
                raise ConfigError(f"{name}: expected {most} or less, found {value}")
        if self.nbest > self.beam_size:
            raise ConfigError(
                f"nbest: {self.nbest} is more than beam_size {self.beam_size}; raise beam_size"
            )

    @property
    def forbidden(self) -> list[int]:
        """Return the pieces that are never produced."""
        return [self.pad, self.bos] if self.allow_unk else [self.pad, self.bos, self.unk]

    def max_length(self, source_length: int) -> int:
        """Return the largest number of pieces before the end of sentence."""
        # The small term keeps 0.29 * 100 from being 28.
        return int(self.max_length_factor * source_length + 1e-9) + self.max_length_offset

    def length_norm(self, length: int) -> float:
        """Return what a log probability of so many pieces, the end included, is divided by."""
        return float(((5 + length) / 6) ** self.length_penalty)
