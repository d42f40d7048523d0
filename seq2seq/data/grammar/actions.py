"""Clauses about what someone does: a lexical verb with its objects and adverbials."""

from __future__ import annotations

from dataclasses import dataclass, replace

from . import adverbials, english, spanish
from .clauses import Clause
from .lexicon import PERIPHRASES, PERIPHRASIS_WEIGHTS, VERBS, Entry, Noun, Periphrasis, Verb, tagged
from .people import person_subject, someone
from .phrases import NounPhrase, noun_phrase, proper
from .tokens import Draw, Phrase, Token, Tokens, Weighted
from .verb_groups import AMBIGUOUS, VerbGroup, led_group, verb_group

MAIN = Weighted.parse("pres 36 pret 26 modal 14 fut 7 perf 7 prog 5 imp 4 pprog 1")
PAST = Weighted.parse("pret 1")
FUTURE = Weighted.parse("fut 3 modal 1")
PRESENT = Weighted.parse("pres 7 prog 1 perf 2")
HABIT = Weighted.parse("pres 1")
EARLIER = Weighted.parse("plup 1")
BACKGROUND = Weighted.parse("was 1")
WISHED = Weighted.parse("subj 1")

_STATIVE_TENSE = {
    "prog": "pres", "pret": "imp", "pprog": "imp", "perf": "pres", "plup": "imp",
    "modal": "pres", "was": "imp",
}  # fmt: skip
_REFLEXIVE = ("me", "te", "se", "nos", "os", "se")
_CLITICS = ("me", "te", "", "nos")
_CLITIC_ENGLISH = ("me", "you", "", "us")
_PLACES_TO_PUT = tagged("surface", "inside")


def _by_subject() -> dict[str, tuple[Verb, ...]]:
    tags = sorted({tag for verb in VERBS for tag in verb.subjects})
    return {tag: tuple(v for v in VERBS if tag in v.subjects) for tag in tags}


BY_SUBJECT = _by_subject()


@dataclass(frozen=True)
class Request:
    """What a clause has to be.

    `extras` scales how many adverbials it gets; `gap` leaves its direct object out (for a
    question or a relative clause); `verbs` limits the verbs.
    """

    tenses: Weighted = MAIN
    subject: NounPhrase | None = None
    extras: float = 1.0
    negation: float = 0.12
    vague: bool = False
    gap: bool = False
    front: bool = False
    verbs: tuple[Verb, ...] = VERBS


def subject_tag(subject: NounPhrase) -> str:
    """Return the tag that says which verbs a subject can have."""
    if subject.human:
        return "hum"
    noun = subject.noun
    if noun is None:
        return ""
    return next((tag for tag in BY_SUBJECT if tag in noun.tags), "")


def _tense(d: Draw, request: Request, verb: Verb) -> str:
    tense = request.tenses.draw(d)
    if verb.tenses and tense not in verb.tenses:
        tense = verb.tenses[0]
    if verb.stative:
        return _STATIVE_TENSE.get(tense, tense)
    if tense == "prog" and "noprog" in verb.tags:
        return "perf"
    return tense


def _choose_periphrasis(d: Draw) -> tuple[Periphrasis, str]:
    periphrasis = PERIPHRASES[int(PERIPHRASIS_WEIGHTS.draw(d))]
    return periphrasis, d.pick(periphrasis.tenses)


_TO_COME = frozenset({"want", "can", "be", "have", "should", "need", "hope", "promise"})


def _time_key(tense: str, periphrasis: Periphrasis | None) -> str:
    if periphrasis is None:
        return tense
    if tense == "pres":
        has_future = periphrasis.en.base in _TO_COME and periphrasis.en_form == "base"
        return "modal" if has_future else ""
    return tense if tense in ("pret", "fut") else ""


def action(d: Draw, request: Request) -> Clause:
    """Build a clause around a lexical verb."""
    if request.subject is None:
        verb = d.pick(request.verbs)
        tag = verb.subjects[0] if d.chance(0.75) else d.pick(verb.subjects)
    else:
        tag = subject_tag(request.subject)
        verb = d.pick(BY_SUBJECT[tag] if request.verbs is VERBS else request.verbs)
    return _build(d, request, verb, tag)


def _build(d: Draw, request: Request, verb: Verb, tag: str) -> Clause:
    tense = _tense(d, request, verb)
    periphrasis = None
    if tense == "modal":
        if tag != "hum":
            tense = "pres"
        else:
            periphrasis, tense = _choose_periphrasis(d)
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
        overt_yo=tense in AMBIGUOUS,
        vosotros=periphrasis is not None or tense in ("perf", "prog"),
        vague=request.vague,
    )


def _add_frequency(d: Draw, clause: Clause, verb: Verb, key: str) -> None:
    if verb.stative or clause.subject.vague:
        adverb: Phrase | None = d.word("también", "also") if not clause.subject.vague else None
    elif key in ("pres", "imp") and d.chance(0.25):
        adverb = d.word("nunca", "never")
    else:
        adverb = adverbials.frequency(d, key)
    if adverb is not None:
        clause.es_before[:0] = adverb.es
        clause.en_adverb += adverb.en


def _add_adverbials(d: Draw, clause: Clause, verb: Verb, request: Request, key: str) -> None:
    subject = clause.subject
    if verb.manners and d.chance(0.3 * request.extras):
        clause.add(adverbials.manner(d, verb))
    if verb.places and d.chance(0.35 * request.extras):
        clause.add(adverbials.place(d, d.pick(verb.places), subject))
    needs_past = (
        clause.tense == "pret" and subject.person == spanish.NOSOTROS and verb.past_like_present
    )
    when: Phrase | None = None
    if needs_past:
        when = adverbials.past_time(d)
    elif not (verb.stative and key in ("pres", "imp")) and d.chance(0.3 * request.extras):
        when = adverbials.time(d, key)
    if when is None or (clause.en_adverb and key in ("pres", "imp")):
        return
    if request.front and subject.es and d.chance(0.35):
        link = d.link()
        clause.fronted = when + Phrase([(",", link)], [(",", link)])
    else:
        clause.add(when)


def _complete(d: Draw, clause: Clause, verb: Verb, request: Request, negated: bool) -> None:
    """Add the reflexive, the objects and the complement."""
    subject = clause.subject
    if verb.reflexive:
        _add_clitics(d, clause, [(_REFLEXIVE[subject.person], clause.group.es[-1][1])])
    has_object = bool(verb.objects or verb.human) and not request.gap
    if has_object and not (verb.object_optional and d.chance(0.4)):
        _add_object(d, clause, verb, negated)
    if verb.where:
        spot = noun_phrase(d, d.pick(_PLACES_TO_PUT), "place", owner=subject, modify=0.1)
        inside = spot.noun is not None and "inside" in spot.noun.tags
        clause.add(d.word("en", "in" if inside else "on") + spot.phrase())
    c = verb.complement
    if c is not None and not (c.optional and d.chance(0.45)):
        clause.add(adverbials.complement(d, c, subject, someone(d, subject)))


def _add_clitics(d: Draw, clause: Clause, clitics: Tokens) -> None:
    """Put clitics before the verb, or onto the infinitive where the verb allows it."""
    verb, group = clause.verb, clause.group
    tags = verb.tags if verb is not None else frozenset()
    if group.infinitive_last and ("encr" in tags or ("enc" in tags and d.chance(0.6))):
        word, mask = group.es[-1]
        for _, link in clitics:
            mask |= link
        group.es[-1] = (spanish.enclitic(word, tuple(c for c, _ in clitics)), mask)
    else:
        clause.es_before += clitics


def _add_object(d: Draw, clause: Clause, verb: Verb, negated: bool) -> None:
    choice = d.random()
    with_recipient = bool(verb.recipient) and not (verb.recipient_optional and d.chance(0.5))
    person = verb.human and (not verb.objects or d.chance(0.5))
    if person:
        _add_person(d, clause, choice)
        return
    if choice < 0.05 and verb.objects and not verb.stative and not with_recipient:
        en = "anything" if negated else "something"
        clause.add(d.word("nada" if negated else "algo", en))
        return
    if choice < 0.17 and "noclit" not in verb.tags and not isinstance(verb.objects[0], Entry):
        _add_thing_clitic(d, clause, with_recipient, verb)
        return
    target = d.pick(verb.objects)
    thing = _thing(d, target, clause.subject, negated)
    clause.object = thing
    if with_recipient:
        _add_recipient(d, clause, verb, thing)
    else:
        clause.add(thing.phrase())


def _thing(d: Draw, target: Noun | Entry, owner: NounPhrase, negated: bool) -> NounPhrase:
    """Return a thing as the object of a verb."""
    if isinstance(target, Entry):
        return proper(d, target)
    tags = target.tags
    if "language" in tags or "subject" in tags:
        return noun_phrase(d, target, kind="bare", modify=0)
    if "instrument" in tags or "sport" in tags:
        thing = noun_phrase(d, target, kind="def", modify=0)
        if "sport" in tags:
            thing.es[0] = (thing.es[0][0], thing.link)
            thing.en = thing.en[1:]
        return thing
    use = "place" if target.letter == "L" else "object"
    return noun_phrase(d, target, use, owner=owner, negated=negated)


def _add_person(d: Draw, clause: Clause, choice: float) -> None:
    """Add a person as the direct object."""
    subject = clause.subject
    verb = clause.verb
    bare_clitic = verb is not None and "noclit" not in verb.tags
    if choice < 0.2 and bare_clitic:
        clitic = _speaker(d, subject)
        if clitic is not None:
            _add_clitics(d, clause, clitic.es)
            clause.en_after += clitic.en
            return
    if choice < 0.3 and bare_clitic:
        feminine, many = d.chance(0.5), d.chance(0.4)
        link = d.link()
        es = ("la" if feminine else "lo") + ("s" if many else "")
        en = "them" if many else "her" if feminine else "him"
        _add_clitics(d, clause, [(es, link)])
        clause.en_after.append((en, link))
        if verb is not None and verb.objects and not many:
            # lo/la alone would be "it" with a verb that takes things too
            clause.es_after += [("a", link), ("ella" if feminine else "él", link)]
        return
    noun_part = someone(d, subject)
    if noun_part.es[0][0] in ("él", "ella"):
        link = noun_part.link
        _add_clitics(d, clause, [("la" if noun_part.feminine else "lo", link)])
    clause.es_after += [("a", noun_part.link), *noun_part.es]
    clause.en_after += noun_part.en


def _speaker(d: Draw, subject: NounPhrase) -> Phrase | None:
    """Return me, te or nos, if the subject does not include them."""
    person = d.pick((0, 0, 1, 3))
    group = {english.I: "us", english.WE: "us", english.YOU: "you", english.YOU_ALL: "you"}
    mine = "you" if person == 1 else "us"
    if group.get(subject.en_person) == mine:
        return None
    link = d.link()
    return Phrase([(_CLITICS[person], link)], [(_CLITIC_ENGLISH[person], link)])


def _add_thing_clitic(d: Draw, clause: Clause, with_recipient: bool, verb: Verb) -> None:
    feminine, many = d.chance(0.5), d.chance(0.35)
    link = d.link()
    it: Token = (("la" if feminine else "lo") + ("s" if many else ""), link)
    en: Token = ("them" if many else "it", link)
    if not with_recipient:
        _add_clitics(d, clause, [it])
        clause.en_after.append(en)
        return
    speaker = _speaker(d, clause.subject) if d.chance(0.5) else None
    if speaker is not None:
        _add_clitics(d, clause, [*speaker.es, it])
        clause.en_after += [en, ("to", speaker.es[0][1]), *speaker.en]
        return
    to = d.link()
    person = someone(d, clause.subject)
    _add_clitics(d, clause, [("se", to), it])
    clause.es_after += [("a", to), *person.es]
    clause.en_after += [en, ("to", to), *person.en]


def _add_recipient(d: Draw, clause: Clause, verb: Verb, thing: NounPhrase) -> None:
    speaker = _speaker(d, clause.subject) if d.chance(0.4) else None
    if speaker is not None:
        _add_clitics(d, clause, speaker.es)
        clause.es_after += thing.es
        if verb.recipient == "rec":
            clause.en_after += [*speaker.en, *thing.en]
        else:
            clause.en_after += [*thing.en, ("to", speaker.en[0][1]), *speaker.en]
        return
    to = d.link()
    person = someone(d, clause.subject)
    _add_clitics(d, clause, [("les" if person.person == spanish.ELLOS else "le", to)])
    clause.es_after += [*thing.es, ("a", to), *person.es]
    clause.en_after += [*thing.en, ("to", to), *person.en]


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
