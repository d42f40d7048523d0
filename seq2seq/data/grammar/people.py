"""Choosing subjects, and the people verbs act on."""

from __future__ import annotations

from . import english, spanish
from .lexicon import tagged
from .noun_phrase import NounPhrase
from .phrases import name, noun_phrase
from .tokens import Draw, Token, Weighted

_SUBJECTS = Weighted.parse(
    "name 25 noun 26 yo 12 tú 8 él 8 nosotros 7 ellos 7 usted 2 ustedes 1 pair 4"
)
_SIMPLE_SUBJECTS = Weighted.parse(
    "name 24 noun 25 yo 12 tú 8 él 8 nosotros 7 ellos 7 usted 2 ustedes 1 pair 3 vague 3"
)
_PEOPLE = Weighted.parse("name 42 noun 48 él 10")
_VAGUE = (
    ("todos", "everyone", 5),
    ("alguien", "someone", 2),
    ("nadie", "nobody", 2),
)
_HUMAN = tagged("hum")
_KIN = tagged("kin")
_STRANGERS = tagged("job", "person")


def _pronoun(
    d: Draw, es: str, en: str, person: int, en_person: int, feminine: bool, drop: bool
) -> NounPhrase:
    link = d.link()
    tokens: list[Token] = [] if drop else [(es, link)]
    return NounPhrase(
        tokens, [(en, link)], person, en_person, feminine, link, drop=link if drop else 0
    )


def pronoun(d: Draw, kind: str, overt: bool) -> NounPhrase:
    """Return a personal pronoun; yo, tú, nosotros and ellos are mostly dropped."""
    feminine = d.chance(0.5)
    drop = not overt and d.chance(0.8)
    if kind == "yo":
        return _pronoun(d, "yo", "I", 0, 0, feminine, drop)
    if kind == "tú":
        return _pronoun(d, "tú", "you", 1, 1, feminine, drop)
    if kind == "él":
        es, en = ("ella", "she") if feminine else ("él", "he")
        return _pronoun(d, es, en, 2, 2, feminine, False)
    if kind == "nosotros":
        return _pronoun(d, "nosotras" if feminine else "nosotros", "we", 3, 3, feminine, drop)
    if kind == "vosotros":
        return _pronoun(d, "vosotras" if feminine else "vosotros", "you", 4, 4, feminine, drop)
    if kind == "ellos":
        return _pronoun(d, "ellas" if feminine else "ellos", "they", 5, 5, feminine, drop)
    person = 2 if kind == "usted" else 5
    return _pronoun(d, kind, "you", person, 1, feminine, False)


def _pair(d: Draw) -> NounPhrase:
    first = noun_phrase(d, d.pick(_KIN), kind="poss", modify=0) if d.chance(0.4) else name(d)
    link = d.link()
    if d.chance(0.4):
        second = pronoun(d, "yo", overt=True)
        person = spanish.NOSOTROS
    else:
        second = name(d)
        person = spanish.ELLOS
        if second.es[0][0] == first.es[0][0]:
            return first
    if first.person == spanish.ELLOS:
        feminine = first.feminine
    else:
        feminine = first.feminine and second.feminine
    return NounPhrase(
        [*first.es, ("y", link), *second.es],
        [*first.en, ("and", link), *second.en],
        person, person, feminine, link,
    )  # fmt: skip


def _vague(d: Draw) -> NounPhrase:
    es, en, person = d.pick(_VAGUE)
    link = d.link()
    return NounPhrase([(es, link)], [(en, link)], person, 2, False, link, vague=True)


def person_subject(d: Draw, *, vosotros: bool = False, vague: bool = False) -> NounPhrase:
    """Return someone who does something."""
    if vosotros and d.chance(0.04):
        return pronoun(d, "vosotros", overt=False)
    kind = (_SIMPLE_SUBJECTS if vague else _SUBJECTS).draw(d)
    if kind == "name":
        return name(d)
    if kind == "noun":
        return noun_phrase(d, d.pick(_HUMAN), "subject", modify=0.2)
    if kind == "pair":
        return _pair(d)
    if kind == "vague":
        return _vague(d)
    return pronoun(d, kind, overt=False)


def someone(d: Draw, owner: NounPhrase | None = None, kin: bool = True) -> NounPhrase:
    """Return a person after a preposition: a name, a noun phrase, or él or ella."""
    kind = _PEOPLE.draw(d)
    # "él habla con él" would be two people, but reads like one.
    same = owner is not None and owner.en_person == english.THIRD
    if kind == "name" or (kind == "él" and same):
        return name(d)
    if kind == "noun":
        if kin and d.chance(0.5):
            return noun_phrase(d, d.pick(_KIN), kind="poss", owner=owner, modify=0.15)
        return noun_phrase(d, d.pick(_STRANGERS), "definite", owner=owner, modify=0.15)
    feminine = d.chance(0.5)
    link = d.link()
    return NounPhrase(
        [("ella" if feminine else "él", link)], [("her" if feminine else "him", link)],
        2, 2, feminine, link,
    )  # fmt: skip
