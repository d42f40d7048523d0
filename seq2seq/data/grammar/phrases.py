"""Noun phrases: determiners, adjectives, complements and pronouns."""

from __future__ import annotations

from dataclasses import dataclass

from . import english, spanish
from .lexicon import (
    ADJECTIVES,
    MADE_OF,
    MEN,
    NUMBERS,
    ORDINALS,
    WOMEN,
    Adjective,
    Entry,
    Noun,
    tagged,
)
from .tokens import NOTHING, Draw, Phrase, Tokens, Weighted

_SUBJECT_PRONOUNS = ("I", "you", "", "we", "you", "they")
_OBJECT_PRONOUNS = ("me", "you", "", "us", "you", "them")
_POSSESSIVES = ("my", "your", "", "our", "your", "their")

_DETERMINERS = {
    "subject": Weighted.parse("def 52 dem 18 poss 13 num 5 every 4 all 4 indef 4"),
    "object": Weighted.parse(
        "def 31 indef 22 poss 14 dem 10 num 7 bare 6 many 4 other 3 several 2 few 1"
    ),
    "person": Weighted.parse("def 58 dem 16 indef 8 num 7 all 4 every 3 many 4"),
    "kin": Weighted.parse("poss 84 name 16"),
    "place": Weighted.parse("def 76 dem 14 indef 6 other 4"),
    "mass": Weighted.parse("def 60 poss 12 dem 28"),
    "mass object": Weighted.parse("def 34 bare 38 poss 8 dem 8 many 8 little 4"),
    "plural": Weighted.parse("def 40 poss 35 dem 25"),
    "definite": Weighted.parse("def 68 dem 32"),
}
_PLURAL_CHANCE = {"def": 0.3, "poss": 0.22, "dem": 0.3, "name": 0.15, "other": 0.3}
_ALWAYS_PLURAL = frozenset({"num", "bare", "many", "several", "few", "all", "none"})
_COUNT = NUMBERS[:11]


@dataclass(slots=True)
class NounPhrase:
    """A noun phrase with the features verbs, adjectives and pronouns agree with.

    `person` is the Spanish person, 0 to 5; `en_person` the English one, which differs for
    usted. `drop` is the link of an English pronoun that only the Spanish verb ending stands for.
    """

    es: Tokens
    en: Tokens
    person: int
    en_person: int
    feminine: bool
    link: int = 0
    noun: Noun | None = None
    human: bool = True
    drop: int = 0
    vague: bool = False  # nobody, everyone: no pronoun refers back to it

    @property
    def plural(self) -> bool:
        """Say whether an adjective describing the phrase is plural."""
        return self.person >= spanish.NOSOTROS

    def pronoun(self, table: tuple[str, ...], he: str, she: str, it: str) -> str:
        """Return the English pronoun for the phrase."""
        if self.en_person != english.HE:
            return table[self.en_person]
        if not self.human:
            return it
        return she if self.feminine else he

    def subject_pronoun(self) -> str:
        """Return I, you, he, ..."""
        return self.pronoun(_SUBJECT_PRONOUNS, "he", "she", "it")

    def object_pronoun(self) -> str:
        """Return me, you, him, ..."""
        return self.pronoun(_OBJECT_PRONOUNS, "him", "her", "it")

    def possessive(self) -> str:
        """Return my, your, his, ..."""
        return self.pronoun(_POSSESSIVES, "his", "her", "its")

    def phrase(self) -> Phrase:
        """Return the words of both sides."""
        return Phrase(self.es, self.en)


def dropped(d: Draw, antecedent: NounPhrase) -> NounPhrase:
    """Refer back to a subject: nothing in Spanish, a pronoun in English."""
    link = d.link()
    return NounPhrase(
        [], [(antecedent.subject_pronoun(), link)], antecedent.person, antecedent.en_person,
        antecedent.feminine, link, antecedent.noun, antecedent.human, drop=link,
    )  # fmt: skip


def elided(antecedent: NounPhrase) -> NounPhrase:
    """Share a subject with the clause before: nothing on either side."""
    return NounPhrase(
        [], [], antecedent.person, antecedent.en_person, antecedent.feminine, 0,
        antecedent.noun, antecedent.human,
    )  # fmt: skip


def name(d: Draw, feminine: bool | None = None) -> NounPhrase:
    """Return the name of a man or a woman."""
    if feminine is None:
        feminine = d.chance(0.5)
    word = d.pick(WOMEN if feminine else MEN)
    link = d.link()
    return NounPhrase([(word, link)], [(word, link)], 2, 2, feminine, link)


def proper(d: Draw, entry: Entry) -> NounPhrase:
    """Return the name of a place."""
    phrase = d.word(*entry)
    return NounPhrase(phrase.es, phrase.en, 2, 2, False, phrase.es[0][1], human=False)


def _short(adjective: Adjective, noun: Noun, plural: bool) -> str:
    """Return the form of an adjective that stands before its noun."""
    if adjective.short and not noun.feminine and not plural:
        return adjective.short
    return adjective.agree(noun.feminine, plural)


def _attributive() -> dict[str, tuple[Adjective, ...]]:
    letters = sorted({letter for adjective in ADJECTIVES for letter in adjective.letters})
    return {
        letter: tuple(a for a in ADJECTIVES if letter in a.letters and not a.predicative)
        for letter in letters
    }


ATTRIBUTIVE = _attributive()
_PRENOMINAL = {
    letter: tuple(a for a in found if a.prenominal) for letter, found in ATTRIBUTIVE.items()
}
_POSTNOMINAL = {
    letter: tuple(a for a in found if not a.prenominal) for letter, found in ATTRIBUTIVE.items()
}


class _Modifiers:
    """The adjectives and complements around a noun."""

    __slots__ = ("es_before", "es_after", "en_before")

    def __init__(self) -> None:
        self.es_before: Tokens = []
        self.es_after: Tokens = []
        self.en_before: Tokens = []

    def add_adjective(
        self, d: Draw, adjective: Adjective, noun: Noun, plural: bool, before: bool
    ) -> None:
        link = d.link()
        if before:
            self.es_before.append((_short(adjective, noun, plural), link))
        else:
            self.es_after.append((adjective.agree(noun.feminine, plural), link))
        self.en_before.append((adjective.en, link))


def _modify(d: Draw, noun: Noun, plural: bool, amount: float) -> _Modifiers:
    """Choose adjectives and a complement for a noun."""
    found = _Modifiers()
    if not noun.letter or not d.chance(amount):
        return found
    letter = noun.letter
    if noun.es[0] in MADE_OF and d.chance(0.3):
        _add_complement(d, found, d.pick(MADE_OF[noun.es[0]]))
    elif noun in _TAUGHT and d.chance(0.6):
        _add_complement(d, found, d.pick(_SCHOOL_SUBJECTS))
    elif letter in "RXE" and not plural and d.chance(0.12):
        ordinal = d.pick(ORDINALS)
        link = d.link()
        found.es_before.append((_ordinal_form(ordinal.es, noun.feminine), link))
        found.en_before.append((ordinal.en, link))
    elif _PRENOMINAL.get(letter) and _POSTNOMINAL.get(letter) and d.chance(0.12):
        found.add_adjective(d, d.pick(_PRENOMINAL[letter]), noun, plural, before=True)
        found.add_adjective(d, d.pick(_POSTNOMINAL[letter]), noun, plural, before=False)
    else:
        adjective = d.pick(ATTRIBUTIVE[letter])
        before = adjective.prenominal and (adjective.only_prenominal or d.chance(0.5))
        found.add_adjective(d, adjective, noun, plural, before)
    return found


def _ordinal_form(word: str, feminine: bool) -> str:
    if feminine:
        return word[:-1] + "a"
    return word[:-1] if word in ("primero", "tercero") else word


def _add_complement(d: Draw, found: _Modifiers, entry: Entry) -> None:
    link = d.link()
    found.es_after += [("de", link), (entry.es, link)]
    found.en_before.append((entry.en, link))


_TAUGHT = frozenset(
    n for n in tagged("thing", "event", "job")
    if n.es[0] in ("libro", "clase", "examen", "profesor", "profesora", "estudiante")
)  # fmt: skip
_SCHOOL_SUBJECTS = tuple(Entry(n.es[0], n.en[0]) for n in tagged("subject", "language"))


def _determiner_kind(d: Draw, noun: Noun, use: str) -> str:
    if noun.mass:
        key = "mass object" if use == "object" else "mass"
    elif noun.plural_only:
        key = "plural"
    elif use in ("place", "definite"):
        key = use
    elif "kin" in noun.tags:
        key = "kin"
    elif noun.human:
        key = "person"
    else:
        key = use
    return _DETERMINERS[key].draw(d)


def noun_phrase(
    d: Draw,
    noun: Noun,
    use: str = "object",
    *,
    owner: NounPhrase | None = None,
    negated: bool = False,
    kind: str = "",
    modify: float = 0.3,
) -> NounPhrase:
    """Build a phrase around a noun.

    `use` is subject, object, place or definite; `owner` the third person "su" refers to;
    `kind` a determiner kind that overrides the choice.
    """
    kind = kind or _determiner_kind(d, noun, use)
    if negated and kind in ("indef", "num", "many", "several", "few", "other"):
        kind = "bare" if noun.mass else "none"
    plural = not noun.mass and (
        noun.plural_only or kind in _ALWAYS_PLURAL or d.chance(_PLURAL_CHANCE.get(kind, 0.0))
    )
    mods = _modify(d, noun, plural, 0.05 if kind in ("name", "num") else modify)
    es_plural = plural and kind != "none"
    if kind == "none":
        mods = _Modifiers()
    det = _determiner(d, noun, kind, plural, owner, elide=not mods.es_before)
    link = d.link()
    es = [*det.es, *mods.es_before, (noun.es[es_plural], link), *mods.es_after]
    en = [*det.en, *mods.en_before, *((w, link) for w in noun.en[plural].split())]
    if kind == "name":
        es, en = _possessed(d, es, en)
    person = spanish.ELLOS if plural else spanish.EL
    return NounPhrase(es, en, person, person, noun.feminine, link, noun, noun.human)


def _possessed(d: Draw, es: Tokens, en: Tokens) -> tuple[Tokens, Tokens]:
    """Turn "the ... " into "Ana's ...", which Spanish says with de."""
    of = name(d)
    word, link = of.es[0]
    article = en[0][1] if en else 0
    return [*es, ("de", link), (word, link)], [(word + "'s", link | article), *en[1:]]


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


def _determiner(
    d: Draw, noun: Noun, kind: str, plural: bool, owner: NounPhrase | None, elide: bool
) -> Phrase:
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
    if which == "this":
        en = "these" if plural else "this"
    else:
        en = "those" if plural else "that"
    return d.word(_DEMONSTRATIVES[which][at], en)


def possessive(d: Draw, noun: Noun, plural: bool, owner: NounPhrase | None) -> Phrase:
    """Return mi, tu, nuestro or, where its owner is known, su."""
    if owner is not None and not owner.vague and d.chance(0.65):
        person = owner.person
    else:
        person = d.pick((0, 0, 0, 1, 1, 3))
    if person in (spanish.EL, spanish.ELLOS) and owner is not None:
        return d.word("sus" if plural else "su", owner.possessive())
    if person >= spanish.NOSOTROS:
        stem = "nuestr" if person == spanish.NOSOTROS else "vuestr"
        form = stem + ("a" if noun.feminine else "o") + ("s" if plural else "")
        return d.word(form, _POSSESSIVES[person])
    return d.word(("mi", "tu")[person] + ("s" if plural else ""), _POSSESSIVES[person])
