"""How a translation must begin: the pieces that spell a given text.

All words of the text but the last have their usual pieces, as the tokenizer cuts them. The last
word may be unfinished, and the longer word that it begins may be cut in another way. So "hou" is
spelled by its own pieces, or by others of which the last one goes on beyond the text, such as
`▁house`. A hypothesis that ends exactly where the text ends always has the usual pieces, and so the
probability that forced decoding gives it.

The legal pieces are a graph. In state n, from 0, a hypothesis has the first n usual pieces of the
text; in END it has all of them and nothing else; in FREE it is beyond the text. The other states
are positions in the last word that other pieces have reached.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from seq2seq.data.subwords import SPACE_PIECE
from seq2seq.data.tokenizer import EOS, Tokenizer, normalize_line
from seq2seq.inference.protocol import Ints

END, FREE = -2, -1


@dataclass(frozen=True)
class Prefix:
    """How the translation of one sentence begins; by default nothing is required.

    `text` is normalized, and `tokens` are its usual pieces. `steps` has for each state the legal
    pieces, with the state that each leads to; pieces in `barred` may not follow END. A hypothesis
    of `longest` pieces has spelled the text.
    """

    text: str = ""
    tokens: Sequence[int] = ()
    steps: dict[int, dict[int, int]] = field(default_factory=dict)
    barred: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    longest: int = 0

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


def forced_pieces(tokens: Sequence[int]) -> Prefix:
    """Return the prefix that is exactly these pieces."""
    steps = {n: {piece: n + 1} for n, piece in enumerate(tokens[:-1])}
    steps |= {len(tokens) - 1: {piece: FREE} for piece in tokens[-1:]}
    return Prefix(tokens=tokens, steps=steps, longest=len(tokens))


class Spelling:
    """The pieces of a tokenizer, by what they spell."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._ids = tokenizer.vocabulary.ids
        self._sorted = sorted(self._ids)
        self._longest = tokenizer.vocabulary.longest
        begin = {i for piece, i in self._ids.items() if piece.startswith(SPACE_PIECE)}
        # What may follow a complete word: a piece that begins the next one, or the end.
        self.boundaries: Ints = np.array(sorted({EOS, *begin}))
        self.within: Ints = np.setdiff1d(np.arange(tokenizer.vocab_size), self.boundaries)

    def prefix(self, text: str) -> Prefix:
        """Return the prefix for a text; white space at its end completes its last word."""
        normal = normalize_line(text)
        if not normal:
            return Prefix()
        tokens = self.tokenizer.encode_normalized(normal)
        steps = {n: {piece: n + 1} for n, piece in enumerate(tokens)}
        steps[len(tokens) - 1] = {tokens[-1]: END}
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
        """Add to the steps all paths of which the last piece goes on beyond the word.

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
        # A position in a character that is spelled in bytes, or before one, has no other way on.
        pieces, place = self.tokenizer.pieces(tokens), len(word)
        for state in reversed(range(first, len(tokens))):
            piece, place = pieces[state], place - len(pieces[state])
            known = self._ids.get(piece) == tokens[state]
            if not known or place < 0 or not word.startswith(piece, place):
                break
            steps[state] = {**from_place.get(place, {}), **steps[state]}
        steps |= {len(tokens) + place: legal for place, legal in from_place.items() if place}

    def _longer(self, text: str) -> list[int]:
        """Return the pieces that begin with a text and go on."""
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
