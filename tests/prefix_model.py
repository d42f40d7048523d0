"""A fake model for tests of search: every prefix of every sentence has its own random logits.

It checks that search keeps rows, sentences and states together, and logs its batch sizes.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace

import numpy as np

from seq2seq.inference.protocol import Decoding, Floats, Hypothesis, Ints, SearchOptions, Step
from seq2seq.inference.search import search

BOS = 2
EOS = 3
PIECES = 7  # pad, unk, bos, eos and three that spell text
TEXTS = ["", "", "", "", " a", "b", " ab"]


@dataclass(frozen=True)
class PrefixState:
    """The sentence of each row and all pieces that it has read, BOS included."""

    sentences_R: Ints
    prefixes_RT: Ints

    def select(self, rows_R: Ints) -> PrefixState:
        return PrefixState(self.sentences_R[rows_R], self.prefixes_RT[rows_R])


@dataclass
class PrefixModel:
    """A Decoding whose logits and weights are functions of (seed, sentence, prefix).

    `eos_bias` is added to the logit of EOS; `sharpness` scales all logits. With `shortens` it
    returns only the most likely pieces where search asks for no more.
    """

    seed: int
    source_lengths_B: Ints
    sentences_B: Ints
    sharpness: float = 1.0
    eos_bias: float = 0.0
    attends: bool = True
    shortens: bool = False
    log: list[tuple[int, int]] = field(default_factory=list)  # sentences and rows of each step

    def start(self) -> PrefixState:
        empty_R0 = np.empty((len(self.sentences_B), 0), dtype=np.int64)
        return PrefixState(self.sentences_B, empty_R0)

    def step(
        self,
        tokens_R: Ints,
        state: PrefixState,
        *,
        count: int | None = None,
        weights: bool = False,
    ) -> Step:
        copies, rest = divmod(len(tokens_R), len(self.sentences_B))
        assert rest == 0
        assert np.array_equal(state.sentences_R, self.sentences_B.repeat(copies))
        self.log.append((len(self.sentences_B), len(tokens_R)))
        state = PrefixState(
            state.sentences_R, np.concatenate((state.prefixes_RT, tokens_R[:, None]), 1)
        )
        rows = list(
            zip(state.sentences_R.tolist(), map(tuple, state.prefixes_RT.tolist()), strict=True)
        )
        logits_RV = np.array([self.logits(s, p) for s, p in rows], dtype=np.float64)
        with np.errstate(invalid="ignore"):
            log_probs_RV = logits_RV - np.log(np.exp(logits_RV).sum(1, keepdims=True))
        pieces_RC = None
        if self.shortens and count is not None and count + 1 < PIECES:
            others = np.where(np.arange(PIECES) == EOS, -np.inf, log_probs_RV)
            top_RC = np.argsort(-others, axis=1, kind="stable")[:, :count]
            ends_R1 = np.full((len(rows), 1), EOS)
            pieces_RC = np.sort(np.concatenate((top_RC, ends_R1), 1), 1)
            log_probs_RV = np.take_along_axis(log_probs_RV, pieces_RC, 1)
        if not (weights and self.attends):
            return Step(log_probs_RV, state, None, pieces_RC)
        lengths_R = self.source_lengths_B.repeat(copies).tolist()
        weights_RS: Floats = np.zeros((len(rows), max(lengths_R)))
        for row, ((sentence, prefix), length) in enumerate(zip(rows, lengths_R, strict=True)):
            weights_RS[row, :length] = self.weights(sentence, prefix, length)
        return Step(log_probs_RV, state, weights_RS, pieces_RC)

    def select(self, sentences_B: Ints) -> PrefixModel:
        values = {**vars(self), "source_lengths_B": self.source_lengths_B[sentences_B]}
        return PrefixModel(**{**values, "sentences_B": self.sentences_B[sentences_B]})

    def logits(self, sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
        return random_logits(self.seed, sentence, prefix) * self.sharpness + self.eos_bias * (
            np.arange(PIECES) == EOS
        )

    def weights(self, sentence: int, prefix: tuple[int, ...], length: int) -> np.ndarray:
        generator = np.random.default_rng((self.seed, sentence, length, *prefix))
        return generator.dirichlet(np.full(length, 0.5))


@functools.lru_cache(maxsize=100_000)
def random_logits(seed: int, sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng((seed, sentence, *prefix)).normal(size=PIECES)


def prefix_model(seed: int, source_lengths: list[int], **settings: object) -> PrefixModel:
    """Return the model for sentences 0, 1, ... of these lengths."""
    return PrefixModel(
        seed,
        np.array(source_lengths),
        np.arange(len(source_lengths)),
        **settings,  # type: ignore[arg-type]
    )


def greedy(decoding: Decoding, options: SearchOptions) -> list[list[Hypothesis]]:
    """Search with a beam of 1, whatever the options say."""
    return search(decoding, replace(options, beam_size=1, nbest=1))
