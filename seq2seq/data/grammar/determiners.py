"""Determiners: which ones a noun takes, and their forms."""

from __future__ import annotations

from . import english, spanish
from .lexicon import NUMBERS, Noun
from .noun_phrase import POSSESSIVES, NounPhrase
from .tokens import NOTHING, Draw, Phrase, Weighted

_DETERMINERS = {
    "subject": Weighted.parse("def 52 dem 18 poss 13 num 5 every 4 all 4 indef 4"),
    "object": Weighted.parse(
        "def 31 indef 22 poss 14 dem 10 num 7 bare 6 many 4 other 3 several 2 few 1"
    ),
    "food": Weighted.parse("def 36 indef 24 dem 12 num 10 bare 9 many 5 other 2 poss 2"),
    "person": Weighted.parse("def 58 dem 16 indef 8 num 7 all 4 every 3 many 4"),
    "kin": Weighted.parse("poss 84 name 16"),
    "place": Weighted.parse("def 76 dem 14 indef 6 other 4"),
    "mass": Weighted.parse("def 60 poss 12 dem 28"),
    "mass object": Weighted.parse("def 34 bare 42 poss 4 dem 8 many 8 little 4"),
    "plural": Weighted.parse("def 40 poss 35 dem 25"),
    "definite": Weighted.parse("def 68 dem 32"),
}
_COUNT = NUMBERS[:11]


def determiner_kind(d: Draw, noun: Noun, use: str) -> str:
    """Choose the kind of determiner of a noun that is a subject, an object or a place."""
    if noun.mass:
        key = "mass object" if use == "object" else "mass"
    elif noun.plural_only:
        key = "plural"
    elif "kin" in noun.tags:
        key = "kin"
    elif use in ("place", "definite") or "one" in noun.tags:
        key = "place" if use == "place" else "definite"
    elif noun.human:
        key = "person"
    else:
        key = "food" if use == "object" and noun.letter == "F" else use
    kind = _DETERMINERS[key].draw(d)
    wild = "animal" in noun.tags and "tame" not in noun.tags
    return "def" if wild and kind == "poss" else kind


_ARTICLES = {"def": ("el", "la", "los", "las"), "indef": ("un", "una", "unos", "unas")}
_DEMONSTRATIVES = {
    "this": ("este", "esta", "estos", "estas"),
    "that": ("ese", "esa", "esos", "esas"),
    "that there": ("aquel", "aquella", "aquellos", "aquellas"),
}
_QUANTIFIERS = {
    "many": (("mucho", "mucha", "muchos", "muchas"), "a lot of"),
    "several": (("", "", "varios", "varias"), "several"),
    "few": (("", "", "pocos", "pocas"), "few"),
    "little": (("poco", "poca", "", ""), "little"),
    "none": (("", "", "ningún", "ninguna"), "any"),
    "every": (("cada", "cada", "", ""), "every"),
}


def determiner(
    d: Draw, noun: Noun, kind: str, plural: bool, owner: NounPhrase | None, elide: bool
) -> Phrase:
    """Return the determiner of a kind; `elide` where the noun comes right after it."""
    at = noun.feminine + 2 * plural
    takes_el = elide and "el" in noun.tags and not plural
    if kind in ("def", "name"):
        return d.word("el" if takes_el else _ARTICLES["def"][at], "the")
    if kind == "indef":
        return d.word("un" if takes_el else _ARTICLES["indef"][at], "some" if plural else "a")
    if kind == "dem":
        return _demonstrative(d, at, plural)
    if kind == "poss":
        return possessive(d, noun, plural, owner)
    if kind == "num":
        return d.word(*d.pick(_COUNT))
    if kind == "all":
        return d.word("todas" if noun.feminine else "todos", "all") + d.word(
            _ARTICLES["def"][at], "the"
        )
    if kind == "other":
        forms = ("otro", "otra", "otros", "otras")
        return d.word(forms[at], "other" if plural else "another")
    if kind == "bare":
        return NOTHING
    forms, en = _QUANTIFIERS[kind]
    return d.word(forms[at], en)


def _demonstrative(d: Draw, at: int, plural: bool) -> Phrase:
    which = d.pick(("this", "this", "that", "that there"))
    near, far = ("these", "those") if plural else ("this", "that")
    return d.word(_DEMONSTRATIVES[which][at], near if which == "this" else far)


def possessive(d: Draw, noun: Noun, plural: bool, owner: NounPhrase | None) -> Phrase:
    """Return mi, tu, nuestro or, where its owner is known, su."""
    if owner is not None and not owner.vague and d.chance(0.65):
        person = owner.person
    else:
        person = d.pick((0, 0, 0, 1, 1, 3))
        if person == spanish.TU and owner is not None and owner.en_person == english.SECOND:
            person = owner.person  # usted does not go with tu
    if person in (spanish.EL, spanish.ELLOS) and owner is not None:
        return d.word("sus" if plural else "su", owner.possessive())
    if person >= spanish.NOSOTROS:
        stem = "nuestr" if person == spanish.NOSOTROS else "vuestr"
        form = stem + ("a" if noun.feminine else "o") + ("s" if plural else "")
        return d.word(form, POSSESSIVES[person])
    return d.word(("mi", "tu")[person] + ("s" if plural else ""), POSSESSIVES[person])
