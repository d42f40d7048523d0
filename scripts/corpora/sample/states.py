"""Clauses about how things are: copulas, feelings, liking, pain, prices, names and looks."""

from __future__ import annotations

from . import copulas, spanish
from .actions import Request, action, infinitive
from .clauses import Clause, stative_clause, verb_group
from .lexicon import ADJECTIVES, FEELINGS, NUMBERS, VerbPair, entries, tagged
from .noun_phrases import NounPhrase, article, name, noun_phrase, pronoun
from .tokens import Draw, Phrase, Tokens, Weighted

_TENSES = {"pret": "imp", "prog": "pres", "modal": "pres", "perf": "pres", "pprog": "imp",
           "plup": "imp", "was": "imp"}  # fmt: skip
_BE = VerbPair.of("tener", "be")
_HAVE = VerbPair.of("tener", "have")
_AGES = tuple(n for n in NUMBERS if n.es not in ("dos", "tres", "cien"))
_AMOUNTS = NUMBERS[11:]
_PRICES = ("5", "10", "12", "15", "20", "25", "30", "50", "100")
_BODY = tagged("body")
_LIKING = tuple(VerbPair.of(*verb) for verb in entries("liking"))
_HURT = VerbPair.of("doler", "hurt")
_COST = VerbPair.of("costar", "cost")
_BE_CALLED = VerbPair.of("llamar", "be called")
_LIKED = tagged(
    "food", "drink", "animal", "read", "cloth", "vehicle", "event", "subject", "language",
    "sport", "instrument", "device",
)  # fmt: skip
_INTEREST = tagged("subject", "language", "read", "sport", "event")
_KINDS = Weighted.parse(
    "adjective 34 job 6 location 12 comparison 11 superlative 5 feeling 13 liking 21 pain 14"
    " cost 11 called 2 origin 11 body 6 looks 4"
)
_RELATIVE_KINDS = Weighted.parse("adjective 50 feeling 26 job 10 origin 14")
_PASSING_KINDS = Weighted.parse("adjective 42 feeling 30 liking 28")
_PERSON_KINDS = Weighted.parse("adjective 40 feeling 22 liking 24 job 4 comparison 6 origin 4")


def state(d: Draw, request: Request) -> Clause:
    """Build a clause about a state, or about an action if the subject has no states."""
    tense = request.tenses.draw(d)
    tense = _TENSES.get(tense, tense)
    subject = request.subject
    if subject is not None and not subject.human:
        if subject.noun is None or subject.noun.letter not in copulas.BY_LETTER:
            return action(d, request)
        return copulas.adjective(d, request, tense)
    if subject is None:
        kind = _KINDS.draw(d)
    elif subject.relative:
        kind = _RELATIVE_KINDS.draw(d)
    else:
        kind = (_PASSING_KINDS if request.passing else _PERSON_KINDS).draw(d)
    return _BUILDERS[kind](d, request, tense)


def _feeling(d: Draw, request: Request, tense: str) -> Clause:
    subject = copulas.person_of(d, request)
    clause = stative_clause(d, _BE, tense, subject, compact=True)
    if not request.passing and d.chance(0.4):
        number = d.pick(_AGES)
        clause.add(d.word(*number) + d.word("años", "years old"))
        return copulas.maybe_negate(d, clause, request)
    (word, en), very = d.pick(FEELINGS)
    if very and d.chance(0.25):
        clause.add(d.word(very, "very"))
        clause.add(d.word(word, en))
        return clause
    clause.add(d.word(word, en))
    if word == "miedo" and d.chance(0.5):
        clause.add(d.word("de", "of"))
        clause.add(noun_phrase(d, d.pick(tagged("animal", "event")), "definite").phrase())
    return copulas.maybe_negate(d, clause, request)


def _dative(person: NounPhrase, verb_link: int) -> tuple[Tokens, Tokens]:
    """Return "a María" (or nothing) and the clitic of the one who likes or feels."""
    if person.drop:
        return [], [(spanish.DATIVES[person.person], person.drop)]
    if person.es and person.es[0][0] in ("yo", "tú"):
        word = {"yo": "mí", "tú": "ti"}[person.es[0][0]]
        es = [("a", person.link), (word, person.link)]
    elif person.es and person.es[-1][0] == "yo":  # "mi hermano y yo"
        *others, (_, link) = person.es
        es = [("a", person.link), *others, ("a", link), ("mí", link)]
    elif person.es:
        es = [("a", person.link), *person.es]
    else:
        es = []
    return es, [(spanish.DATIVES[person.person], person.link or verb_link)]


def _liking(d: Draw, request: Request, tense: str) -> Clause:
    tense = tense if tense in ("pres", "imp", "subj") else "pres"
    person = copulas.person_of(d, request)
    es, en = d.pick(_LIKING)
    interest = en.base == "be"
    by_action = not interest and d.chance(0.3)
    if by_action:
        thing, plural = infinitive(d, person, extras=0.2), False
    else:
        noun = d.pick(_INTEREST if interest else _LIKED)
        kind = "" if d.chance(0.45) else "def"
        found = noun_phrase(d, noun, "definite", kind=kind, modify=0.15)
        plural = found.plural
        generic = noun.mass or plural
        thing = found.phrase()
        if generic and thing.en[0][0] == "the":
            # los perros in general: English drops the article
            thing = Phrase([(thing.es[0][0], thing.en[1][1]), *thing.es[1:]], thing.en[1:])
    subject = NounPhrase([], person.en, 5 if plural else 2, person.en_person, person.feminine)
    group = verb_group(d, es, en, tense, subject, stative=True)
    es_person, clitic = _dative(person, group.es[0][1])
    clause = Clause(person, es_person, group, tense, experiencer=True)
    clause.es_before += clitic
    if by_action:
        link = thing.es[0][1]
        thing = Phrase(thing.es, [("to", link), *thing.en])
    clause.add(thing)
    return copulas.maybe_negate(d, clause, request)


def _pain(d: Draw, request: Request, tense: str) -> Clause:
    tense = tense if tense in ("pres", "imp") else "pres"
    person = copulas.person_of(d, request)
    if person.plural or person.vague or (not person.drop and len(person.es) > 1):
        person = pronoun(d, d.pick(("yo", "tú")), overt=False) if d.chance(0.5) else name(d)
    part = d.pick(_BODY)
    plural = part.en[0] in ("foot", "tooth", "eye", "leg", "arm", "knee") and d.chance(0.6)
    link, owner = d.link(), d.link()
    named = bool(person.es) and person.es[0][0][0].isupper()
    owner_en = person.en[0][0] + "'s" if named else person.pronoun("possessive")
    subject = NounPhrase(
        [], [(owner_en, owner | person.link), (part.en[plural], link)], 5 if plural else 2,
        5 if plural else 2, part.feminine, human=False, vague=True,
    )  # fmt: skip
    group = verb_group(d, *_HURT, tense, subject, stative=True)
    es_person, clitic = _dative(person, group.es[0][1])
    clause = Clause(subject, es_person, group, tense, experiencer=True)
    clause.es_before += clitic
    clause.es_after += [(article(part.feminine, plural), owner), (part.es[plural], link)]
    return copulas.maybe_negate(d, clause, request)


def _cost(d: Draw, request: Request, tense: str) -> Clause:
    noun = d.pick(tagged("thing", "cloth", "furniture", "vehicle"))
    subject = noun_phrase(d, noun, "definite", modify=0.25)
    clause = stative_clause(d, _COST, tense if tense != "subj" else "pres", subject)
    if d.chance(0.6):
        clause.add(d.word(*d.pick(_AMOUNTS)))
    else:
        digits = d.pick(_PRICES)
        clause.add(d.word(digits, digits))
    clause.add(d.word("euros", "euros"))
    return clause


def _called(d: Draw, request: Request, tense: str) -> Clause:
    noun = d.pick(tagged("kin", "pet"))
    subject = noun_phrase(d, noun, kind="poss", modify=0.1)
    if subject.plural:
        return copulas.adjective(d, request, tense)
    tense = tense if tense in ("pres", "imp") else "pres"
    clause = stative_clause(d, _BE_CALLED, tense, subject)
    clause.es_before.append(("se", clause.group.es[0][1]))
    clause.add(name(d, noun.feminine).phrase())
    return clause


# Reflexive verbs done to a part of one's own body, with the parts and the tenses.
_ON_BODY = (
    (VerbPair.of("lavar", "wash"), tagged("washed"), ("pres", "pret", "fut", "perf", "prog")),
    (VerbPair.of("lavar", "brush"), tagged("brushed"), ("pres", "pret", "fut", "perf", "prog")),
    (VerbPair.of("romper", "break"), tagged("limb"), ("pret", "perf")),
)


def _body(d: Draw, request: Request, tense: str) -> Clause:
    """Build "Ana se lava las manos" / "Ana washes her hands"."""
    verb, parts, tenses = d.pick(_ON_BODY)
    subject = copulas.person_of(d, request)
    part = d.pick(parts)
    plural = verb.en.base != "break" and part.en[0] != "head"
    tense = d.pick(tenses)
    if subject.person == spanish.NOSOTROS and tense == "pret":
        tense = "perf"
    group = verb_group(d, *verb, tense, subject, stative=False)
    clause = Clause(subject, subject.es, group, tense)
    link, owner = d.link(), d.link()
    clause.es_before.append((spanish.REFLEXIVES[subject.person], group.es[-1][1]))
    clause.es_after += [(article(part.feminine, plural), owner), (part.es[plural], link)]
    clause.en_after += [(subject.pronoun("possessive"), owner), (part.en[plural], link)]
    return copulas.maybe_negate(d, clause, request)


_EYE_COLORS = tuple(a for a in ADJECTIVES if a.en in ("blue", "green", "brown", "black"))
_LOOKED_AT = tagged("many")


def _looks(d: Draw, request: Request, tense: str) -> Clause:
    """Build "Ana tiene los ojos verdes" / "Ana has green eyes"."""
    subject = copulas.person_of(d, request)
    noun = d.pick(_LOOKED_AT)
    of_eyes = noun.en[0] == "eye" and d.chance(0.7)
    quality = d.pick(_EYE_COLORS if of_eyes else copulas.BY_LETTER["B"])
    tense = tense if tense in ("pres", "imp") else "pres"
    clause = stative_clause(d, _HAVE, tense, subject, compact=True)
    part, link = d.link(), d.link()
    form = quality.agree(noun.feminine, True)
    clause.es_after += [(article(noun.feminine, True), part), (noun.es[1], part), (form, link)]
    clause.en_after += [(quality.en, link), (noun.en[1], part)]
    return copulas.maybe_negate(d, clause, request)


_BUILDERS = {
    "adjective": copulas.adjective,
    "job": copulas.job,
    "location": copulas.location,
    "comparison": copulas.comparison,
    "superlative": copulas.superlative,
    "feeling": _feeling,
    "liking": _liking,
    "pain": _pain,
    "cost": _cost,
    "called": _called,
    "origin": copulas.origin,
    "body": _body,
    "looks": _looks,
}
