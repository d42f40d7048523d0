"""Comparatives and superlatives."""

from __future__ import annotations

from .actions import Request
from .clauses import Clause
from .copulas import BY_LETTER, DESCRIBED, NOUNS_BY_LETTER, adjective, copula, person_of
from .lexicon import Adjective, Noun
from .noun_phrase import NounPhrase
from .phrases import name, noun_phrase
from .tokens import Draw, Phrase, Tokens

_COMPARABLE = {
    letter: tuple(a for a in found if a.gradable and a.ser) for letter, found in BY_LETTER.items()
}


def comparison(d: Draw, request: Request, tense: str) -> Clause:
    """Compare two people or two things."""
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
    """Return "Ana es más alta que Juan" and its like."""
    quality = d.pick(_COMPARABLE[letter])
    clause = copula(d, subject, tense, quality)
    degree, en_degree, than, en_than = d.pick(_PATTERNS)
    first, link, last = d.link(), d.link(), d.link()
    form = quality.agree(subject.feminine, subject.plural)
    irregular = quality.forms[0] in _BETTER and degree == "más"
    if irregular:
        form = _BETTER[quality.forms[0]] + ("es" if subject.plural else "")
        clause.es_after.append((form, first | link))
    else:
        clause.es_after += [(degree, first), (form, link)]
    if degree == "más" and quality.grades is not None:
        clause.en_after.append((quality.grades[0], first | link))
    else:
        clause.en_after += [(en_degree, first), (quality.en, link)]
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


def _ranked(d: Draw, noun: Noun, adjective: Adjective) -> Phrase:
    """Return "el chico más alto de la clase" / "the tallest boy in the class"."""
    article, first, link, head = d.link(), d.link(), d.link(), d.link()
    es_article = "la" if noun.feminine and "el" not in noun.tags else "el"
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
    letter: tuple(n for n in NOUNS_BY_LETTER[letter] if not n.mass and not n.plural_only
                  and "kin" not in n.tags and "room" not in n.tags)
    for letter in _GROUPS_OF
}  # fmt: skip


def superlative(d: Draw, request: Request, tense: str) -> Clause:
    """Say who or what is the most of a group."""
    if request.subject is None and d.chance(0.55):
        letter = d.pick(tuple(_GROUPS_OF)[1:])
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
