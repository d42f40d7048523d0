"""Linked tokens: the two sides of a sentence, their surface text and their word alignment.

A token is a word and a bit mask. Every bit is one link; a Spanish and an English token are
aligned when their masks share a bit. Masks make composition plain list concatenation, however
differently the two languages order their words.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from . import english, spanish

Token = tuple[str, int]
Tokens = list[Token]
Item = TypeVar("Item")

_CLOSING = frozenset(",.;:?!")
_OPENING = frozenset("¿¡")
_ARTICLE_FUSIONS = {"de": "del", "De": "Del", "a": "al", "A": "Al"}


class Pair(NamedTuple):
    """A Spanish sentence, its English translation and the links between their words."""

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]


class Phrase(NamedTuple):
    """The same piece of meaning in Spanish and in English."""

    es: Tokens
    en: Tokens

    def __add__(self, other: object) -> Phrase:
        """Join two phrases that both languages put in the same order."""
        if not isinstance(other, Phrase):
            return NotImplemented
        return Phrase(self.es + other.es, self.en + other.en)


NOTHING = Phrase([], [])


def linked(text: str, link: int) -> Tokens:
    """Return the words of a text, all with the same link."""
    return [(word, link) for word in text.split()]


class Draw:
    """The random choices and the links of one sentence.

    Only `random.Random.random` is used: its stream for a seed is the same on every Python.
    """

    def __init__(self, rng: random.Random) -> None:
        self.random = rng.random
        self._next_link = 1

    def link(self) -> int:
        """Return a mask that no token carries yet."""
        link = self._next_link
        self._next_link = link << 1
        return link

    def restart(self) -> None:
        """Start counting links again, for a new sentence."""
        self._next_link = 1

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.random() < probability

    def pick(self, items: Sequence[Item]) -> Item:
        """Return one item, each as likely as the others."""
        return items[int(self.random() * len(items))]

    def word(self, es: str, en: str) -> Phrase:
        """Return a phrase of fixed words, split at spaces and linked.

        All words are linked to each other, unless digits say which are: `la^1 semana^2 pasada^1`
        and `last^1 week^2`. `past^12` is linked to the words of both.
        """
        links: dict[str, int] = {}
        return Phrase(self._numbered(es, links), self._numbered(en, links))

    def _numbered(self, text: str, links: dict[str, int]) -> Tokens:
        tokens: Tokens = []
        for item in text.split():
            word, _, digits = item.partition("^")
            mask = 0
            for digit in digits or "0":
                if digit not in links:
                    links[digit] = self.link()
                mask |= links[digit]
            tokens.append((word, mask))
        return tokens


class Weighted(NamedTuple):
    """Options with their cumulative weights; `draw` picks one of them."""

    names: tuple[str, ...]
    bounds: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> Weighted:
        """Parse "name weight name weight ..."."""
        fields = text.split()
        names = tuple(fields[::2])
        weights = [float(w) for w in fields[1::2]]
        total = sum(weights)
        bounds = tuple(sum(weights[: i + 1]) / total for i in range(len(weights)))
        return cls(names, bounds)

    def draw(self, d: Draw) -> str:
        """Draw a name with the probability of its weight."""
        at = d.random()
        for name, bound in zip(self.names, self.bounds, strict=True):
            if at < bound:
                return name
        return self.names[-1]


def finish(phrase: Phrase) -> Pair:
    """Return the sentences of a phrase, with contractions, capitals and spaces."""
    source = _capitalise(_spell_spanish(phrase.es))
    target = _capitalise(_spell_english(phrase.en))
    links = tuple(
        (i, j) for i, (_, a) in enumerate(source) for j, (_, b) in enumerate(target) if a & b
    )
    return Pair(_detokenise(source), _detokenise(target), links)


def _spell_spanish(tokens: Tokens) -> Tokens:
    """Contract de/a + el, and change y/o before their own sound."""
    out: Tokens = []
    last = len(tokens) - 1
    for i, (word, mask) in enumerate(tokens):
        if word == "el" and out and out[-1][0] in _ARTICLE_FUSIONS:
            before, other = out[-1]
            out[-1] = (_ARTICLE_FUSIONS[before], other | mask)
            continue
        if word in ("y", "o") and i < last:
            word = spanish.conjunction(word, tokens[i + 1][0])
        out.append((word, mask))
    return out


def _spell_english(tokens: Tokens) -> Tokens:
    """Choose between a and an."""
    last = len(tokens) - 1
    return [
        ("an", mask)
        if word == "a" and i < last and english.takes_an(tokens[i + 1][0])
        else (word, mask)
        for i, (word, mask) in enumerate(tokens)
    ]


def _capitalise(tokens: Tokens) -> Tokens:
    for i, (word, mask) in enumerate(tokens):
        if word not in _OPENING:
            tokens[i] = (word[0].upper() + word[1:], mask)
            break
    return tokens


def _detokenise(tokens: Tokens) -> str:
    parts: list[str] = []
    glue = True
    for word, _ in tokens:
        if not glue and word not in _CLOSING:
            parts.append(" ")
        parts.append(word)
        glue = word in _OPENING
    return "".join(parts)
