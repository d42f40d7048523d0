"""The interface of search: a model (or an ensemble) to decode with, options, and hypotheses.

Search computes with NumPy alone. ONNX Runtime or PyTorch runs the model, behind `Decoding`
(onnx_backend.py, torch_backend.py).

Legend: B sentences, K hypotheses a sentence, R = B * K rows (sentence-major), S source length,
V vocabulary, C candidates a row
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from seq2seq.config import InferenceConfig
from seq2seq.config.section import explain
from seq2seq.data.tokenizer import BOS, PAD, UNK
from seq2seq.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Self

    from seq2seq.inference.required import Glossary

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.floating]

_DEFAULTS = InferenceConfig()
TINY = float(np.finfo(np.float32).tiny)


class State(Protocol):
    """The state of a decoder between steps, one row per hypothesis."""

    def select(self, rows_R: Ints) -> Self:
        """Return the state of these rows, in this order; rows may repeat."""


class Step(NamedTuple):
    """The predictions of a model after one piece per row.

    The candidates of a row are all pieces (C = V and `pieces_RC` is None), or its most likely ones
    and EOS, by id. Search may overwrite the log probabilities. Weights are zero at padding; None
    for a model without attention, or if they were not asked for.
    """

    log_probs_RC: Floats
    state: Any
    weights_RS: Floats | None = None
    pieces_RC: Ints | None = None


class Decoding(Protocol):
    """A model bound to a batch of encoded sentences."""

    @property
    def source_lengths_B(self) -> Ints:
        """Return the number of source pieces of each sentence, EOS included."""

    def start(self) -> State:
        """Return the state before the first piece, one row per sentence."""

    def step(
        self, tokens_R: Ints, state: Any, *, count: int | None = None, weights: bool = False
    ) -> Step:
        """Return the predictions after one piece per row; R is any multiple of B.

        With a `count`, that many of the most likely pieces of each row are enough.
        """

    def select(self, sentences_B: Ints) -> Decoding:
        """Return the decoding of these sentences, in this order.

        It may be this same object, modified: do not use this one afterwards.
        """


class Backend(Protocol):
    """A model, and the library that runs it."""

    weights_sum: str  # the SHA-256 of the file of its weights

    @property
    def on_gpu(self) -> bool:
        """Whether the model is on a GPU, which processes cannot share."""

    @property
    def batch_scale(self) -> int:
        """How many times as large as on a CPU batches should be."""

    def decoding(self, source_BS: Ints) -> Decoding:
        """Return the model bound to a batch of sources, padded with PAD."""

    def computing(self) -> AbstractContextManager[object]:
        """Return a context for several batches; in it, they share weights cast to bf16."""


Status = Literal["extended", "finished", "unfinished", "pruned"]


@dataclass(frozen=True)
class BeamNode:
    """A hypothesis that a beam search ranked, as a node of the tree of all of them.

    A tree is a list: the root (the empty hypothesis), then the candidates of each step, most likely
    first, at most as many as the beam has places. `parent` is the index in the list of the
    hypothesis that this one extends by `token`; None for the root. `log_prob` is the log
    probability of all pieces so far, `score` their score as a whole translation (`SearchOptions`).

    `status` is "extended" if another hypothesis of the beam extends this one, "finished" if it ends
    with EOS, "unfinished" if it was in the beam when the search ended, and "pruned" if better ones
    displaced it from the beam or kept it out. The finished hypothesis with the best score, of equal
    ones the first, is the translation. `piece` is the token as text, filled in by Translator.
    """

    parent: int | None
    token: int
    log_prob: float
    score: float
    status: Status
    piece: str = ""


@dataclass(frozen=True)
class Hypothesis:
    """One translation.

    `tokens` excludes BOS and EOS. `log_prob` is the model's, EOS included; `score` is
    equation 14 of Wu et al. (2016), see `SearchOptions`. `finished` is false where the length
    limit ended the hypothesis although the model preferred another piece. `log_probs` has the log
    probability of each piece, EOS included, given those before it; they sum to `log_prob`.
    `weights` has a row of attention for each step, EOS included, over the source pieces of
    the sentence: [len(tokens) + 1, source length]. `tree` is the beam search that found it.
    """

    tokens: list[int]
    score: float
    log_prob: float
    finished: bool
    log_probs: list[float] = field(default_factory=list)
    weights: Floats | None = None
    tree: Sequence[BeamNode] | None = None


@dataclass(frozen=True)
class SearchOptions:
    """How to search for hypotheses and score them.

    A hypothesis Y of source X has the score

        log P(Y | X) / ((5 + |Y|) / 6) ** alpha + beta * sum_i log(min(sum_j p_ij, 1))

    of Wu et al. (2016, eq. 14), where |Y| counts EOS, i runs over all source pieces, j over all
    steps, and p_ij is the attention weight. Sums of weights are clamped to the smallest normal
    float32. The score ranks finished hypotheses; unfinished ones all have one length and are ranked
    by log probability.

    The longest output has max_length_factor * (source pieces) + max_length_offset pieces before
    EOS. Padding and BOS are never produced, the unknown piece only with `allow_unk`; log
    probabilities are not renormalized for forbidden pieces. With `split_sentences` texts are
    translated sentence by sentence, else line by line, with the terms of the `glossary`
    (seq2seq.inference.required). `keep_weights` and `keep_tree` keep the attention weights, and the
    tree of a beam search, for each hypothesis.

    Raises ConfigError for values that a recipe's `inference` section could not have.
    """

    beam_size: int = _DEFAULTS.beam_size
    nbest: int = 1
    length_penalty: float = _DEFAULTS.length_penalty
    coverage_penalty: float = _DEFAULTS.coverage_penalty
    max_length_factor: float = _DEFAULTS.max_length_factor
    max_length_offset: int = _DEFAULTS.max_length_offset
    no_repeat_ngram: int = _DEFAULTS.no_repeat_ngram
    split_sentences: bool = _DEFAULTS.split_sentences
    keep_weights: bool = False
    keep_tree: bool = False
    allow_unk: bool = False
    glossary: Glossary | None = None

    def __post_init__(self) -> None:
        try:
            InferenceConfig(**{name: getattr(self, name) for name in SEARCH_KEYS})
        except ValidationError as error:
            raise ConfigError(explain(error, (), InferenceConfig)) from None
        if self.nbest < 1:
            raise ConfigError(f"nbest: expected 1 or more, found {self.nbest}")
        if self.nbest > self.beam_size:
            raise ConfigError(
                f"nbest: {self.nbest} is more than beam_size {self.beam_size}; raise beam_size"
            )

    @property
    def forbidden(self) -> list[int]:
        """Return the pieces that are never produced."""
        return [PAD, BOS] if self.allow_unk else [PAD, BOS, UNK]

    def max_length(self, source_length: int) -> int:
        """Return the largest number of pieces before EOS."""
        # The small term keeps 0.29 * 100 from being 28.
        return int(self.max_length_factor * source_length + 1e-9) + self.max_length_offset

    def length_norm(self, length: int) -> float:
        """Return the divisor of the log probability of this many pieces, EOS included."""
        return float(((5 + length) / 6) ** self.length_penalty)


# The options that a recipe sets, in its section `inference`.
SEARCH_KEYS = tuple(key for key in InferenceConfig.model_fields if hasattr(SearchOptions, key))


class EnsembleState(tuple[State, ...]):
    """The states of the members."""

    def select(self, rows_R: Ints) -> EnsembleState:
        return EnsembleState(state.select(rows_R) for state in self)


@dataclass(frozen=True)
class Ensemble:
    """A `Decoding` that averages the probabilities of its members.

    All members have the same source pieces and share the target vocabulary. Attention weights are
    averaged over the members that have attention.
    """

    members: Sequence[Decoding]

    @property
    def source_lengths_B(self) -> Ints:
        return self.members[0].source_lengths_B

    def start(self) -> EnsembleState:
        return EnsembleState(member.start() for member in self.members)

    def step(
        self,
        tokens_R: Ints,
        state: EnsembleState,
        *,
        count: int | None = None,
        weights: bool = False,
    ) -> Step:
        """Return the log of the mean probabilities of all pieces, the mean weights, and states."""
        steps = [
            member.step(tokens_R, of_member, weights=weights)
            for member, of_member in zip(self.members, state, strict=True)
        ]
        # In single precision e^x and log are many times faster than logaddexp; a probability below
        # the smallest number counts as that number.
        total_RV = sum(np.exp(step.log_probs_RC, out=step.log_probs_RC) for step in steps)
        log_probs_RV = np.log(np.maximum(total_RV, TINY))
        known = [step.weights_RS for step in steps if step.weights_RS is not None]
        return Step(
            log_probs_RV - math.log(len(steps)),
            EnsembleState(step.state for step in steps),
            np.mean(known, axis=0) if known else None,
        )

    def select(self, sentences_B: Ints) -> Ensemble:
        return Ensemble([member.select(sentences_B) for member in self.members])
