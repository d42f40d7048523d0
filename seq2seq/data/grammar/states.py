"""Clauses about how things are: copulas, possession idioms, liking, hurting and existence."""

from __future__ import annotations

from . import english, spanish
from .actions import Request, action, infinitive
from .clauses import Clause
from .lexicon import (
    ADJECTIVES,
    NOUNS,
    NUMBERS,
    Adjective,
    Entry,
    Noun,
    tagged,
)
from .people import person_subject, pronoun
from .phrases import NounPhrase, name, noun_phrase
from .tokens import Draw, Phrase, Tokens, Weighted
from .verb_groups import AMBIGUOUS, BE, ESTAR, SER, verb_group

_TENSES = {"pret": "imp", "prog": "pres", "modal": "pres", "perf": "pres", "pprog": "imp",
           "plup": "imp", "was": "imp"}  # fmt: skip
_DEGREES = (Entry("muy", "very"), Entry("muy", "very"), Entry("bastante", "quite"),
            Entry("demasiado", "too"), Entry("tan", "so"))  # fmt: skip
_DESCRIBED = tuple(n for n in NOUNS if n.letter and "instrument" not in n.tags)
_BY_LETTER = {
    letter: tuple(a for a in ADJECTIVES if letter in a.letters and not a.only_prenominal)
    for letter in sorted({n.letter for n in _DESCRIBED})
}
_NOUNS_BY_LETTER = {
    letter: tuple(n for n in _DESCRIBED if n.letter == letter) for letter in _BY_LETTER
}
_COMPARABLE = {
    letter: tuple(a for a in found if a.gradable and a.ser) for letter, found in _BY_LETTER.items()
}
_JOBS = {
    feminine: tuple(n for n in tagged("job") if n.feminine == feminine)
    for feminine in (False, True)
}
_TENER = spanish.conjugate("tener", "e>ie yo=tengo pret=tuv fut=tendr")
_FEELINGS = (
    ("hambre", "hungry", True), ("sed", "thirsty", True), ("frío", "cold", False),
    ("calor", "hot", False), ("sueño", "sleepy", False), ("miedo", "afraid", False),
    ("razón", "right", None), ("prisa", "in a hurry", None), ("suerte", "lucky", True),
)  # fmt: skip
_AGES = tuple(n for n in NUMBERS if n.es not in ("dos", "tres", "cien"))
_LOCATIONS = (
    Entry("en", "on"), Entry("en", "in"), Entry("debajo de", "under"),
    Entry("detrás de", "behind"), Entry("delante de", "in front of"),
    Entry("cerca de", "near"), Entry("al lado de", "next to"), Entry("dentro de", "inside"),
    Entry("lejos de", "far from"),
)  # fmt: skip
_THINGS = tagged("thing", "cloth", "animal", "food", "read")
_SURFACES = tagged("surface")
_INSIDES = tagged("inside")
_SOLID = tagged("furniture", "vehicle", "device", "fixture")
_PLACES = tagged("building", "room", "outdoor")
_BODY = tagged("body")
_LIKING = (
    (spanish.conjugate("gustar"), english.verb("like")),
    (spanish.conjugate("gustar"), english.verb("like")),
    (spanish.conjugate("encantar"), english.verb("love")),
    (spanish.conjugate("interesar"), english.verb("be interested in")),
)
_DOLER = (spanish.conjugate("doler", "o>ue"), english.verb("hurt"))
_COSTAR = (spanish.conjugate("costar", "o>ue"), english.verb("cost"))
_LLAMAR = (spanish.conjugate("llamar"), english.verb("be called"))
_LIKED = tagged(
    "food", "drink", "animal", "read", "cloth", "vehicle", "event", "subject", "language",
    "sport", "instrument", "device",
)  # fmt: skip
_DATIVES = ("me", "te", "le", "nos", "os", "les")
_INTEREST = tagged("subject", "language", "read", "sport", "event")
_KINDS = Weighted.parse(
    "adjective 34 job 6 location 13 comparison 11 superlative 5 feeling 13 liking 22 pain 4"
    " cost 3 called 2"
)
_RELATIVE_KINDS = Weighted.parse("adjective 55 feeling 30 job 15")
_PERSON_KINDS = Weighted.parse("adjective 40 feeling 22 liking 26 job 5 comparison 7")


def state(d: Draw, request: Request) -> Clause:
    """Build a clause about a state, or, for a subject with no state to choose, an action."""
    tense = request.tenses.draw(d)
    tense = _TENSES.get(tense, tense)
    subject = request.subject
    if subject is not None and not subject.human:
        if subject.noun is None or subject.noun.letter not in _BY_LETTER:
            return action(d, request)
        return _adjective(d, request, tense)
    if subject is None:
        kind = _KINDS.draw(d)
    else:
        kind = (_RELATIVE_KINDS if subject.relative else _PERSON_KINDS).draw(d)
    return _BUILDERS[kind](d, request, tense)


def _maybe_negate(d: Draw, clause: Clause, request: Request) -> Clause:
    if d.chance(request.negation) and not clause.subject.vague:
        clause.negate(d)
    return clause


def _person(d: Draw, request: Request, tense: str) -> NounPhrase:
    if request.subject is not None:
        return request.subject
    return person_subject(d, overt_yo=tense in AMBIGUOUS, vague=False)


def _adjective(d: Draw, request: Request, tense: str) -> Clause:
    subject = request.subject
    if subject is None:
        if d.chance(0.5):
            subject = _person(d, request, tense)
            letter = "P"
        else:
            letter = d.pick(tuple(_BY_LETTER))
            subject = noun_phrase(
                d,
                d.pick(_NOUNS_BY_LETTER[letter]),
                "definite" if d.chance(0.5) else "subject",
                modify=0.05,
            )
    noun = subject.noun
    letter = noun.letter if noun is not None and not subject.human else "P"
    adjective = d.pick(_BY_LETTER[letter])
    clause = _copula(d, subject, tense, adjective)
    link = d.link()
    degree = d.word(*d.pick(_DEGREES)) if adjective.gradable and d.chance(0.25) else None
    if degree is not None:
        clause.add(degree)
    clause.es_after.append((adjective.agree(subject.feminine, subject.plural), link))
    clause.en_after.append((adjective.en, link))
    if degree is None:
        _maybe_negate(d, clause, request)
    if not adjective.ser and clause.tense == "pres" and d.chance(0.12 * request.extras):
        clause.add(d.word("hoy", "today"))
    return clause


def _copula(d: Draw, subject: NounPhrase, tense: str, adjective: Adjective | None) -> Clause:
    verb = SER if adjective is None or adjective.ser else ESTAR
    group = verb_group(d, verb, BE, tense, subject, stative=True)
    return Clause(subject, subject.es, group, tense)


def _job(d: Draw, request: Request, tense: str) -> Clause:
    subject = _person(d, request, tense)
    clause = _copula(d, subject, tense, None)
    job = d.pick(_JOBS[subject.feminine])
    if subject.plural:
        link = d.link()
        clause.es_after.append((job.es[1], link))
        clause.en_after += [(w, link) for w in job.en[1].split()]
    elif d.chance(0.7):
        link = d.link()
        clause.es_after.append((job.es[0], link))
        clause.en_after += [("a", link), *((w, link) for w in job.en[0].split())]
    else:
        clause.add(noun_phrase(d, job, kind="indef", modify=1.0).phrase())
    return _maybe_negate(d, clause, request)


def _location(d: Draw, request: Request, tense: str) -> Clause:
    if d.chance(0.35):
        subject = _person(d, request, tense)
        clause = Clause(subject, subject.es, verb_group(d, ESTAR, BE, tense, subject, True), tense)
        target = d.pick(_PLACES)
        preposition = Entry("en", target.preposition)
        if d.chance(0.35):
            preposition = d.pick(_LOCATIONS[3:7])
    else:
        subject = noun_phrase(d, d.pick(_THINGS), "definite", modify=0.2)
        clause = Clause(subject, subject.es, verb_group(d, ESTAR, BE, tense, subject, True), tense)
        preposition = d.pick(_LOCATIONS)
        if preposition.en in ("in", "inside"):
            target = d.pick(_INSIDES)
        elif preposition.en in ("on", "under"):
            target = d.pick(_SURFACES)
        else:
            target = d.pick(_SOLID)
        if d.chance(0.2):
            target = d.pick(_PLACES[:30])
            preposition = Entry("en", target.preposition)
    clause.add(d.word(*preposition))
    clause.add(noun_phrase(d, target, "place", owner=subject, modify=0.15).phrase())
    return _maybe_negate(d, clause, request)


def _comparison(d: Draw, request: Request, tense: str) -> Clause:
    subject = request.subject
    if subject is None and d.chance(0.5):
        noun = d.pick(_DESCRIBED)
        if not noun.human and not noun.mass and _COMPARABLE.get(noun.letter):
            subject = noun_phrase(d, noun, "definite", modify=0.1)
            others = [n for n in _NOUNS_BY_LETTER[noun.letter] if n is not noun and not n.mass]
            other = noun_phrase(d, d.pick(others), "definite", modify=0.1)
            return _compared(d, subject, other, tense, noun.letter)
    subject = subject or _person(d, request, tense)
    if not subject.human:
        return _adjective(d, request, tense)
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
    adjective = d.pick(_COMPARABLE[letter])
    clause = _copula(d, subject, tense, adjective)
    degree, en_degree, than, en_than = d.pick(_PATTERNS)
    first, link, last = d.link(), d.link(), d.link()
    form = adjective.agree(subject.feminine, subject.plural)
    irregular = adjective.forms[0] in _BETTER and degree == "más"
    if irregular:
        form = _BETTER[adjective.forms[0]] + ("es" if subject.plural else "")
        clause.es_after.append((form, first | link))
    else:
        clause.es_after += [(degree, first), (form, link)]
    if degree == "más" and adjective.grades is not None:
        clause.en_after.append((adjective.grades[0], first | link))
    else:
        clause.en_after += [(en_degree, first), (adjective.en, link)]
    clause.es_after += [(than, last), *other.es]
    clause.en_after += [(en_than, last), *other.en]
    return clause


_BETTER = {"bueno": "mejor", "malo": "peor"}
_GROUPS_OF = {
    "P": ("clase", "familia", "pueblo", "ciudad", "escuela"),
    "L": ("ciudad", "país", "mundo", "pueblo"),
    "O": ("casa", "tienda", "mundo", "habitación"),
    "C": ("tienda", "casa", "mundo"),
    "V": ("ciudad", "mundo", "calle"),
    "R": ("biblioteca", "mundo", "casa"),
    "A": ("granja", "mundo", "casa"),
    "E": ("año", "mundo", "vida"),
    "F": ("mercado", "mundo", "casa"),
}
_GROUP_WORDS = {
    "clase": ("la", "in the", "class"), "familia": ("la", "in the", "family"),
    "pueblo": ("el", "in the", "village"), "ciudad": ("la", "in the", "city"),
    "escuela": ("la", "in the", "school"), "país": ("el", "in the", "country"),
    "mundo": ("el", "in the", "world"), "casa": ("la", "in the", "house"),
    "tienda": ("la", "in the", "store"), "habitación": ("la", "in the", "room"),
    "calle": ("la", "on the", "street"), "biblioteca": ("la", "in the", "library"),
    "granja": ("la", "on the", "farm"), "año": ("el", "of the", "year"),
    "mercado": ("el", "at the", "market"), "vida": ("mi", "of my", "life"),
}  # fmt: skip


def superlative(d: Draw, noun: Noun, adjective: Adjective) -> Phrase:
    """Return "el chico más alto de la clase" / "the tallest boy in the class"."""
    article, first, link, head = d.link(), d.link(), d.link(), d.link()
    es_article = ("el", "la")[noun.feminine]
    if adjective.forms[0] in _BETTER:
        form = _BETTER[adjective.forms[0]]
        es: Tokens = [(es_article, article), (form, first), (noun.es[0], head)]
    else:
        es = [
            (es_article, article), (noun.es[0], head), ("más", first),
            (adjective.agree(noun.feminine, False), link),
        ]  # fmt: skip
    if adjective.grades is not None:
        en = [("the", article), (adjective.grades[1], first | link)]
    else:
        en = [("the", article), ("most", first), (adjective.en, link)]
    en += [(w, head) for w in noun.en[0].split()]
    determiner, en_link, en_noun = _GROUP_WORDS[group := d.pick(_GROUPS_OF[noun.letter])]
    a, b, c = d.link(), d.link(), d.link()
    preposition, en_determiner = en_link.split()
    return Phrase(
        [*es, ("de", a), (determiner, b), (group, c)],
        [*en, (preposition, a), (en_determiner, b), (en_noun, c)],
    )


_SUPERLATIVE_NOUNS = {
    letter: tuple(n for n in _NOUNS_BY_LETTER[letter] if not n.mass and not n.plural_only
                  and "kin" not in n.tags and "room" not in n.tags)
    for letter in _GROUPS_OF
}  # fmt: skip


def _superlative(d: Draw, request: Request, tense: str) -> Clause:
    if request.subject is None and d.chance(0.55):
        letter = d.pick(tuple(_GROUPS_OF)[1:])
        noun = d.pick(_SUPERLATIVE_NOUNS[letter])
        subject = _this(d, feminine=noun.feminine)
    else:
        subject = _person(d, request, tense)
        if subject.plural:
            return _adjective(d, request, tense)
        noun = d.pick([n for n in _SUPERLATIVE_NOUNS["P"] if n.feminine == subject.feminine])
    clause = _copula(d, subject, tense, None)
    clause.add(superlative(d, noun, d.pick(_COMPARABLE[noun.letter])))
    return clause


def _this(d: Draw, feminine: bool) -> NounPhrase:
    link = d.link()
    near = d.chance(0.6)
    es = ("esta" if feminine else "este") if near else ("esa" if feminine else "ese")
    return NounPhrase(
        [(es, link)], [("this" if near else "that", link)], 2, 2, feminine, link, human=False
    )


def _feeling(d: Draw, request: Request, tense: str) -> Clause:
    subject = _person(d, request, tense)
    group = verb_group(d, _TENER, BE, tense, subject, stative=True)
    clause = Clause(subject, subject.es, group, tense)
    if d.chance(0.25):
        number = d.pick(_AGES)
        clause.add(d.word(*number))
        link = d.link()
        clause.es_after.append(("años", link))
        clause.en_after += [("years", link), ("old", link)]
        return _maybe_negate(d, clause, request)
    word, en, feminine = d.pick(_FEELINGS)
    if feminine is not None and d.chance(0.25):
        clause.add(d.word("mucha" if feminine else "mucho", "very"))
        clause.add(d.word(word, en))
        return clause
    clause.add(d.word(word, en))
    if word == "miedo" and d.chance(0.5):
        clause.add(d.word("de", "of"))
        clause.add(noun_phrase(d, d.pick(tagged("animal", "event")), "definite").phrase())
    return _maybe_negate(d, clause, request)


def _dative(person: NounPhrase, verb_link: int) -> tuple[Tokens, Tokens]:
    """Return "a María" (or nothing) and the clitic of the one who likes or feels."""
    if person.drop:
        return [], [(_DATIVES[person.person], person.drop)]
    if person.es and person.es[0][0] in ("yo", "tú"):
        word = {"yo": "mí", "tú": "ti"}[person.es[0][0]]
        es = [("a", person.link), (word, person.link)]
    elif person.es:
        es = [("a", person.link), *person.es]
    else:
        es = []
    return es, [(_DATIVES[person.person], person.link or verb_link)]


def _liking(d: Draw, request: Request, tense: str) -> Clause:
    tense = tense if tense in ("pres", "imp", "subj") else "pres"
    person = _person(d, request, "pres")
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
    return _maybe_negate(d, clause, request)


def _pain(d: Draw, request: Request, tense: str) -> Clause:
    tense = tense if tense in ("pres", "imp") else "pres"
    person = _person(d, request, "pres")
    if person.plural or person.vague or person.drop == 0 and len(person.es) > 1:
        person = pronoun(d, d.pick(("yo", "tú")), overt=False) if d.chance(0.5) else name(d)
    part = d.pick(_BODY)
    plural = part.en[0] in ("foot", "tooth", "eye", "leg", "arm", "knee") and d.chance(0.6)
    link, owner = d.link(), d.link()
    article = (("el", "la"), ("los", "las"))[plural][part.feminine]
    named = bool(person.es) and person.es[0][0][0].isupper()
    owner_en = person.en[0][0] + "'s" if named else person.possessive()
    subject = NounPhrase(
        [], [(owner_en, owner | person.link), (part.en[plural], link)], 5 if plural else 2,
        5 if plural else 2, part.feminine, human=False, vague=True,
    )  # fmt: skip
    group = verb_group(d, *_DOLER, tense, subject, stative=True)
    es_person, clitic = _dative(person, group.es[0][1])
    clause = Clause(subject, es_person, group, tense, experiencer=True)
    clause.es_before += clitic
    clause.es_after += [(article, owner), (part.es[plural], link)]
    return _maybe_negate(d, clause, request)


def _cost(d: Draw, request: Request, tense: str) -> Clause:
    noun = d.pick(tagged("thing", "cloth", "furniture", "vehicle"))
    subject = noun_phrase(d, noun, "definite", modify=0.25)
    group = verb_group(d, *_COSTAR, tense if tense != "subj" else "pres", subject, stative=True)
    clause = Clause(subject, subject.es, group, tense)
    if d.chance(0.5):
        clause.add(d.word(*d.pick(NUMBERS)))
    else:
        digits = str(10 * (1 + int(d.random() * 20)))
        clause.add(d.word(digits, digits))
    clause.add(d.word("euros", "euros"))
    return clause


def _called(d: Draw, request: Request, tense: str) -> Clause:
    noun = d.pick(tagged("kin", "pet"))
    subject = noun_phrase(d, noun, kind="poss", modify=0.1)
    if subject.plural:
        return _adjective(d, request, tense)
    tense = tense if tense in ("pres", "imp") else "pres"
    group = verb_group(d, *_LLAMAR, tense, subject, stative=True)
    clause = Clause(subject, subject.es, group, tense)
    clause.es_before.append(("se", group.es[0][1]))
    clause.add(name(d, noun.feminine).phrase())
    return clause


_BUILDERS = {
    "adjective": _adjective,
    "job": _job,
    "location": _location,
    "comparison": _comparison,
    "superlative": _superlative,
    "feeling": _feeling,
    "liking": _liking,
    "pain": _pain,
    "cost": _cost,
    "called": _called,
}
