"""Joining clauses: subordination, coordination, relative clauses, infinitives and shared objects.

Who a dropped third person is follows one rule: the subject of the clause it depends on. Where
someone else is meant, the subject is said. After y a shared subject is not repeated in English.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from . import spanish
from .actions import (
    BACKGROUND,
    EARLIER,
    FUTURE,
    HABIT,
    MAIN,
    PAST,
    WISHED,
    Request,
    action,
    infinitive,
    verbs_of,
)
from .clauses import Clause, stative_clause
from .lexicon import VERBS, Entry, Verb, VerbPair, entries, tagged
from .noun_phrases import NounPhrase, dropped, elided, noun_phrase, person_subject
from .states import state
from .tokens import Draw, Phrase, Weighted

NOW = Weighted.parse("pres 1")
THEN = Weighted.parse("imp 1")
_TOLD_NOW = Weighted.parse("pres 30 pret 22 fut 16 modal 16 perf 10 prog 6")
SUBJUNCTIVE_VERBS = tuple(v for v in VERBS if "sub" in v.tags)
_EVENTS = tuple(v for v in VERBS if "hum" in v.subjects and not v.stative)
_OTHERS = ("animal", "ride", "event")


def clause(d: Draw, request: Request, share_of_states: float = 0.3) -> Clause:
    """Build a clause about an action or a state."""
    return state(d, request) if d.chance(share_of_states) else action(d, request)


def new_subject(d: Draw, before: NounPhrase, others: float = 0.12) -> NounPhrase:
    """Return a subject other than the one before it; `others` is the share of things."""
    if d.chance(others):
        noun = d.pick(tagged(d.pick(_OTHERS)))
        return noun_phrase(d, noun, "definite", modify=0.15)
    said = [word for word, _ in before.es]
    subject = person_subject(d)
    while subject.es and [word for word, _ in subject.es] == said:
        subject = person_subject(d)
    if subject.drop and subject.person == before.person:
        return dropped(d, before)
    return subject


def next_subject(
    d: Draw, before: NounPhrase, same: float = 0.55, others: float = 0.12
) -> NounPhrase:
    """Return the subject of a dependent clause: as often as `same` the one before it."""
    if not before.vague and d.chance(same):
        return dropped(d, before)
    return new_subject(d, before, others)


class Connection(NamedTuple):
    """A conjunction, the tenses it joins and how often the dependent clause is a state."""

    weight: float
    es: str
    en: str
    main: Weighted
    dependent: Weighted
    states: float
    leads: float  # how often the dependent clause comes first


_CONNECTIONS = (
    Connection(26.0, "porque", "because", MAIN, NOW, 0.8, 0.0),
    Connection(12.0, "porque", "because", PAST, THEN, 1.0, 0.0),
    Connection(9.0, "aunque", "although", MAIN, NOW, 0.8, 0.4),
    Connection(5.0, "aunque", "although", PAST, THEN, 1.0, 0.4),
    Connection(8.0, "cuando", "when", HABIT, HABIT, 0.3, 0.55),
    Connection(10.0, "cuando", "when", PAST, PAST, 0.0, 0.55),
    Connection(7.0, "cuando", "when", FUTURE, WISHED, 0.0, 0.55),
    Connection(10.0, "si", "if", FUTURE, NOW, 0.35, 0.65),
    Connection(6.0, "mientras", "while", PAST, BACKGROUND, 0.0, 0.6),
    Connection(3.0, "en cuanto", "as soon as", PAST, PAST, 0.0, 0.5),
    Connection(2.0, "en cuanto", "as soon as", FUTURE, WISHED, 0.0, 0.5),
)
_CONNECTION_WEIGHTS = Weighted.parse(
    " ".join(f"{n} {c.weight}" for n, c in enumerate(_CONNECTIONS))
)


def _verbs_for(tenses: Weighted, subject: NounPhrase) -> tuple[Verb, ...]:
    if not subject.human:
        return VERBS
    return SUBJUNCTIVE_VERBS if tenses is WISHED else _EVENTS if tenses is PAST else VERBS


def complex_clause(d: Draw, extras: float = 0.5) -> Phrase:
    """Join a main and a dependent clause."""
    c = _CONNECTIONS[int(_CONNECTION_WEIGHTS.draw(d))]
    leads = d.chance(c.leads)
    subject = person_subject(d)
    first = _joined_clause(d, c, subject, leads, extras)
    # Only people have states that explain what someone does.
    others = 0.0 if c.states > 0.5 else 0.12
    later = next_subject(d, first.subject, others=others)
    second = _joined_clause(d, c, later, not leads, extras)
    conjunction = d.word(c.es, c.en)
    if leads:
        return conjunction + first.statement() + d.word(",", ",") + second.statement()
    return first.statement() + conjunction + second.statement()


def _joined_clause(
    d: Draw, c: Connection, subject: NounPhrase, dependent: bool, extras: float
) -> Clause:
    if not dependent:
        verbs = _verbs_for(c.main, subject)
        return action(d, Request(c.main, subject, extras, verbs=verbs))
    # What did not happen is no point in time for another thing to happen at.
    negation = 0.12 if c.en in ("because", "although", "if") else 0.0
    verbs = _verbs_for(c.dependent, subject)
    request = Request(c.dependent, subject, extras, negation, verbs=verbs, passing=True)
    return clause(d, request, c.states)


def coordination(d: Draw, extras: float = 0.6) -> Phrase:
    """Join two clauses of one tense with y or pero."""
    tenses = d.pick((NOW, HABIT, PAST, FUTURE, HABIT))
    first = clause(d, Request(tenses, person_subject(d), extras, 0.05, passing=True), 0.15)
    contrast = d.chance(0.35)
    subject = (next_subject if contrast else shared_or_new)(d, first.subject)
    second = clause(
        d, Request(tenses, subject, extras, 0.05, passing=True), 0.3 if contrast else 0.1
    )
    if contrast:
        joint = d.word(",", ",") + d.word("pero", "but")
    elif subject.es or subject.drop:
        joint = d.word(",", ",") + d.word("y", "and")
    else:
        joint = d.word("y", "and")
    return first.statement() + joint + second.statement()


def shared_or_new(d: Draw, before: NounPhrase) -> NounPhrase:
    """Return the subject after y: unsaid where it is the same, new otherwise."""
    if before.vague or d.chance(0.5):
        subject = new_subject(d, before)
        if not subject.drop or subject.person != before.person:
            return subject
    return elided(before)


_SAYING = tuple(VerbPair.of(*verb) for verb in entries("saying"))
_SAID = tuple(VerbPair.of(*verb) for verb in entries("said"))
_WISHING = tuple(VerbPair.of(*verb) for verb in entries("wishing"))


def reported(d: Draw, extras: float = 0.5) -> Phrase:
    """Build a clause with que: what someone says, thinks or knows."""
    past = d.chance(0.3)
    subject = person_subject(d)
    if past and subject.person == spanish.NOSOTROS:
        past = False
    verb = d.pick(_SAID if past else _SAYING)
    told = stative_clause(d, verb, "pret" if past else "pres", subject)
    if d.chance(0.1) and not past:
        told.negate(d)
    tenses = d.pick((THEN, EARLIER)) if past else _TOLD_NOW
    states = (1.0 if tenses is THEN else 0.0) if past else 0.35
    inner = clause(d, Request(tenses, next_subject(d, subject), extras), states)
    joined = told.statement() + d.word("que", "that") + inner.statement()
    return joined


def wished(d: Draw) -> Phrase:
    """Build a wish about someone else: que + subjunctive, an English infinitive."""
    subject = person_subject(d)
    verb = d.pick(_WISHING)
    wish = stative_clause(d, verb, "pres", subject)
    if d.chance(0.15) and verb.en.base != "hope":
        wish.negate(d)
    other = person_subject(d)
    while other.person == subject.person and (other.drop or other.person < 2):
        other = person_subject(d)
    inner = action(d, Request(WISHED, other, 0.5, negation=0.0, verbs=SUBJUNCTIVE_VERBS))
    que = d.link()
    es = [*wish.statement().es, ("que", que), *inner.statement().es]
    if verb.en.base == "hope":
        en = [*wish.statement().en, ("that", que), *inner.statement().en]
        return Phrase(es, en)
    object_words = other.en
    if len(other.en) == 1 and other.noun is None and other.en[0][0] == other.pronoun("subject"):
        object_words = [(other.pronoun("object"), other.en[0][1])]
    _, *rest = inner.group.marked
    to = [("to", que)]
    en = [*wish.statement().en, *object_words, *to, *inner.en_adverb, *rest, *inner.en_after]
    return Phrase(es, en)


_WITH_INFINITIVE = (
    ("para", "to", False),
    ("para", "to", False),
    ("antes de", "before", True),
    ("después de", "after", True),
    ("sin", "without", True),
)
_WITH_GOAL = tuple(v for v in VERBS if "goal" in v.tags)


def with_infinitive(d: Draw, extras: float = 0.2) -> Phrase:
    """Build a clause with para, antes de, después de or sin and an infinitive."""
    tenses = d.pick((MAIN, PAST, HABIT))
    es, en, gerund = d.pick(_WITH_INFINITIVE)
    subject = person_subject(d)
    verbs = _WITH_GOAL if es == "para" else VERBS
    main = action(d, Request(tenses, subject, extras, 0.06, verbs=verbs))
    return main.statement() + d.word(es, en) + infinitive(d, main.subject, gerund)


def relative(d: Draw, head: NounPhrase, avoid: Verb | None = None) -> Phrase:
    """Return a relative clause about a noun phrase, with another verb than `avoid`."""
    tenses = d.pick((HABIT, PAST, PAST))
    if d.chance(0.5) and not head.human:
        inner = _object_relative(d, head, tenses, avoid)
        if inner is not None:
            return inner
    return subject_relative(d, head, tenses, avoid).statement()


def subject_relative(
    d: Draw, head: NounPhrase, tenses: Weighted, avoid: Verb | None = None
) -> Clause:
    """Build a clause whose subject is the relative pronoun of a noun phrase."""
    verbs = tuple(v for v in verbs_of(head) if v is not avoid)
    if not verbs or (head.human and d.chance(0.25)):
        tenses = NOW
    who = d.link()
    gap = replace(
        head,
        es=[("que", who)],
        en=[("who" if head.human else "that", who)],
        link=who,
        relative=True,
    )
    share = 1.0 if not verbs else 0.45 if tenses is NOW else 0.0
    return clause(d, Request(tenses, gap, 0.35, 0.06, verbs=verbs), share)


def _taking() -> dict[str, tuple[Verb, ...]]:
    """Return, for each noun by its Spanish singular, the verbs that take it as an object."""
    index: dict[str, list[Verb]] = {}
    for verb in VERBS:
        if "noclit" in verb.tags or verb.stative or verb.recipient or verb.where:
            continue
        for target in verb.objects:
            if not isinstance(target, Entry) and not target.mass:
                index.setdefault(target.es[0], []).append(verb)
    return {noun: tuple(verbs) for noun, verbs in index.items()}


TAKING = _taking()


def _object_relative(
    d: Draw, head: NounPhrase, tenses: Weighted, avoid: Verb | None
) -> Phrase | None:
    taking = TAKING.get(head.noun.es[0], ()) if head.noun is not None else ()
    verbs = [v for v in taking if v is not avoid]
    if not verbs:
        return None
    subject = person_subject(d)
    if subject.person == spanish.NOSOTROS and tenses is PAST:
        return None
    inner = action(d, Request(tenses, subject, 0.2, negation=0.0, gap=True, verbs=(d.pick(verbs),)))
    that = d.link()
    es = inner.inverted() if len(inner.es_subject) < 3 else inner.statement().es
    return Phrase([("que", that), *es], [("that", that), *inner.statement().en])


def with_relative(d: Draw, extras: float = 0.5) -> Phrase:
    """Build a clause whose subject has a relative clause."""
    tag = d.pick(("job", "job", "person", "animal", "vehicle", "read"))
    head = noun_phrase(d, d.pick(tagged(tag)), "definite", modify=0.1)
    tenses = d.pick((MAIN, HABIT, PAST))
    if not verbs_of(head) or d.chance(0.4):
        main = state(d, Request(NOW, head, extras, 0.08))
    else:
        main = action(d, Request(tenses, head, extras, 0.08))
    modifier = relative(d, head, main.verb)
    main.es_subject = main.es_subject + modifier.es
    main.subject = replace(head, en=head.en + modifier.en)
    return main.statement()


def with_object_relative(d: Draw) -> Phrase:
    """Build a clause whose object has a relative clause."""
    while True:
        main = action(d, Request(d.pick((MAIN, PAST)), extras=0.0, negation=0.05))
        thing = main.object
        if thing is None or thing.noun is None or thing.noun.mass or thing.owned:
            continue
        if main.es_after[-len(thing.es) :] == thing.es:
            return main.statement() + relative(d, thing, main.verb)


def with_clitic(d: Draw) -> Phrase:
    """Join two clauses with the same object, a clitic in the second."""
    tenses = d.pick((PAST, PAST, FUTURE, HABIT))
    while True:
        first = action(d, Request(tenses, extras=0.2, negation=0.0))
        thing = first.object
        verbs = TAKING.get(thing.noun.es[0], ()) if thing and thing.noun else ()
        if thing is None or not verbs or first.subject.person == spanish.NOSOTROS:
            continue
        verb = d.pick(verbs)
        if verb is first.verb:
            continue
        second = action(
            d,
            Request(tenses, elided(first.subject), 0.4, negation=0.0, gap=True, verbs=(verb,)),
        )
        link = d.link()
        clitic = spanish.direct_clitic(thing.feminine, thing.plural)
        second.es_before.append((clitic, link))
        second.en_after.insert(0, (thing.pronoun("object"), link))
        return first.statement() + d.word("y", "and") + second.statement()


def fronted_object(d: Draw) -> Phrase:
    """Build a clause with the object first, doubled by a clitic: "este libro lo compró Ana"."""
    while True:
        noun = d.pick(tagged("read", "cloth", "food", "thing", "device"))
        verbs = TAKING.get(noun.es[0], ())
        if not verbs:
            continue
        thing = noun_phrase(d, noun, kind="dem", modify=0.15)
        subject = person_subject(d)
        if not subject.es:
            continue
        inner = action(
            d, Request(PAST, subject, 0.15, negation=0.0, gap=True, verbs=(d.pick(verbs),))
        )
        if inner.subject.person == spanish.NOSOTROS or inner.en_adverb:
            continue
        clitic = spanish.direct_clitic(thing.feminine, thing.plural)
        inner.es_before.append((clitic, thing.link))
        inner.en_after[:0] = thing.en
        return Phrase(thing.es + inner.inverted(), inner.statement().en)
