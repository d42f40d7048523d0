"""Clauses with ser and estar: qualities, jobs, origins, places and comparisons."""

from __future__ import annotations

from .actions import Request
from .clauses import Clause
from .lexicon import ADJECTIVES, CITIES, COUNTRIES, NOUNS, Adjective, Entry, Noun, tagged
from .noun_phrase import NounPhrase
from .people import person_subject
from .phrases import noun_phrase
from .tokens import Draw
from .verb_groups import BE, ESTAR, SER, verb_group

_DEGREES = (Entry("muy", "very"), Entry("muy", "very"), Entry("bastante", "quite"),
            Entry("demasiado", "too"), Entry("tan", "so"))  # fmt: skip
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
_LOCATIONS = (
    Entry("en", "on"), Entry("en", "in"), Entry("debajo de", "under"),
    Entry("detrás de", "behind"), Entry("delante de", "in front of"),
    Entry("cerca de", "near"), Entry("al lado de", "next to"), Entry("dentro de", "inside"),
    Entry("lejos de", "far from"),
)  # fmt: skip
_THINGS = tagged("thing", "cloth", "pet", "food", "read")
_SURFACES = tagged("surface")
_INSIDES = tagged("inside")
_SOLID = tagged("furniture", "vehicle", "device", "fixture")
_PLACES = tagged("building", "room", "outdoor")
_INDOORS = tagged("building", "room")
_AROUND = _LOCATIONS[3:7]


def maybe_negate(d: Draw, clause: Clause, request: Request) -> Clause:
    """Negate a clause as often as the request says."""
    if d.chance(request.negation) and not clause.subject.vague:
        clause.negate(d)
    return clause


def person_of(d: Draw, request: Request) -> NounPhrase:
    """Return the subject asked for, or a person."""
    if request.subject is not None:
        return request.subject
    return person_subject(d)


def adjective(d: Draw, request: Request, tense: str) -> Clause:
    """Say what someone or something is like."""
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
    group = verb_group(d, verb, BE, tense, subject, stative=True)
    return Clause(subject, subject.es, group, tense)


def job(d: Draw, request: Request, tense: str) -> Clause:
    """Say what someone does for a living."""
    subject = person_of(d, request)
    clause = copula(d, subject, tense, None)
    noun = d.pick(_JOBS[subject.feminine])
    if subject.plural:
        link = d.link()
        clause.es_after.append((noun.es[1], link))
        clause.en_after += [(w, link) for w in noun.en[1].split()]
    elif d.chance(0.7):
        link = d.link()
        clause.es_after.append((noun.es[0], link))
        clause.en_after += [("a", link), *((w, link) for w in noun.en[0].split())]
    else:
        clause.add(noun_phrase(d, noun, kind="indef", modify=1.0).phrase())
    return maybe_negate(d, clause, request)


def location(d: Draw, request: Request, tense: str) -> Clause:
    """Say where someone or something is."""
    if request.subject is not None or d.chance(0.35):
        subject = person_of(d, request)
        preposition, target = _near_person(d)
    else:
        subject = noun_phrase(d, d.pick(_THINGS), "definite", modify=0.2)
        preposition, target = _near_thing(d)
    group = verb_group(d, ESTAR, BE, tense, subject, stative=True)
    clause = Clause(subject, subject.es, group, tense)
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
    """Say where someone comes from."""
    subject = person_of(d, request)
    clause = copula(d, subject, "imp" if tense == "imp" else "pres", None)
    clause.add(d.word("de", "from"))
    clause.add(d.word(*d.pick(_HOMES)))
    return maybe_negate(d, clause, request)
