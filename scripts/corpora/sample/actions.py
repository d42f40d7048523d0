"""Clauses about what someone does: a lexical verb with its objects and adverbials."""

from __future__ import annotations

from dataclasses import dataclass, replace

from . import complements, spanish
from .clauses import Clause, VerbGroup, led_group, verb_group
from .complements import add_clitics, add_object
from .lexicon import NOUNS, PERIPHRASES, PERIPHRASIS_WEIGHTS, VERBS, Periphrasis, Verb, tagged
from .noun_phrases import NounPhrase, noun_phrase, person_subject, someone
from .tokens import Draw, Phrase, Weighted

MAIN = Weighted.parse("pres 36 pret 26 modal 14 fut 7 perf 7 prog 5 imp 4 pprog 1")
PAST = Weighted.parse("pret 1")
FUTURE = Weighted.parse("fut 3 modal 1")
HABIT = Weighted.parse("pres 1")
EARLIER = Weighted.parse("plup 1")
BACKGROUND = Weighted.parse("was 1")
WISHED = Weighted.parse("subj 1")

_STATIVE_TENSE = {
    "prog": "pres", "pret": "imp", "pprog": "imp", "perf": "pres", "plup": "imp",
    "modal": "pres", "was": "imp",
}  # fmt: skip
_PLACES_TO_PUT = tagged("surface", "inside")


def verbs_of(subject: NounPhrase) -> tuple[Verb, ...]:
    """Return the verbs a subject can have."""
    if subject.human:
        return _HUMAN_VERBS
    return _VERBS_OF.get(subject.noun, ()) if subject.noun is not None else ()


_HUMAN_VERBS = tuple(v for v in VERBS if "hum" in v.subjects)
_VERBS_OF = {
    noun: tuple(v for v in VERBS if not noun.tags.isdisjoint(v.subjects)) for noun in NOUNS
}


@dataclass(frozen=True)
class Request:
    """What a clause should contain.

    `extras` scales how many adverbials it gets; `gap` leaves its direct object out (for a
    question or a relative clause); `front` allows an adverbial before the subject; `passing` asks
    for states that come and go; `verbs` limits the verbs.
    """

    tenses: Weighted = MAIN
    subject: NounPhrase | None = None
    extras: float = 1.0
    negation: float = 0.12
    vague: bool = False
    gap: bool = False
    front: bool = False
    passing: bool = False
    verbs: tuple[Verb, ...] = VERBS


def _tense(d: Draw, request: Request, verb: Verb) -> str:
    tense = request.tenses.draw(d)
    if verb.tenses and tense not in verb.tenses:
        tense = verb.tenses[0]
    if verb.stative:
        return _STATIVE_TENSE.get(tense, tense)
    if tense == "prog" and "noprog" in verb.tags:
        return "perf"
    return tense


def _choose_periphrasis(d: Draw, to_come: bool) -> tuple[Periphrasis, str]:
    """Choose a leading verb and its tense; with `to_come`, one that is about the future."""
    while True:
        periphrasis = PERIPHRASES[int(PERIPHRASIS_WEIGHTS.draw(d))]
        tense = d.pick(periphrasis.tenses)
        if not to_come or _time_key(tense, periphrasis) in ("modal", "fut"):
            return periphrasis, tense


_TO_COME = frozenset({"want", "can", "be", "have", "should", "need", "hope", "promise"})


def _time_key(tense: str, periphrasis: Periphrasis | None) -> str:
    """Return the tense whose times suit a verb group; "" for none."""
    if periphrasis is None:
        return tense
    if tense == "pres":
        has_future = periphrasis.en.base in _TO_COME and periphrasis.en_form == "base"
        return "modal" if has_future else ""
    return tense if tense in ("pret", "fut") else ""


def action(d: Draw, request: Request) -> Clause:
    """Build a clause around a lexical verb."""
    verbs = request.verbs
    if request.subject is not None and verbs is VERBS:
        verbs = verbs_of(request.subject)
    verb = d.pick(verbs)
    while verb.tenses and not any(tense in verb.tenses for tense in request.tenses.names):
        verb = d.pick(verbs)
    if request.subject is None:
        tag = verb.subjects[0] if d.chance(0.75) else d.pick(verb.subjects)
    else:
        tag = "hum" if request.subject.human else ""
    return _build(d, request, verb, tag)


def _build(d: Draw, request: Request, verb: Verb, tag: str) -> Clause:
    tense = _tense(d, request, verb)
    periphrasis = None
    if tense == "modal":
        if tag != "hum":
            tense = "pres"
        else:
            periphrasis, tense = _choose_periphrasis(d, request.tenses is FUTURE)
    subject = request.subject or _subject(d, request, tag, tense, periphrasis)
    group: VerbGroup
    if periphrasis is not None:
        group = led_group(d, periphrasis, verb, tense, subject)
    else:
        group = verb_group(d, verb.es, verb.en, tense, subject, verb.stative)
    clause = Clause(subject, subject.es, group, tense, verb=verb)
    negated = not subject.vague and d.chance(request.negation) and tense not in ("imp", "was")
    _complete(d, clause, verb, request, negated)
    if negated:
        clause.negate(d)
    key = _time_key(tense, periphrasis)
    if not negated and d.chance(0.16 * request.extras):
        _add_frequency(d, clause, verb, key)
    _add_adverbials(d, clause, verb, request, key)
    return clause


def _subject(
    d: Draw, request: Request, tag: str, tense: str, periphrasis: Periphrasis | None
) -> NounPhrase:
    if tag != "hum":
        return noun_phrase(d, d.pick(tagged(tag)), "subject", modify=0.2)
    return person_subject(
        d,
        vosotros=periphrasis is not None or tense in ("perf", "prog"),
        vague=request.vague,
    )


def _add_frequency(d: Draw, clause: Clause, verb: Verb, key: str) -> None:
    if verb.stative or clause.subject.vague:
        adverb: Phrase | None = d.word("también", "also") if not clause.subject.vague else None
    elif key in ("pres", "imp") and d.chance(0.25) and not clause.es_after:
        adverb = d.word("nunca", "never")
    else:
        adverb = complements.frequency(d, key)
    if adverb is not None:
        clause.es_before[:0] = adverb.es
        clause.en_adverb += adverb.en


def _add_adverbials(d: Draw, clause: Clause, verb: Verb, request: Request, key: str) -> None:
    subject = clause.subject
    if verb.places and d.chance(0.35 * request.extras):
        clause.add(complements.place(d, d.pick(verb.places), subject))
    needs_past = (
        clause.tense == "pret" and subject.person == spanish.NOSOTROS and verb.past_like_present
    )
    when: Phrase | None = None
    if needs_past:
        when = complements.past_time(d)
    elif not (verb.stative and key in ("pres", "imp")) and d.chance(0.3 * request.extras):
        when = complements.time(d, key)
    if when is None or (clause.en_adverb and key in ("pres", "imp", "modal")):
        return
    if request.front and subject.es and d.chance(0.35):
        clause.fronted = when + d.word(",", ",")
    else:
        clause.add(when)


def _complete(d: Draw, clause: Clause, verb: Verb, request: Request, negated: bool) -> None:
    """Add the reflexive, the objects and the complement."""
    subject = clause.subject
    if verb.reflexive:
        add_clitics(d, clause, [(spanish.REFLEXIVES[subject.person], clause.group.es[-1][1])])
    has_object = bool(verb.objects or verb.human) and not request.gap
    if has_object and not (verb.object_optional and d.chance(0.4)):
        add_object(d, clause, verb, negated)
    if verb.where:
        clause.add(complements.in_or_on(d, d.pick(_PLACES_TO_PUT), subject, modify=0.1))
    how = complements.manner(d, verb) if d.chance(0.3 * request.extras) else None
    c = verb.complement
    if c is not None and c.optional and d.chance(0.45):
        c = None
    if c is not None and how is not None and c.is_object:
        clause.add(complements.complement(d, c, subject, someone(d, subject, c.kin)) + how)
        return
    if how is not None:
        clause.add(how)
    if c is not None:
        clause.add(complements.complement(d, c, subject, someone(d, subject, c.kin)))


_INFINITIVE_VERBS = tuple(
    v for v in VERBS
    if v.subjects[0] == "hum" and not v.stative and not v.tenses and not v.reflexive
)  # fmt: skip
_TIMELESS = Weighted.parse("pres 1")


def infinitive(d: Draw, subject: NounPhrase, gerund: bool = False, extras: float = 0.3) -> Phrase:
    """Return a verb with its complements, in the infinitive (or the English gerund)."""
    request = Request(
        _TIMELESS, replace(subject, drop=0), extras, negation=0.0, verbs=_INFINITIVE_VERBS
    )
    inner = action(d, request)
    while inner.es_before or inner.verb is None:
        inner = action(d, request)
    verb = inner.verb
    link = inner.group.es[0][1]
    form = verb.en.gerund if gerund else verb.en.base
    words = [form, *verb.en.particle]
    return Phrase(
        [(verb.es.infinitive, link), *inner.es_after],
        [*((w, link) for w in words), *inner.en_after],
    )
