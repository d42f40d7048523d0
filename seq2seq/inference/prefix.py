"""How a translation begins and continues: given prefixes, and the likeliest next words.

All words of the text but the last have their usual pieces, as the tokenizer cuts them. The last
word may be unfinished, and the longer word that it begins may be cut in another way. So "hou" is
spelled by its own pieces, or by others of which the last one extends beyond the text, such as
`▁house`. A hypothesis that ends exactly where the text ends always has the usual pieces, and so the
probability that forced decoding gives it.

The legal pieces are a graph. In state n, from 0, a hypothesis has the first n usual pieces of the
text; in END it has all of them and nothing else; in FREE it is beyond the text. The other states
are positions in the last word that other pieces have reached.

Legend: V vocabulary
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from seq2seq.data.tokenizer import BOS, EOS, SPACE_PIECE, Tokenizer, normalize_line
from seq2seq.inference.protocol import Decoding, Floats, Ints, SearchOptions
from seq2seq.inference.text import Translation

END, FREE = -2, -1


@dataclass(frozen=True)
class Prefix:
    """What the translation of one sentence must begin with; by default nothing.

    `text` is normalized, and `tokens` are its usual pieces. `steps` has for each state the legal
    pieces, with the state that each leads to; pieces in `barred` may not follow END. A hypothesis
    of `longest` pieces has spelled the text.
    """

    text: str = ""
    tokens: Sequence[int] = ()
    steps: dict[int, dict[int, int]] = field(default_factory=dict)
    barred: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    longest: int = 0
    is_all: bool = False  # nothing follows the text

    @property
    def start(self) -> int:
        """The state before the first piece."""
        return 0 if self.steps else FREE

    def after(self, state: int, piece: int) -> int:
        """Return the state after a piece."""
        return FREE if state < 0 else self.steps[state].get(piece, FREE)

    def decode(self, tokens: Sequence[int], tokenizer: Tokenizer) -> str:
        """Return the text of a hypothesis, which begins with that of the prefix.

        Decoding alone would lose characters that are <unk>, and would compose the last character of
        the prefix with an accent that follows.
        """
        text = tokenizer.decode(tokens)
        if text.startswith(self.text):
            return text
        pairs = enumerate(zip(tokens, self.tokens, strict=False))
        same = next((n for n, (one, other) in pairs if one != other), len(self.tokens))
        head = self.text.removesuffix(_spell(self.tokens[same:], tokenizer))
        return (head + _spell(tokens[same:], tokenizer)).rstrip()


NO_PREFIX = Prefix()


def forced_pieces(tokens: Sequence[int]) -> Prefix:
    """Return the prefix that is exactly these pieces."""
    steps = {n: {piece: n + 1} for n, piece in enumerate(tokens[:-1])}
    steps |= {len(tokens) - 1: {piece: FREE} for piece in tokens[-1:]}
    return Prefix(tokens=tokens, steps=steps, longest=len(tokens))


class Spelling:
    """The pieces of a tokenizer, by what they spell."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._ids = tokenizer.spelled
        self._sorted = sorted(self._ids)
        self._longest = max(map(len, self._ids), default=1)
        begin = {i for piece, i in self._ids.items() if piece.startswith(SPACE_PIECE)}
        # What may follow a complete word: a piece that begins the next one, or the end.
        self.boundaries: Ints = np.array(sorted({EOS, *begin}))
        self.within: Ints = np.setdiff1d(np.arange(tokenizer.vocab_size), self.boundaries)

    def prefix(self, text: str, *, is_all: bool = False) -> Prefix:
        """Return the prefix for a text; white space at its end completes its last word.

        With `is_all` nothing may follow the text.
        """
        normal = normalize_line(text)
        if not normal:
            return NO_PREFIX
        tokens = self.tokenizer.encode_normalized(normal)
        steps = {n: {piece: n + 1} for n, piece in enumerate(tokens)}
        steps[len(tokens) - 1] = {tokens[-1]: END}
        if is_all:
            others = np.delete(np.arange(self.tokenizer.vocab_size), EOS)
            return Prefix(normal, tokens, steps, others, len(tokens), is_all=True)
        if normalize_line(text + "x") == normal + " x":
            return Prefix(normal, tokens, steps, self.within, len(tokens))
        before, _, last = normal.rpartition(" ")
        usual, spelled = self.tokenizer.encode_normalized(before), SPACE_PIECE + last
        if tokens[: len(usual)] == usual:  # not if pieces cross white space
            self._add_other_cuts(steps, tokens, len(usual), spelled)
        longest = max(len(tokens), len(usual) + len(spelled))
        return Prefix(normal, tokens, steps, longest=longest)

    def _add_other_cuts(
        self, steps: dict[int, dict[int, int]], tokens: list[int], first: int, word: str
    ) -> None:
        """Add to the steps all paths whose last piece extends beyond the word.

        The pieces of the word are those from `first` on.
        """
        from_place: dict[int, dict[int, int]] = {}  # positions from which the end can be passed
        for place in reversed(range(len(word))):
            ends = range(place + 1, min(place + self._longest, len(word) - 1) + 1)
            legal = {
                self._ids[word[place:end]]: len(tokens) + end
                for end in ends
                if end in from_place and word[place:end] in self._ids
            }
            legal |= dict.fromkeys(self._longer(word[place:]), FREE)
            if legal:
                from_place[place] = legal
        # Within or before a character that is spelled in bytes, there is no other continuation.
        pieces, place = self.tokenizer.pieces(tokens), len(word)
        for state in reversed(range(first, len(tokens))):
            piece, place = pieces[state], place - len(pieces[state])
            known = self._ids.get(piece) == tokens[state]
            if not known or place < 0 or not word.startswith(piece, place):
                break
            steps[state] = {**from_place.get(place, {}), **steps[state]}
        steps |= {len(tokens) + place: legal for place, legal in from_place.items() if place}

    def _longer(self, text: str) -> list[int]:
        """Return the pieces that begin with a text and are longer."""
        found: list[int] = []
        if len(text) < self._longest:
            for place in range(bisect_left(self._sorted, text), len(self._sorted)):
                if not self._sorted[place].startswith(text):
                    break
                if self._sorted[place] != text:
                    found.append(self._ids[self._sorted[place]])
        return found


def _spell(tokens: Sequence[int], tokenizer: Tokenizer) -> str:
    """Return the text of pieces, with a space before it if the first one begins a word."""
    begins = any(piece.startswith(SPACE_PIECE) for piece in tokenizer.pieces(tokens[:1]))
    return " " * begins + tokenizer.decode(tokens)


@dataclass(frozen=True)
class Alternative:
    """A word that could come next, and the best translation that continues with it.

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
        """Push one of these pieces; the next one is pushed when this one has been popped."""
        if place < len(following.pieces) and following.costs[place] < np.inf:
            cost = float(following.costs[place])
            heapq.heappush(self.heap, (cost, next(self.order), place, following))
