"""The likeliest next words of a translation that has begun.

Legend: V vocabulary
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.inference.prefix import Spelling
from seq2seq.inference.protocol import Decoding, Floats, Ints, SearchOptions
from seq2seq.inference.text import Translation


@dataclass(frozen=True)
class Alternative:
    """A word that could come next, and the best translation that goes on with it.

    `log_prob` is that of the word and of its end, given what comes before it; see `next_words`. The
    word "" is the end of the translation.
    """

    word: str
    log_prob: float
    translation: Translation

    @property
    def probability(self) -> float:
        """The probability of the word."""
        return math.exp(self.log_prob)

    def as_json(self) -> dict[str, Any]:
        """Return word, probability and translation for JSON."""
        return {
            "word": self.word,
            "log_prob": self.log_prob,
            "probability": self.probability,
            "translation": self.translation.as_json(),
        }


def next_words(
    decoding: Decoding,
    tokens: Sequence[int],
    spelling: Spelling,
    options: SearchOptions,
    number: int,
) -> list[tuple[str, float]]:
    """Return the likeliest words after these pieces with their log probabilities, best first.

    The decoding has one sentence. The probability of a word is that of its likeliest pieces,
    followed by the beginning of another word or the end of the sentence. It is given that a word
    begins after `tokens`, or that the sentence ends there, which is the word "". Raises
    FloatingPointError for logits that are not finite.
    """
    search = _WordSearch(decoding, spelling, options)
    state = decoding.start()
    for piece in (BOS, *tokens):
        log_probs_V, state = search.step(state, piece)
    found = search.run(log_probs_V, state, number)
    if not found:
        raise FloatingPointError("the model's logits are not finite; no word has a probability")
    return found


class _Next(NamedTuple):
    """What may follow some pieces of a word, likeliest first."""

    before: tuple[int, ...]
    pieces: Ints
    costs: Floats  # minus the log probabilities of the word with each of the pieces
    state: Any  # before the piece


class _WordSearch:
    """Best-first search: what is taken first is the likeliest, since probabilities only fall."""

    def __init__(self, decoding: Decoding, spelling: Spelling, options: SearchOptions) -> None:
        self.decoding, self.spelling, self.forbidden = decoding, spelling, options.forbidden
        self.longest = options.max_length(int(decoding.source_lengths_B[0]))  # pieces of a word
        self.order = count()  # of equally likely ones the first is taken
        self.heap: list[tuple[float, int, int, _Next]] = []

    def step(self, state: Any, piece: int) -> tuple[Floats, Any]:
        """Return log_probs_V after a piece, -inf for illegal ones, and the state."""
        found = self.decoding.step(np.array([piece]), state)
        log_probs_V = found.log_probs_RC[0].astype(np.float64)
        log_probs_V[self.forbidden] = -np.inf
        return log_probs_V, found.state

    def run(self, log_probs_V: Floats, state: Any, number: int) -> list[tuple[str, float]]:
        """Return the words that may follow where these are the probabilities of the next piece."""
        starts = self.spelling.boundaries
        self._add((), starts, np.logaddexp.reduce(log_probs_V[starts]) - log_probs_V[starts], state)
        found: dict[str, float] = {}
        while self.heap and len(found) < number:
            cost, _, place, following = heapq.heappop(self.heap)
            self._push(following, place + 1)
            piece = int(following.pieces[place])
            if piece == EOS:
                found.setdefault(self.spelling.tokenizer.decode(following.before), -cost)
                continue
            word = (*following.before, piece)
            log_probs_V, after = self.step(following.state, piece)
            if self.spelling.tokenizer.decode(word):
                # The end of the word, whatever follows it; EOS stands for that.
                end_cost = cost - np.logaddexp.reduce(log_probs_V[starts])
                self._add(word, np.array([EOS]), np.array([end_cost]), after)
            if len(word) < self.longest:
                within = self.spelling.within
                self._add(word, within, cost - log_probs_V[within], after)
        return list(found.items())

    def _add(self, before: tuple[int, ...], pieces: Ints, costs: Floats, state: Any) -> None:
        order = costs.argsort(kind="stable")
        self._push(_Next(before, pieces[order], costs[order], state), 0)

    def _push(self, following: _Next, place: int) -> None:
        """Make one of these pieces a candidate; the ones after it are, when it has been taken."""
        if place < len(following.pieces) and following.costs[place] < np.inf:
            cost = float(following.costs[place])
            heapq.heappush(self.heap, (cost, next(self.order), place, following))
