"""Translations that begin with a given text, such as one that a user has typed.

Whole words have their usual pieces. The last word may be unfinished, and the longer word that it
begins may have other pieces: "hou" is spelled by its own, or by `▁house`. So the last word may be
spelled by any pieces that agree with the text still to be spelled: they are a part of it, or begin
with it ("token healing").

If the tokenizer marks capitals (seq2seq.data.casing), a text can begin in several ways: HO can
become HOLY, HOPE AND LOVE, or HOly, and these have different marks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from seq2seq.data.cleaning import normalize
from seq2seq.data.tokenizer import CASE_PIECES, EOS, UNK, Tokenizer, bytes_of_piece, normalize_line
from seq2seq.inference.protocol import Ints


class Beginning(NamedTuple):
    """A way to spell a text: the part that forced pieces spell, these pieces, and the rest."""

    before: str
    tokens: Sequence[int]
    rest: bytes = b""


@dataclass(frozen=True)
class Prefix:
    """The text that the translation of one sentence must begin with; by default none.

    It is normalized, and can be spelled in several ways.
    """

    text: str = ""
    beginnings: Sequence[Beginning] = ()
    spelling: Spelling | None = None  # needed for a rest and to decode a text
    is_all: bool = False  # nothing follows the text
    ends_word: bool = False  # its last word ends with the text, before a space or a mark

    @property
    def longest(self) -> int:
        """The largest number of pieces that spell the text."""
        sizes = (len(tokens) + len(rest.rstrip()) for _, tokens, rest in self.beginnings)
        return max(sizes, default=0)

    def legal(self, tokens: Sequence[int]) -> Ints | None:
        """Return the pieces that may follow these; None (any) once the text has been spelled."""
        found: list[Ints] = []
        for _, forced, rest in self.beginnings:
            if len(tokens) < len(forced):
                if tokens == forced[: len(tokens)]:
                    found.append(np.array([forced[len(tokens)]]))
            elif tokens[: len(forced)] == forced:
                spelled = self.spelling.spell(tokens[len(forced) :]) if self.spelling else b""
                if self.spelling and self.ends_word and not spelled:
                    return self.spelling.word_ends
                if spelled.startswith(rest):
                    return np.array([EOS]) if self.is_all else None
                if self.spelling and rest.startswith(spelled):
                    found.append(self.spelling.agreeing(rest[len(spelled) :]))
        return np.concatenate(found) if found else None

    def decode(self, tokens: Sequence[int], tokenizer: Tokenizer) -> str:
        """Return the text of a hypothesis; it begins with the text of the prefix.

        Decoding alone would lose characters that are <unk>, and would combine the last character of
        the prefix with an accent that follows it.
        """
        text = tokenizer.decode(tokens)
        if text.startswith(self.text):
            return text
        assert self.spelling is not None
        for before, forced, rest in self.beginnings:
            spelled = self.spelling.spell(tokens[len(forced) :])
            if tokens[: len(forced)] == forced and spelled.startswith(rest.rstrip()):
                whole = tokenizer.restore(before + spelled.decode(errors="replace"))
                text = self.text + normalize(f".{whole[len(self.text) + 1 :]}")[1:]
        return text


NO_PREFIX = Prefix()


def forced_pieces(tokens: Sequence[int]) -> Prefix:
    """Return the prefix that is exactly these pieces."""
    return Prefix(beginnings=[Beginning("", list(tokens))])


class Spelling:
    """The pieces of a tokenizer by what they spell, in bytes; words begin with a space."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._pieces = list(map(bytes_of_piece, tokenizer.pieces(range(tokenizer.vocab_size))))
        # If two pieces spell the same, the later one: single bytes come before characters.
        self._ids = {piece: number for number, piece in enumerate(self._pieces) if number > EOS}
        self._sorted = sorted(self._ids)
        self._sorted_ids: Ints = np.array([self._ids[piece] for piece in self._sorted])
        self._longest = max(map(len, self._ids))
        ids = tokenizer.ids  # without marks, these pieces are not in the vocabulary
        self.marks = [ids[piece] for piece in CASE_PIECES if piece in ids]

    def spell(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes that pieces spell."""
        return b"".join([self._pieces[token] for token in tokens])

    def agreeing(self, text: bytes) -> Ints:
        """Return the pieces that agree with a text: it begins with them, or they begin with it.

        The end of the sentence agrees with a space: it ends a word, too.
        """
        parts = (text[:end] for end in range(1, min(len(text), self._longest + 1)))
        shorter = [self._ids[part] for part in parts if part in self._ids]
        first, last = (bisect_left(self._sorted, key) for key in (text, text + b"\xff"))
        ends = [EOS] if text == b" " else []
        return np.concatenate(([*ends, *shorter], self._sorted_ids[first:last])).astype(np.int64)

    @cached_property
    def word_ends(self) -> Ints:
        """The pieces that may follow a whole word: the end, spaces and marks, but no hyphen."""
        starts = ((piece.decode(errors="replace")[:1], n) for piece, n in self._ids.items())
        # A single byte (\ufffd) can be the first one of a letter.
        ends = (n for char, n in starts if not (char.isalnum() or char in "-\ufffd"))
        return np.array([EOS, *ends])

    def words(self, text: str, *, ends: bool) -> Prefix:
        """Return the prefix for a normalized text of whole words, before a mark or a space.

        Without `ends`, as in languages that have no spaces, anything may follow.
        """
        forms = self.tokenizer.spell_prefix(text, complete=True)
        spelled = [(f" {form}", self.tokenizer.encode_spelled(form)) for form in forms]
        return Prefix(text, [Beginning(*each) for each in spelled], self, ends_word=ends)

    def prefix(self, text: str, *, is_all: bool = False) -> Prefix:
        """Return the prefix for a text; white space at its end completes its last word.

        With `is_all` nothing may follow the text.
        """
        normal = normalize_line(text)
        if not normal:
            return NO_PREFIX
        is_complete = is_all or normalize_line(text + "x") == normal + " x"
        beginnings = []
        for form in self.tokenizer.spell_prefix(normal, complete=is_complete):
            before, rest = f" {form}", "" if is_all else " "
            if not is_complete:
                before, _, last = before.rpartition(" ")
                rest += last
                if UNK in self.tokenizer.encode_spelled(last):  # no pieces spell it
                    before, rest = f" {form}", ""
            tokens = self.tokenizer.encode_spelled(before[1:])
            beginnings.append(Beginning(before, tokens, rest.encode()))
        return Prefix(normal, beginnings[: 1 if is_all else None], self, is_all)
