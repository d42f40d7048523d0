"""Clauses with ser and estar: qualities, jobs, origins, places, comparatives and superlatives."""

from __future__ import annotations

from .actions import Request
from .clauses import ESTAR, SER, Clause, stative_clause
from .lexicon import (
    ADJECTIVES,
    CITIES,
    COUNTRIES,
    NOUNS,
    SETTINGS,
    Adjective,
    Entry,
    Noun,
    entries,
    tagged,
)
from .noun_phrases import NounPhrase, name, noun_phrase, person_subject
from .tokens import Draw, Phrase, linked

_DEGREES = entries("degree")
DESCRIBED = tuple(n for n in NOUNS if n.letter and "instrument" not in n.tags)
BY_LETTER = {
    letter: tuple(a for a in ADJECTIVES if letter in a.letters and not a.only_prenominal)
    for letter in sorted({n.letter for n in DESCRIBED})
}
NOUNS_BY_LETTER = {
    letter: tuple(n for n in DESCRIBED if n.letter == letter) for letter in BY_LETTER
}
_PASSING_QUALITIES = {
    letter: tuple(a for a in found if a.gradable or not a.ser)
    for letter, found in BY_LETTER.items()
}
_JOBS = {
    feminine: tuple(n for n in tagged("job") if n.feminine == feminine)
    for feminine in (False, True)
}
_LOCATIONS = entries("location")
_THINGS = tagged("thing", "cloth", "pet", "food", "read")
_SURFACES = tagged("surface")
_INSIDES = tagged("inside")
_SOLID = tagged("furniture", "vehicle", "device", "fixture")
_PLACES = tagged("building", "room", "outdoor")
_INDOORS = tagged("building", "room")
_AROUND = _LOCATIONS[3:7]


def maybe_negate(d: Draw, clause: Clause, request: Request) -> Clause:
    """Negate a clause with the probability in the request."""
    if d.chance(request.negation) and not clause.subject.vague:
        clause.negate(d)
    return clause


def person_of(d: Draw, request: Request) -> NounPhrase:
    """Return the subject asked for, or a person."""
    if request.subject is not None:
        return request.subject
    return person_subject(d)


def adjective(d: Draw, request: Request, tense: str) -> Clause:
    """Build a clause about a quality: "la casa es muy bonita"."""
    subject = request.subject or _described(d, request, tense)
    noun = subject.noun
    letter = noun.letter if noun is not None and not subject.human else "P"
    pool = _PASSING_QUALITIES if request.passing else BY_LETTER
    quality = d.pick(pool[letter])
    clause = copula(d, subject, tense, quality)
    clause.compact = True
    link = d.link()
    degree = d.word(*d.pick(_DEGREES)) if quality.gradable and d.chance(0.25) else None
    if degree is not None:
        clause.add(degree)
    clause.es_after.append((quality.agree(subject.feminine, subject.plural), link))
    clause.en_after.append((quality.en, link))
    if degree is None:
        maybe_negate(d, clause, request)
    if not quality.ser and clause.tense == "pres" and d.chance(0.12 * request.extras):
        clause.add(d.word("hoy", "today"))
        clause.compact = False
    return clause


def _described(d: Draw, request: Request, tense: str) -> NounPhrase:
    """Return a person or a thing to describe."""
    if d.chance(0.5):
        return person_of(d, request)
    noun = d.pick(NOUNS_BY_LETTER[d.pick(tuple(BY_LETTER))])
    use = "definite" if d.chance(0.5) else "subject"
    return noun_phrase(d, noun, use, kind="poss" if noun.letter == "B" else "", modify=0.05)


def copula(d: Draw, subject: NounPhrase, tense: str, adjective: Adjective | None) -> Clause:
    """Return a clause with ser, or with estar where the adjective asks for it."""
    verb = SER if adjective is None or adjective.ser else ESTAR
    return stative_clause(d, verb, tense, subject)


def job(d: Draw, request: Request, tense: str) -> Clause:
    """Build a clause about a profession: "Ana es médica"."""
    subject = person_of(d, request)
    clause = copula(d, subject, tense, None)
    noun = d.pick(_JOBS[subject.feminine])
    if subject.plural:
        link = d.link()
        clause.es_after.append((noun.es[1], link))
        clause.en_after += linked(noun.en[1], link)
    elif d.chance(0.7):
        link = d.link()
        clause.es_after.append((noun.es[0], link))
        clause.en_after += linked(f"a {noun.en[0]}", link)
    else:
        clause.add(noun_phrase(d, noun, kind="indef", modify=1.0).phrase())
    return maybe_negate(d, clause, request)


def location(d: Draw, request: Request, tense: str) -> Clause:
    """Build a clause about a location: "el libro está en la mesa"."""
    if request.subject is not None or d.chance(0.35):
        subject = person_of(d, request)
        preposition, target = _near_person(d)
    else:
        subject = noun_phrase(d, d.pick(_THINGS), "definite", modify=0.2)
        preposition, target = _near_thing(d)
    clause = stative_clause(d, ESTAR, tense, subject)
    clause.add(d.word(*preposition))
    clause.add(noun_phrase(d, target, "place", owner=subject, modify=0.15).phrase())
    return maybe_negate(d, clause, request)


def _near_person(d: Draw) -> tuple[Entry, Noun]:
    target = d.pick(_PLACES)
    if "building" in target.tags and d.chance(0.35):
        return d.pick(_AROUND), target
    return Entry("en", target.preposition), target


def _near_thing(d: Draw) -> tuple[Entry, Noun]:
    if d.chance(0.2):
        target = d.pick(_INDOORS)
        return Entry("en", target.preposition), target
    preposition = d.pick(_LOCATIONS)
    if preposition.en in ("in", "inside"):
        return preposition, d.pick(_INSIDES)
    if preposition.en in ("on", "under"):
        return preposition, d.pick(_SURFACES)
    return preposition, d.pick(_SOLID)


_HOMES = COUNTRIES + COUNTRIES + CITIES


def origin(d: Draw, request: Request, tense: str) -> Clause:
    """Build a clause about an origin: "Ana es de Perú"."""
    subject = person_of(d, request)
    clause = copula(d, subject, "imp" if tense == "imp" else "pres", None)
    clause.add(d.word("de", "from"))
    clause.add(d.word(*d.pick(_HOMES)))
    return maybe_negate(d, clause, request)


_COMPARABLE = {
    letter: tuple(a for a in found if a.gradable and a.ser) for letter, found in BY_LETTER.items()
}


def comparison(d: Draw, request: Request, tense: str) -> Clause:
    """Build a clause that compares two people or two things."""
    subject = request.subject
    if subject is None and d.chance(0.5):
        noun = d.pick(DESCRIBED)
        if noun.letter not in "PB" and not noun.mass and _COMPARABLE.get(noun.letter):
            subject = noun_phrase(d, noun, "definite", modify=0.1)
            others = [n for n in NOUNS_BY_LETTER[noun.letter] if n is not noun and not n.mass]
            other = noun_phrase(d, d.pick(others), "definite", modify=0.1)
            return _compared(d, subject, other, tense, noun.letter)
    subject = subject or person_of(d, request)
    if not subject.human:
        return adjective(d, request, tense)
    return _compared(d, subject, _standard(d, subject), tense, "P")


_OBLIQUE = {"yo": ("yo", "me"), "tú": ("tú", "you"), "él": ("él", "him"), "ella": ("ella", "her")}


def _standard(d: Draw, subject: NounPhrase) -> NounPhrase:
    """Return a person to compare a subject with."""
    if d.chance(0.65):
        return name(d)
    options = [w for w in _OBLIQUE if not (w == "yo" and subject.en_person in (0, 3))]
    word, en = _OBLIQUE[d.pick([w for w in options if not (w == "tú" and subject.en_person == 1)])]
    link = d.link()
    return NounPhrase([(word, link)], [(en, link)], 2, 2, word == "ella", link)


_PATTERNS = (
    ("más", "more", "que", "than"),
    ("más", "more", "que", "than"),
    ("menos", "less", "que", "than"),
    ("tan", "as", "como", "as"),
)


def _compared(d: Draw, subject: NounPhrase, other: NounPhrase, tense: str, letter: str) -> Clause:
    """Build "Ana es más alta que Juan" and the like."""
    quality = d.pick(_COMPARABLE[letter])
    clause = copula(d, subject, tense, quality)
    degree, en_degree, than, en_than = d.pick(_PATTERNS)
    es = f"{degree}^1 {quality.agree(subject.feminine, subject.plural)}^2"
    if degree == "más" and quality.forms[0] in _BETTER:
        es = _BETTER[quality.forms[0]] + ("es" if subject.plural else "") + "^12"
    en = f"{en_degree}^1 {quality.en}^2"
    if degree == "más" and quality.grades is not None:
        en = f"{quality.grades[0]}^12"
    clause.add(d.word(es, en) + d.word(than, en_than) + other.phrase())
    return clause


_BETTER = {"bueno": "mejor", "malo": "peor"}


def _ranked(d: Draw, noun: Noun, adjective: Adjective) -> Phrase:
    """Return "el chico más alto de la clase" / "the tallest boy in the class"."""
    article = "la" if noun.feminine and "el" not in noun.tags else "el"
    es = f"{article}^1 {noun.es[0]}^4 más^2 {adjective.agree(noun.feminine, False)}^3"
    if adjective.forms[0] in _BETTER:
        es = f"{article}^1 {_BETTER[adjective.forms[0]]}^2 {noun.es[0]}^4"
    en = f"the^1 most^2 {adjective.en}^3"
    if adjective.grades is not None:
        en = f"the^1 {adjective.grades[1]}^23"
    for word in noun.en[0].split():
        en += f" {word}^4"
    return d.word(es, en) + d.word(*d.pick(SETTINGS[noun.letter]))


_SUPERLATIVE_NOUNS = {
    letter: tuple(n for n in NOUNS_BY_LETTER[letter] if not n.mass and not n.plural_only
                  and "kin" not in n.tags and "room" not in n.tags)
    for letter in SETTINGS
}  # fmt: skip


def superlative(d: Draw, request: Request, tense: str) -> Clause:
    """Build a clause with a superlative: "Ana es la chica más alta de la clase"."""
    if request.subject is None and d.chance(0.55):
        letter = d.pick(tuple(SETTINGS)[1:])
        noun = d.pick(_SUPERLATIVE_NOUNS[letter])
        subject = _this(d, feminine=noun.feminine)
    else:
        subject = person_of(d, request)
        if subject.plural:
            return adjective(d, request, tense)
        noun = d.pick([n for n in _SUPERLATIVE_NOUNS["P"] if n.feminine == subject.feminine])
    clause = copula(d, subject, tense, None)
    clause.add(_ranked(d, noun, d.pick(_COMPARABLE[noun.letter])))
    return clause


def _this(d: Draw, feminine: bool) -> NounPhrase:
    """Return este, esta, ese or esa as a subject."""
    link = d.link()
    near = d.chance(0.6)
    es = ("esta" if feminine else "este") if near else ("esa" if feminine else "ese")
    return NounPhrase(
        [(es, link)], [("this" if near else "that", link)], 2, 2, feminine, link, human=False
    )
