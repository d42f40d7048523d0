"""Relative clauses, and two clauses that share an object."""

from __future__ import annotations

from dataclasses import replace

from . import spanish
from .actions import FUTURE, HABIT, MAIN, PAST, Request, action, verbs_of
from .lexicon import VERBS, Entry, Verb, tagged
from .linking import NOW, clause
from .noun_phrase import NounPhrase, elided
from .people import person_subject
from .phrases import noun_phrase
from .states import state
from .tokens import Draw, Phrase, Weighted


def relative(d: Draw, head: NounPhrase, avoid: Verb | None = None) -> Phrase:
    """Return a relative clause about a noun phrase, with another verb than `avoid`."""
    tenses = d.pick((HABIT, PAST, PAST))
    if d.chance(0.5) and not head.human:
        inner = _object_relative(d, head, tenses, avoid)
        if inner is not None:
            return inner
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
    return clause(d, Request(tenses, gap, 0.35, 0.06, verbs=verbs), share).statement()


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
        return first.statement() + d.word("y", "and") + second.statement()


def fronted_object(d: Draw) -> Phrase:
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
        return Phrase(thing.es + inner.inverted(), inner.statement().en)
