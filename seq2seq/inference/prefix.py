"""How a translation begins and continues: given prefixes, and the likeliest next words.

All words of the text but the last have their usual pieces, as the tokenizer cuts them. The last
word may be unfinished, and the longer word that it begins may be cut in another way. So "hou" is
spelled by its own pieces, or by others of which the last one extends beyond the text, such as
`▁house`. A hypothesis that ends exactly where the text ends always has the usual pieces, and so the
probability that forced decoding gives it.

Where pieces spell marks for capitals (seq2seq.data.casing), a text has several forms: HO can begin
HOLY, HOPE AND LOVE, or HOly, whose marks differ.

The legal pieces are a graph. In state n, from 0, a hypothesis has the first n usual pieces of the
text; in END it has all of them and nothing else; in FREE it is beyond the text. The other states
are positions in the last word that other pieces have reached, or in other forms.

Legend: V vocabulary
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile
from typing import Any, NamedTuple

import numpy as np

from seq2seq.data.cleaning import normalize
from seq2seq.data.tokenizer import BOS, CASE_PIECES, EOS, SPACE_PIECE, Tokenizer, normalize_line
from seq2seq.inference.protocol import Decoding, Floats, Ints, SearchOptions
from seq2seq.inference.text import Translation

END, FREE = -2, -1

Steps = dict[int, dict[int, int]]


@dataclass(frozen=True)
class Prefix:
    """What the translation of one sentence must begin with; by default nothing.

    `text` is normalized, and `tokens` are its usual pieces. `steps` has for each state the legal
    pieces, with the state that each leads to; pieces in `barred` may not follow END. A hypothesis
    of `longest` pieces has spelled the text. `forms` has the forms of the text with their usual
    pieces, its own first.
    """

    text: str = ""
    tokens: Sequence[int] = ()
    steps: Steps = field(default_factory=dict)
    barred: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    longest: int = 0
    forms: Sequence[tuple[str, Sequence[int]]] = (("", ()),)
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
        form, usual = max(self.forms, key=lambda form: _common(form[1], tokens))
        same = _common(usual, tokens)
        head = f" {form}".removesuffix(_spell(usual[same:], tokenizer))
        whole = tokenizer.restore(head + _spell(tokens[same:], tokenizer))
        return self.text + normalize(f".{whole[len(self.text) + 1 :]}")[1:]


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
        self.begin: Ints = np.array(sorted(begin))
        # What may follow a complete word: a piece that begins the next one, or the end.
        self.boundaries: Ints = np.array([EOS, *sorted(begin)])
        self.within: Ints = np.setdiff1d(np.arange(tokenizer.vocab_size), self.boundaries)
        self.marks = {self._ids[piece] for piece in CASE_PIECES if tokenizer.marks_case}

    def prefix(self, text: str, *, is_all: bool = False) -> Prefix:
        """Return the prefix for a text; white space at its end completes its last word.

        With `is_all` nothing may follow the text.
        """
        normal = normalize_line(text)
        if not normal:
            return NO_PREFIX
        complete = is_all or normalize_line(text + "x") == normal + " x"
        spelled = self.tokenizer.spell_prefix(normal, complete=complete)[: 1 if is_all else None]
        forms = [(form, self.tokenizer.encode_spelled(form)) for form in spelled]
        steps: Steps = {}
        longest = max([self._add_form(steps, *form, complete=complete) for form in forms])
        barred = self.within if complete else NO_PREFIX.barred
        if is_all:
            barred = np.delete(np.arange(self.tokenizer.vocab_size), EOS)
        return Prefix(normal, forms[0][1], steps, barred, longest, forms, is_all)

    def _add_form(self, steps: Steps, form: str, tokens: list[int], *, complete: bool) -> int:
        """Add to the steps all paths that spell a form; return the length of the longest.

        After forms other than the first, a longer text must follow.
        """
        is_first = not steps
        states, new = [0], count(max(steps, default=0) + 1)
        for piece in tokens[:-1] if is_first else tokens:
            states.append(steps.setdefault(states[-1], {}).setdefault(piece, next(new)))
        following = self.begin.tolist() if complete else range(EOS + 1, self.tokenizer.vocab_size)
        steps[states[-1]] = {tokens[-1]: END} if is_first else dict.fromkeys(following, FREE)
        if complete:
            return len(states)
        before, _, last = form.rpartition(" ")
        usual, word = self.tokenizer.encode_spelled(before), SPACE_PIECE + last
        first = len(usual)
        if tokens[:first] == usual:  # not if pieces cross white space
            self._add_other_cuts(steps, tokens[first:], states[first:], word)
        return max(len(states), first + len(word))

    def _add_other_cuts(
        self, steps: Steps, tokens: list[int], states: list[int], word: str
    ) -> None:
        """Add to the steps all paths whose last piece extends beyond a word of these pieces.

        The states are those before each piece.
        """
        size = max(steps) + 1
        from_place: dict[int, dict[int, int]] = {}  # positions from which the end can be passed
        for place in reversed(range(len(word))):
            ends = range(place + 1, min(place + self._longest, len(word) - 1) + 1)
            legal = {
                self._ids[word[place:end]]: size + end
                for end in ends
                if end in from_place and word[place:end] in self._ids
            }
            legal |= dict.fromkeys(self._longer(word[place:]), FREE)
            if legal:
                from_place[place] = legal
        # Within or before a character that is spelled in bytes, there is no other continuation.
        place = len(word)
        pieces = self.tokenizer.pieces(tokens)
        for state, piece, token in reversed([*zip(states, pieces, tokens, strict=False)]):
            place -= len(piece)
            if self._ids.get(piece) != token or place < 0 or not word.startswith(piece, place):
                break
            steps[state] = {**from_place.get(place, {}), **steps[state]}
        steps |= {size + place: legal for place, legal in from_place.items() if place}

    def _longer(self, text: str) -> list[int]:
        """Return the pieces that begin with a text and are longer."""
        places = range(bisect_left(self._sorted, text), len(self._sorted))
        pieces = (self._sorted[place] for place in places)
        begin_so = takewhile(lambda piece: piece.startswith(text), pieces)
        return [self._ids[piece] for piece in begin_so if piece != text]


def _spell(tokens: Sequence[int], tokenizer: Tokenizer) -> str:
    """Return what pieces spell, with a space before it if the first one begins a word."""
    begins = any(piece.startswith(SPACE_PIECE) for piece in tokenizer.pieces(tokens[:1]))
    return " " * begins + tokenizer.spelling(tokens)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many pieces both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


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


def next_words(
    decoding: Decoding,
    prefix: Prefix,
    spelling: Spelling,
    options: SearchOptions,
    number: int,
    check: Callable[[], None] = lambda: None,
) -> list[tuple[str, float]]:
    """Return the likeliest words after a prefix with their log probabilities, best first.

    The decoding has one sentence. The probability of a word is that of its likeliest pieces after
    the usual ones of a form of the prefix, followed by the beginning of another word or the end of
    the sentence. It is given that a word begins after those forms, or that the sentence ends there,
    which is the word "". `check` is called before each step of the model; what it raises ends the
    search. Raises FloatingPointError for logits that are not finite.
    """
    found = _WordSearch(decoding, prefix, spelling, options, check).run(number)
    if not found:
        raise FloatingPointError("the model's logits are not finite; no word has a probability")
    return found


class _Next(NamedTuple):
    """What may follow some pieces, those of the prefix included, likeliest first."""

    before: tuple[int, ...]
    pieces: Ints
    costs: Floats  # minus the log probabilities of the word with each of the pieces
    state: Any  # before the piece


class _WordSearch:
    """Best-first search: what is taken first is the likeliest, since probabilities only fall."""

    def __init__(
        self,
        decoding: Decoding,
        prefix: Prefix,
        spelling: Spelling,
        options: SearchOptions,
        check: Callable[[], None],
    ) -> None:
        self.check = check
        self.decoding, self.prefix, self.spelling = decoding, prefix, spelling
        self.within = np.setdiff1d(spelling.within, options.forbidden)
        longest = options.max_length(int(decoding.source_lengths_B[0]))  # pieces of a word
        self.longest = len(prefix.tokens) + longest
        self.read = len(spelling.tokenizer.decode(prefix.tokens))  # characters
        self.order = count()  # of equally likely ones the first is taken
        self.heap: list[tuple[float, int, int, _Next]] = []

    def step(self, state: Any, piece: int) -> tuple[Floats, Any]:
        """Return log_probs_V after a piece, and the state."""
        self.check()
        found = self.decoding.step(np.array([piece]), state)
        return found.log_probs_RC[0].astype(np.float64), found.state

    def run(self, number: int) -> list[tuple[str, float]]:
        """Return the words that may follow the prefix."""
        self._begin()
        starts = self.spelling.boundaries
        found: dict[str, float] = {}
        while self.heap and len(found) < number:
            cost, _, place, following = heapq.heappop(self.heap)
            self._push(following, place + 1)
            piece = int(following.pieces[place])
            if piece == EOS:
                found.setdefault(self._word(following.before), -cost)
                continue
            word = (*following.before, piece)
            log_probs_V, after = self.step(following.state, piece)
            if (text := self._word(word)) and "\ufffd" not in text:  # not within a character
                # The end of the word, whatever follows it; EOS stands for that.
                end_cost = cost - np.logaddexp.reduce(log_probs_V[starts])
                self._add(word, np.array([EOS]), np.array([end_cost]), after)
            if len(word) < self.longest:
                pieces = self.spelling.begin if piece in self.spelling.marks else self.within
                self._add(word, pieces, cost - log_probs_V[pieces], after)
        return list(found.items())

    def _begin(self) -> None:
        """Read the forms of the prefix, and add what may follow each of them."""
        starts, costs, states, usual = self.spelling.boundaries, [], [], None
        for _, tokens in self.prefix.forms:
            log_prob = 0.0
            log_probs_V, state = self.step(self.decoding.start(), BOS)
            for piece in tokens:
                log_prob += float(log_probs_V[piece])
                log_probs_V, state = self.step(state, piece)
            usual = log_prob if usual is None else usual
            costs.append(usual - log_prob - log_probs_V[starts])
            states.append(state)
        every = np.logaddexp.reduce(-np.concatenate(costs))
        for (_, tokens), costs_V, state in zip(self.prefix.forms, costs, states, strict=True):
            self._add(tuple(tokens), starts, every + costs_V, state)

    def _word(self, pieces: Sequence[int]) -> str:
        """Return the word that these pieces spell after the prefix."""
        return self.spelling.tokenizer.decode(pieces)[self.read :].lstrip()

    def _add(self, before: tuple[int, ...], pieces: Ints, costs: Floats, state: Any) -> None:
        order = costs.argsort(kind="stable")
        self._push(_Next(before, pieces[order], costs[order], state), 0)

    def _push(self, following: _Next, place: int) -> None:
        """Push one of these pieces; the next one is pushed when this one has been popped."""
        if place < len(following.pieces) and following.costs[place] < np.inf:
            cost = float(following.costs[place])
            heapq.heappush(self.heap, (cost, next(self.order), place, following))
