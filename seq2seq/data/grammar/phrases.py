"""Noun phrases: determiners, adjectives, complements and pronouns."""

from __future__ import annotations

from . import spanish
from .determiners import determiner, determiner_kind
from .lexicon import (
    ADJECTIVES,
    MADE_OF,
    MEN,
    ORDINALS,
    WOMEN,
    Adjective,
    Entry,
    Noun,
    tagged,
)
from .noun_phrase import NounPhrase
from .tokens import Draw, Tokens

_PLURAL_CHANCE = {"def": 0.3, "poss": 0.22, "dem": 0.3, "name": 0.15, "other": 0.3}
_WITH_ORDINAL = frozenset({"def", "dem", "poss"})
_ALWAYS_PLURAL = frozenset({"num", "bare", "many", "several", "few", "all", "none"})


def name(d: Draw, feminine: bool | None = None) -> NounPhrase:
    """Return the name of a man or a woman."""
    if feminine is None:
        feminine = d.chance(0.5)
    word = d.pick(WOMEN if feminine else MEN)
    link = d.link()
    return NounPhrase([(word, link)], [(word, link)], 2, 2, feminine, link)


def proper(d: Draw, entry: Entry) -> NounPhrase:
    """Return the name of a place."""
    phrase = d.word(*entry)
    return NounPhrase(phrase.es, phrase.en, 2, 2, False, phrase.es[0][1], human=False)


def _short(adjective: Adjective, noun: Noun, plural: bool) -> str:
    """Return the form of an adjective that stands before its noun."""
    if adjective.short and not noun.feminine and not plural:
        return adjective.short
    return adjective.agree(noun.feminine, plural)


def _attributive() -> dict[str, tuple[Adjective, ...]]:
    letters = sorted({letter for adjective in ADJECTIVES for letter in adjective.letters})
    return {
        letter: tuple(a for a in ADJECTIVES if letter in a.letters and not a.predicative)
        for letter in letters
    }


ATTRIBUTIVE = _attributive()
_PRENOMINAL = {
    letter: tuple(a for a in found if a.prenominal) for letter, found in ATTRIBUTIVE.items()
}
# Only a colour or an origin goes well with a second adjective.
_POSTNOMINAL = {
    letter: tuple(a for a in found if a.relational) for letter, found in ATTRIBUTIVE.items()
}


class _Modifiers:
    """The adjectives and complements around a noun."""

    __slots__ = ("en_before", "es_after", "es_before")

    def __init__(self) -> None:
        self.es_before: Tokens = []
        self.es_after: Tokens = []
        self.en_before: Tokens = []

    def add_adjective(
        self, d: Draw, adjective: Adjective, noun: Noun, plural: bool, before: bool
    ) -> None:
        link = d.link()
        if before:
            self.es_before.append((_short(adjective, noun, plural), link))
        else:
            self.es_after.append((adjective.agree(noun.feminine, plural), link))
        self.en_before.append((adjective.en, link))


def _modify(d: Draw, noun: Noun, kind: str, plural: bool, amount: float) -> _Modifiers:
    """Choose adjectives and a complement for a noun."""
    found = _Modifiers()
    if not noun.letter or not d.chance(amount):
        return found
    letter = noun.letter
    if noun.es[0] in MADE_OF and d.chance(0.5):
        _add_complement(d, found, d.pick(MADE_OF[noun.es[0]]))
    elif noun in _TAUGHT and d.chance(0.6):
        _add_complement(d, found, d.pick(_SCHOOL_SUBJECTS))
    elif letter in "RXE" and not plural and kind in _WITH_ORDINAL and d.chance(0.45):
        ordinal = d.pick(ORDINALS)
        link = d.link()
        found.es_before.append((_ordinal_form(ordinal.es, noun.feminine), link))
        found.en_before.append((ordinal.en, link))
    elif _PRENOMINAL.get(letter) and _POSTNOMINAL.get(letter) and d.chance(0.12):
        found.add_adjective(d, d.pick(_PRENOMINAL[letter]), noun, plural, before=True)
        found.add_adjective(d, d.pick(_POSTNOMINAL[letter]), noun, plural, before=False)
    else:
        adjective = d.pick(ATTRIBUTIVE[letter])
        before = adjective.prenominal and (adjective.only_prenominal or d.chance(0.5))
        found.add_adjective(d, adjective, noun, plural, before)
    return found


def _ordinal_form(word: str, feminine: bool) -> str:
    if feminine:
        return word[:-1] + "a"
    return word[:-1] if word in ("primero", "tercero") else word


def _add_complement(d: Draw, found: _Modifiers, entry: Entry) -> None:
    link = d.link()
    found.es_after += [("de", link), (entry.es, link)]
    found.en_before.append((entry.en, link))


_TAUGHT = frozenset(
    n for n in tagged("thing", "event", "job")
    if n.es[0] in ("libro", "clase", "examen", "profesor", "profesora", "estudiante")
)  # fmt: skip
_SCHOOL_SUBJECTS = tuple(Entry(n.es[0], n.en[0]) for n in tagged("subject", "language"))


def noun_phrase(
    d: Draw,
    noun: Noun,
    use: str = "object",
    *,
    owner: NounPhrase | None = None,
    negated: bool = False,
    kind: str = "",
    modify: float = 0.34,
) -> NounPhrase:
    """Build a phrase around a noun.

    `use` is subject, object, place or definite; `owner` the third person "su" refers to;
    `kind` a determiner kind that overrides the choice.
    """
    kind = kind or determiner_kind(d, noun, use)
    if negated and kind in ("indef", "num", "many", "several", "few", "other"):
        kind = "bare" if noun.mass else "none"
    plural = not noun.mass and (
        noun.plural_only or kind in _ALWAYS_PLURAL or d.chance(_plural_chance(noun, use, kind))
    )
    mods = _modify(d, noun, kind, plural, 0.05 if kind in ("name", "num") else modify)
    es_plural = plural and kind != "none"
    if kind == "none":
        mods = _Modifiers()
    det = determiner(d, noun, kind, plural, owner, elide=not mods.es_before)
    link = d.link()
    es = [*det.es, *mods.es_before, (noun.es[es_plural], link), *mods.es_after]
    en = [*det.en, *mods.en_before, *((w, link) for w in noun.en[plural].split())]
    if kind == "name":
        es, en = _possessed(d, es, en)
    person = spanish.ELLOS if plural else spanish.EL
    return NounPhrase(
        es, en, person, person, noun.feminine, link, noun, noun.human, owned=kind == "poss"
    )


def _plural_chance(noun: Noun, use: str, kind: str) -> float:
    if "one" in noun.tags:
        return 0.0
    return 0.06 if use == "place" else _PLURAL_CHANCE.get(kind, 0.0)


def _possessed(d: Draw, es: Tokens, en: Tokens) -> tuple[Tokens, Tokens]:
    """Turn "the ... " into "Ana's ...", which Spanish says with de."""
    of = name(d)
    word, link = of.es[0]
    article = en[0][1] if en else 0
    return [*es, ("de", link), (word, link)], [(word + "'s", link | article), *en[1:]]
