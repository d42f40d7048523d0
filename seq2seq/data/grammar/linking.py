"""Joining clauses: subordination, coordination, relatives and infinitives.

Who a dropped third person is follows one rule: the subject of the clause it depends on. Where
someone else is meant, the subject is said. After y a shared subject is not repeated in English.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from . import english, spanish
from .actions import (
    BACKGROUND,
    BY_SUBJECT,
    EARLIER,
    FUTURE,
    HABIT,
    MAIN,
    PAST,
    WISHED,
    Request,
    action,
    infinitive,
    subject_tag,
)
from .clauses import Clause
from .lexicon import VERBS, Verb, tagged
from .people import person_subject
from .phrases import NounPhrase, dropped, elided, noun_phrase
from .states import state
from .tokens import Draw, Phrase, Weighted
from .verb_groups import verb_group

NOW = Weighted.parse("pres 1")
THEN = Weighted.parse("imp 1")
_TOLD_NOW = Weighted.parse("pres 30 pret 22 fut 16 modal 16 perf 10 prog 6")
_SAFE_FOR_YO = frozenset({"pres", "fut", "perf", "prog"})
SUBJUNCTIVE_VERBS = tuple(v for v in VERBS if "sub" in v.tags)
_OTHERS = ("animal", "vehicle", "event")


def comma(d: Draw) -> Phrase:
    """Return a comma."""
    link = d.link()
    return Phrase([(",", link)], [(",", link)])


def clause(d: Draw, request: Request, share_of_states: float = 0.3) -> Clause:
    """Build a clause about an action or a state."""
    return state(d, request) if d.chance(share_of_states) else action(d, request)


def again(d: Draw, subject: NounPhrase, tenses: Weighted) -> NounPhrase:
    """Refer back to a subject; yo is said where the verb form would not show it."""
    back = dropped(d, subject)
    if subject.person == spanish.YO and not _SAFE_FOR_YO.issuperset(tenses.names):
        back.es, back.drop = [("yo", back.link)], 0
    return back


def new_subject(d: Draw, before: NounPhrase, tenses: Weighted) -> NounPhrase:
    """Return a subject other than the one before it."""
    if d.chance(0.12):
        noun = d.pick(tagged(d.pick(_OTHERS)))
        return noun_phrase(d, noun, "definite", modify=0.15)
    subject = person_subject(d, overt_yo=not _SAFE_FOR_YO.issuperset(tenses.names))
    if subject.drop and subject.person == before.person:
        return again(d, before, tenses)
    return subject


def next_subject(d: Draw, before: NounPhrase, tenses: Weighted, same: float = 0.55) -> NounPhrase:
    """Return the subject of a dependent clause."""
    if not before.vague and d.chance(same):
        return again(d, before, tenses)
    return new_subject(d, before, tenses)


class Connection(NamedTuple):
    """A conjunction with the tenses it joins and how often each clause is a state."""

    es: str
    en: str
    main: Weighted
    dependent: Weighted
    main_states: float
    dependent_states: float
    leads: float  # how often the dependent clause comes first


_CONNECTIONS = (
    (26.0, Connection("porque", "because", MAIN, NOW, 0.2, 0.8, 0.0)),
    (12.0, Connection("porque", "because", PAST, THEN, 0.0, 1.0, 0.0)),
    (9.0, Connection("aunque", "although", MAIN, NOW, 0.2, 0.8, 0.4)),
    (5.0, Connection("aunque", "although", PAST, THEN, 0.0, 1.0, 0.4)),
    (8.0, Connection("cuando", "when", HABIT, HABIT, 0.3, 0.4, 0.55)),
    (10.0, Connection("cuando", "when", PAST, PAST, 0.0, 0.0, 0.55)),
    (7.0, Connection("cuando", "when", FUTURE, WISHED, 0.1, 0.0, 0.55)),
    (10.0, Connection("si", "if", FUTURE, NOW, 0.1, 0.35, 0.65)),
    (6.0, Connection("mientras", "while", PAST, BACKGROUND, 0.0, 0.0, 0.6)),
    (3.0, Connection("en cuanto", "as soon as", PAST, PAST, 0.0, 0.0, 0.5)),
    (2.0, Connection("en cuanto", "as soon as", FUTURE, WISHED, 0.0, 0.0, 0.5)),
)
_CONNECTION_WEIGHTS = Weighted.parse(
    " ".join(f"{n} {weight}" for n, (weight, _) in enumerate(_CONNECTIONS))
)


def _verbs_for(tenses: Weighted, subject: NounPhrase) -> tuple[Verb, ...]:
    if tenses is WISHED and subject.human:
        return SUBJUNCTIVE_VERBS
    return VERBS


def complex_clause(d: Draw, extras: float = 0.5) -> tuple[Phrase, NounPhrase]:
    """Join a main and a dependent clause; return also the subject of the later one."""
    c = _CONNECTIONS[int(_CONNECTION_WEIGHTS.draw(d))][1]
    leads = d.chance(c.leads)
    first_tenses, second_tenses = (c.dependent, c.main) if leads else (c.main, c.dependent)
    states = (c.dependent_states, c.main_states) if leads else (c.main_states, c.dependent_states)
    subject = _first_subject(d, first_tenses)
    first = clause(
        d, Request(first_tenses, subject, extras, verbs=_verbs_for(first_tenses, subject)),
        states[0],
    )  # fmt: skip
    later = next_subject(d, first.subject, second_tenses)
    second = clause(
        d, Request(second_tenses, later, extras, verbs=_verbs_for(second_tenses, later)),
        states[1],
    )  # fmt: skip
    conjunction = d.word(c.es, c.en)
    if leads:
        joined = conjunction + first.statement() + comma(d) + second.statement()
    else:
        joined = first.statement() + conjunction + second.statement()
    return joined, second.subject


def _first_subject(d: Draw, tenses: Weighted) -> NounPhrase:
    return person_subject(d, overt_yo=not _SAFE_FOR_YO.issuperset(tenses.names))


def coordination(d: Draw, extras: float = 0.6) -> tuple[Phrase, NounPhrase]:
    """Join two clauses of one tense with y or pero."""
    tenses = d.pick((NOW, HABIT, PAST, FUTURE, HABIT))
    first = clause(d, Request(tenses, _first_subject(d, tenses), extras, 0.05), 0.15)
    contrast = d.chance(0.35)
    subject: NounPhrase
    if contrast:
        subject = next_subject(d, first.subject, tenses, 0.5)
    else:
        subject = shared_or_new(d, first.subject, tenses)
    second = clause(d, Request(tenses, subject, extras, 0.05), 0.3 if contrast else 0.1)
    if contrast:
        joint = comma(d) + d.word("pero", "but")
    elif subject.es or subject.drop:
        joint = comma(d) + d.word("y", "and")
    else:
        joint = d.word("y", "and")
    return first.statement() + joint + second.statement(), second.subject


def shared_or_new(d: Draw, before: NounPhrase, tenses: Weighted) -> NounPhrase:
    """Return the subject after y: unsaid where it is the same, new otherwise."""
    if before.vague or d.chance(0.5):
        subject = new_subject(d, before, tenses)
        if not subject.drop or subject.person != before.person:
            return subject
    return elided(before)


class Reporting(NamedTuple):
    """A verb that takes a clause with que."""

    es: spanish.Paradigm
    en: english.Verb


def _reporting(*verbs: tuple[str, str, str]) -> tuple[Reporting, ...]:
    return tuple(
        Reporting(spanish.conjugate(es, marks), english.verb(en)) for es, marks, en in verbs
    )


_DECIR = "e>i yo=digo pret=dij fut=dir part=dicho tú=di"
_SABER = "pres=sé,sabes,sabe,sabemos,sabéis,saben pret=sup fut=sabr"
_SAYING = _reporting(
    ("decir", _DECIR, "say"), ("decir", _DECIR, "say"), ("pensar", "e>ie", "think"),
    ("creer", "", "believe"), ("saber", _SABER, "know"), ("recordar", "o>ue", "remember"),
    ("entender", "e>ie", "understand"),
)  # fmt: skip
_SAID = _reporting(("decir", _DECIR, "say"), ("explicar", "", "explain"))
WONDERING = _reporting(("preguntar", "", "ask"))
_WISHING = _reporting(
    ("querer", "e>ie", "want"), ("querer", "e>ie", "want"), ("necesitar", "", "need"),
    ("esperar", "", "hope"),
)  # fmt: skip


def reported(d: Draw, extras: float = 0.5) -> tuple[Phrase, NounPhrase]:
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
    inner = clause(d, Request(tenses, next_subject(d, subject, tenses), extras), states)
    joined = told.statement() + d.word("que", "that") + inner.statement()
    return joined, inner.subject


def wished(d: Draw) -> tuple[Phrase, NounPhrase]:
    """Say what someone wants another to do: que + subjunctive, an English infinitive."""
    subject = person_subject(d)
    verb = d.pick(_WISHING)
    group = verb_group(d, *verb, "pres", subject, stative=True)
    wish = Clause(subject, subject.es, group, "pres")
    if d.chance(0.15) and verb.en.base != "hope":
        wish.negate(d)
    other = person_subject(d, overt_yo=True)
    while other.person == subject.person and (other.drop or other.person < 2):
        other = person_subject(d, overt_yo=True)
    inner = action(d, Request(WISHED, other, 0.5, negation=0.0, verbs=SUBJUNCTIVE_VERBS))
    que = d.link()
    es = [*wish.statement().es, ("que", que), *inner.statement().es]
    if verb.en.base == "hope":
        en = [*wish.statement().en, ("that", que), *inner.statement().en]
        return Phrase(es, en), other
    object_words = other.en
    if len(other.en) == 1 and other.noun is None and other.en[0][0] == other.subject_pronoun():
        object_words = [(other.object_pronoun(), other.en[0][1])]
    _, *rest = inner.group.marked
    to = [("to", que)]
    en = [*wish.statement().en, *object_words, *to, *inner.en_adverb, *rest, *inner.en_after]
    return Phrase(es, en), other


_WITH_INFINITIVE = (
    ("para", "to", False),
    ("para", "to", False),
    ("antes de", "before", True),
    ("después de", "after", True),
    ("sin", "without", True),
)


def with_infinitive(d: Draw, extras: float = 0.2) -> tuple[Phrase, NounPhrase]:
    """Add a purpose or an infinitive of time to an action."""
    tenses = d.pick((MAIN, PAST, HABIT))
    main = action(d, Request(tenses, _first_subject(d, tenses), extras, 0.06))
    es, en, gerund = d.pick(_WITH_INFINITIVE)
    return (
        main.statement() + d.word(es, en) + infinitive(d, main.subject, gerund),
        main.subject,
    )


def relative(d: Draw, head: NounPhrase) -> Phrase:
    """Return a relative clause about a noun phrase."""
    tenses = d.pick((HABIT, PAST, PAST))
    if d.chance(0.5) and not head.human:
        inner = _object_relative(d, head, tenses)
        if inner is not None:
            return inner
    acts = subject_tag(head) in BY_SUBJECT
    if not acts or (head.human and d.chance(0.25)):
        tenses = NOW
    who = d.link()
    gap = replace(
        head,
        es=[("que", who)],
        en=[("who" if head.human else "that", who)],
        link=who,
        relative=True,
    )
    share = 1.0 if not acts else 0.45 if tenses is NOW else 0.0
    return clause(d, Request(tenses, gap, 0.35, 0.06), share).statement()


def _taking() -> dict[str, tuple[Verb, ...]]:
    """Return, for each noun by its Spanish singular, the verbs that take it as an object."""
    index: dict[str, list[Verb]] = {}
    for verb in VERBS:
        if "noclit" in verb.tags or verb.stative or verb.recipient or verb.where:
            continue
        for target in verb.objects:
            if not isinstance(target, tuple) and not target.mass:
                index.setdefault(target.es[0], []).append(verb)
    return {noun: tuple(verbs) for noun, verbs in index.items()}


TAKING = _taking()


def _object_relative(d: Draw, head: NounPhrase, tenses: Weighted) -> Phrase | None:
    verbs = TAKING.get(head.noun.es[0], ()) if head.noun is not None else ()
    if not verbs:
        return None
    subject = person_subject(d)
    if subject.person == spanish.NOSOTROS and tenses is PAST:
        return None
    inner = action(d, Request(tenses, subject, 0.2, negation=0.0, gap=True, verbs=(d.pick(verbs),)))
    that = d.link()
    es = inner.inverted() if len(inner.es_subject) < 3 else inner.statement().es
    return Phrase([("que", that), *es], [("that", that), *inner.statement().en])


def with_relative(d: Draw, extras: float = 0.5) -> tuple[Phrase, NounPhrase]:
    """Build a clause whose subject or object has a relative clause."""
    tag = d.pick(("hum", "hum", "hum", "animal", "vehicle", "read"))
    head = noun_phrase(d, d.pick(tagged(tag)), "definite", modify=0.1)
    modifier = relative(d, head)
    tenses = d.pick((MAIN, HABIT, PAST))
    long_subject = replace(head, es=head.es + modifier.es, en=head.en + modifier.en)
    if subject_tag(head) in BY_SUBJECT and d.chance(0.7):
        main = clause(d, Request(tenses, long_subject, extras, 0.08), 0.35)
    else:
        main = state(d, Request(NOW, long_subject, extras, 0.08))
    return main.statement(), head


def with_object_relative(d: Draw) -> tuple[Phrase, NounPhrase]:
    """Build a clause whose object has a relative clause."""
    while True:
        main = action(d, Request(d.pick((MAIN, PAST)), extras=0.0, negation=0.05))
        thing = main.object
        ready = thing is not None and thing.noun is not None and not thing.noun.mass
        if thing is not None and ready and main.es_after[-len(thing.es) :] == thing.es:
            inner = relative(d, thing)
            return main.statement() + inner, main.subject


def with_clitic(d: Draw) -> tuple[Phrase, NounPhrase]:
    """Do two things to one object, the second time as a clitic."""
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
        clitic = ("la" if thing.feminine else "lo") + ("s" if thing.plural else "")
        second.es_before.append((clitic, link))
        second.en_after.insert(0, (thing.object_pronoun(), link))
        return first.statement() + d.word("y", "and") + second.statement(), first.subject


def fronted_object(d: Draw) -> tuple[Phrase, NounPhrase]:
    """Put the object first, doubled by a clitic: "este libro lo escribió mi padre"."""
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
        clitic = ("la" if thing.feminine else "lo") + ("s" if thing.plural else "")
        inner.es_before.append((clitic, thing.link))
        inner.en_after[:0] = thing.en
        return Phrase(thing.es + inner.inverted(), inner.statement().en), subject
