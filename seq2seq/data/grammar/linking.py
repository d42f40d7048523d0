"""Joining clauses: subordination, coordination, relatives and infinitives.

Who a dropped third person is follows one rule: the subject of the clause it depends on. Where
someone else is meant, the subject is said. After y a shared subject is not repeated in English.
"""

from __future__ import annotations

from typing import NamedTuple

from . import english, spanish
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
)
from .clauses import Clause
from .lexicon import VERBS, Verb, paradigm, tagged
from .noun_phrase import NounPhrase, dropped, elided
from .people import person_subject
from .phrases import noun_phrase
from .states import state
from .tokens import Draw, Phrase, Weighted
from .verb_groups import verb_group

NOW = Weighted.parse("pres 1")
THEN = Weighted.parse("imp 1")
_TOLD_NOW = Weighted.parse("pres 30 pret 22 fut 16 modal 16 perf 10 prog 6")
SUBJUNCTIVE_VERBS = tuple(v for v in VERBS if "sub" in v.tags)
_EVENTS = tuple(v for v in VERBS if "hum" in v.subjects and not v.stative)
_OTHERS = ("animal", "ride", "event")


def comma(d: Draw) -> Phrase:
    """Return a comma."""
    link = d.link()
    return Phrase([(",", link)], [(",", link)])


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
    """A conjunction, the tenses it joins and how often its own clause is a state."""

    es: str
    en: str
    main: Weighted
    dependent: Weighted
    states: float
    leads: float  # how often the dependent clause comes first


_CONNECTIONS = (
    (26.0, Connection("porque", "because", MAIN, NOW, 0.8, 0.0)),
    (12.0, Connection("porque", "because", PAST, THEN, 1.0, 0.0)),
    (9.0, Connection("aunque", "although", MAIN, NOW, 0.8, 0.4)),
    (5.0, Connection("aunque", "although", PAST, THEN, 1.0, 0.4)),
    (8.0, Connection("cuando", "when", HABIT, HABIT, 0.3, 0.55)),
    (10.0, Connection("cuando", "when", PAST, PAST, 0.0, 0.55)),
    (7.0, Connection("cuando", "when", FUTURE, WISHED, 0.0, 0.55)),
    (10.0, Connection("si", "if", FUTURE, NOW, 0.35, 0.65)),
    (6.0, Connection("mientras", "while", PAST, BACKGROUND, 0.0, 0.6)),
    (3.0, Connection("en cuanto", "as soon as", PAST, PAST, 0.0, 0.5)),
    (2.0, Connection("en cuanto", "as soon as", FUTURE, WISHED, 0.0, 0.5)),
)
_CONNECTION_WEIGHTS = Weighted.parse(
    " ".join(f"{n} {weight}" for n, (weight, _) in enumerate(_CONNECTIONS))
)


def _verbs_for(tenses: Weighted, subject: NounPhrase) -> tuple[Verb, ...]:
    if not subject.human:
        return VERBS
    return SUBJUNCTIVE_VERBS if tenses is WISHED else _EVENTS if tenses is PAST else VERBS


def complex_clause(d: Draw, extras: float = 0.5) -> Phrase:
    """Join a main and a dependent clause."""
    c = _CONNECTIONS[int(_CONNECTION_WEIGHTS.draw(d))][1]
    leads = d.chance(c.leads)
    subject = person_subject(d)
    first = _joined_clause(d, c, subject, leads, extras)
    # Only people have states that explain what someone does.
    others = 0.0 if c.states > 0.5 else 0.12
    later = next_subject(d, first.subject, others=others)
    second = _joined_clause(d, c, later, not leads, extras)
    conjunction = d.word(c.es, c.en)
    if leads:
        return conjunction + first.statement() + comma(d) + second.statement()
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
        joint = comma(d) + d.word("pero", "but")
    elif subject.es or subject.drop:
        joint = comma(d) + d.word("y", "and")
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


class Reporting(NamedTuple):
    """A verb that takes a clause with que."""

    es: spanish.Paradigm
    en: english.Verb


def _reporting(*verbs: tuple[str, str]) -> tuple[Reporting, ...]:
    return tuple(Reporting(paradigm(es), english.verb(en)) for es, en in verbs)


_SAYING = _reporting(
    ("decir", "say"),
    ("decir", "say"),
    ("pensar", "think"),
    ("creer", "believe"),
    ("saber", "know"),
    ("recordar", "remember"),
    ("entender", "understand"),
)
_SAID = _reporting(("decir", "say"), ("explicar", "explain"))
ASKING = _reporting(("preguntar", "ask"))[0]
_WISHING = _reporting(("querer", "want"), ("querer", "want"), ("necesitar", "need"),
                      ("esperar", "hope"))  # fmt: skip


def reported(d: Draw, extras: float = 0.5) -> Phrase:
    """Say what someone says, thinks or knows."""
    past = d.chance(0.3)
    subject = person_subject(d)
    if past and subject.person == spanish.NOSOTROS:
        past = False
    verb = d.pick(_SAID if past else _SAYING)
    group = verb_group(d, *verb, "pret" if past else "pres", subject, stative=True)
    told = Clause(subject, subject.es, group, "pret" if past else "pres")
    if d.chance(0.1) and not past:
        told.negate(d)
    tenses = d.pick((THEN, EARLIER)) if past else _TOLD_NOW
    states = (1.0 if tenses is THEN else 0.0) if past else 0.35
    inner = clause(d, Request(tenses, next_subject(d, subject), extras), states)
    joined = told.statement() + d.word("que", "that") + inner.statement()
    return joined


def wished(d: Draw) -> Phrase:
    """Say what someone wants another to do: que + subjunctive, an English infinitive."""
    subject = person_subject(d)
    verb = d.pick(_WISHING)
    group = verb_group(d, *verb, "pres", subject, stative=True)
    wish = Clause(subject, subject.es, group, "pres")
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
    if len(other.en) == 1 and other.noun is None and other.en[0][0] == other.subject_pronoun():
        object_words = [(other.object_pronoun(), other.en[0][1])]
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
    """Add a purpose or an infinitive of time to an action."""
    tenses = d.pick((MAIN, PAST, HABIT))
    es, en, gerund = d.pick(_WITH_INFINITIVE)
    subject = person_subject(d)
    verbs = _WITH_GOAL if es == "para" else VERBS
    main = action(d, Request(tenses, subject, extras, 0.06, verbs=verbs))
    return main.statement() + d.word(es, en) + infinitive(d, main.subject, gerund)
