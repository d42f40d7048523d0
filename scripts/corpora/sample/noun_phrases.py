"""Noun phrases in both languages: determiners, adjectives, pronouns and people."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import english, spanish
from .lexicon import (
    ADJECTIVES,
    DETERMINERS,
    MADE_OF,
    MEN,
    NUMBERS,
    PRONOUNS,
    WOMEN,
    Adjective,
    Entry,
    Noun,
    entries,
    tagged,
)
from .tokens import NOTHING, Draw, Phrase, Tokens, Weighted, linked


@dataclass(slots=True)
class NounPhrase:
    """A noun phrase with the features that verbs, adjectives and pronouns agree with.

    `person` is the Spanish person, 0 to 5; `en_person` the English one, which differs for
    usted. `drop` is the link of an English pronoun whose Spanish counterpart is dropped.
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
    relative: bool = False
    owned: bool = False  # by a possessive

    @property
    def plural(self) -> bool:
        """Return whether an adjective that describes the phrase is plural."""
        return self.person >= spanish.NOSOTROS

    def pronoun(self, case: str) -> str:
        """Return the English pronoun: its subject, object or possessive form."""
        return english.pronoun(case, self.en_person, human=self.human, feminine=self.feminine)

    def say_yo(self) -> None:
        """Restore a dropped yo, before a verb form that él has too."""
        if self.drop and self.person == spanish.YO:
            self.es, self.drop = [("yo", self.link)], 0

    def phrase(self) -> Phrase:
        """Return the words of both sides."""
        return Phrase(self.es, self.en)


def dropped(d: Draw, antecedent: NounPhrase) -> NounPhrase:
    """Return a subject that refers back: nothing in Spanish, a pronoun in English."""
    link = d.link()
    return NounPhrase(
        [], [(antecedent.pronoun("subject"), link)], antecedent.person, antecedent.en_person,
        antecedent.feminine, link, antecedent.noun, antecedent.human, drop=link,
    )  # fmt: skip


def elided(antecedent: NounPhrase) -> NounPhrase:
    """Return a subject shared with the clause before: nothing in either language."""
    return NounPhrase(
        [], [], antecedent.person, antecedent.en_person, antecedent.feminine, 0,
        antecedent.noun, antecedent.human,
    )  # fmt: skip


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


def _determiner_kind(d: Draw, noun: Noun, use: str) -> str:
    """Choose the kind of determiner of a noun for its use in the clause."""
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


def _determiner(
    d: Draw, noun: Noun, kind: str, plural: bool, owner: NounPhrase | None, elide: bool
) -> Phrase:
    """Return a determiner of a kind; `elide` if the noun follows it directly."""
    at = noun.feminine + 2 * plural
    if kind == "bare":
        return NOTHING
    if kind == "poss":
        return _possessive(d, noun, plural, owner)
    if kind == "num":
        return d.word(*d.pick(_COUNT))
    if kind == "dem":
        kind = d.pick(("this", "this", "that", "that there"))
    elif kind == "name":
        kind = "def"
    es, en = DETERMINERS[kind]
    takes_el = kind in ("def", "indef") and elide and "el" in noun.tags and not plural
    found = d.word(es[0 if takes_el else at], en[plural])
    return found + d.word(article(noun.feminine, plural), "the") if kind == "all" else found


def _possessive(d: Draw, noun: Noun, plural: bool, owner: NounPhrase | None) -> Phrase:
    """Return mi, tu, nuestro or, if its owner is known, su."""
    if owner is not None and not owner.vague and d.chance(0.65):
        person = owner.person
    else:
        person = d.pick((0, 0, 0, 1, 1, 3))
        if person == spanish.TU and owner is not None and owner.en_person == english.SECOND:
            person = owner.person  # usted does not go with tu
    if person in (spanish.EL, spanish.ELLOS) and owner is not None:
        return d.word("sus" if plural else "su", owner.pronoun("possessive"))
    form = ("mi", "tu", "", "nuestr", "vuestr")[person]
    if person >= spanish.NOSOTROS:
        form += "a" if noun.feminine else "o"
    return d.word(form + ("s" if plural else ""), english.pronoun("possessive", person))


_ORDINALS = entries("ordinal")
_PLURAL_CHANCE = {"def": 0.3, "poss": 0.22, "dem": 0.3, "name": 0.15, "other": 0.3}
_WITH_ORDINAL = frozenset({"def", "dem", "poss"})
_ALWAYS_PLURAL = frozenset({"num", "bare", "many", "several", "few", "all", "none"})


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


def article(feminine: bool, plural: bool) -> str:
    """Return el, la, los or las."""
    return DETERMINERS["def"].es[feminine + 2 * plural]


ATTRIBUTIVE = {
    letter: tuple(a for a in ADJECTIVES if letter in a.letters and not a.predicative)
    for letter in "ABCDEFLOPRVX"
}
_PRENOMINAL = {
    letter: tuple(a for a in found if a.prenominal) for letter, found in ATTRIBUTIVE.items()
}
# Only a color or an origin goes well with a second adjective.
_POSTNOMINAL = {
    letter: tuple(a for a in found if a.relational) for letter, found in ATTRIBUTIVE.items()
}


@dataclass(slots=True)
class _Modifiers:
    """The adjectives and complements around a noun."""

    es_before: Tokens = field(default_factory=list)
    es_after: Tokens = field(default_factory=list)
    en_before: Tokens = field(default_factory=list)

    def add(self, d: Draw, es: str, en: str, *, before: bool) -> None:
        """Add a modifier; `before`: in Spanish too, it precedes the noun."""
        link = d.link()
        (self.es_before if before else self.es_after).extend(linked(es, link))
        self.en_before.append((en, link))

    def add_adjective(
        self, d: Draw, adjective: Adjective, noun: Noun, plural: bool, *, before: bool
    ) -> None:
        """Add an adjective in the form that agrees with the noun."""
        form = adjective.agree(noun.feminine, plural)
        if before and not noun.feminine and not plural:
            form = adjective.short
        self.add(d, form, adjective.en, before=before)


def _modify(d: Draw, noun: Noun, kind: str, plural: bool, amount: float) -> _Modifiers:
    """Choose adjectives and a complement for a noun."""
    found = _Modifiers()
    if not noun.letter or not d.chance(amount):
        return found
    letter = noun.letter
    if noun.es[0] in MADE_OF and d.chance(0.5):
        material = d.pick(MADE_OF[noun.es[0]])
        found.add(d, f"de {material.es}", material.en, before=False)
    elif noun in _TAUGHT and d.chance(0.6):
        subject = d.pick(_SCHOOL_SUBJECTS)
        found.add(d, f"de {subject.es[0]}", subject.en[0], before=False)
    elif letter in "RXE" and not plural and kind in _WITH_ORDINAL and d.chance(0.45):
        ordinal = d.pick(_ORDINALS)
        found.add(d, _ordinal_form(ordinal.es, noun.feminine), ordinal.en, before=True)
    elif _PRENOMINAL.get(letter) and _POSTNOMINAL.get(letter) and d.chance(0.12):
        found.add_adjective(d, d.pick(_PRENOMINAL[letter]), noun, plural, before=True)
        found.add_adjective(d, d.pick(_POSTNOMINAL[letter]), noun, plural, before=False)
    else:
        adjective = d.pick(ATTRIBUTIVE[letter])
        before = adjective.prenominal and (adjective.only_prenominal or d.chance(0.5))
        found.add_adjective(d, adjective, noun, plural, before=before)
    return found


def _ordinal_form(word: str, feminine: bool) -> str:
    if feminine:
        return word[:-1] + "a"
    return word[:-1] if word in ("primero", "tercero") else word


_TAUGHT = frozenset(
    n for n in tagged("thing", "event", "job")
    if n.es[0] in ("libro", "clase", "examen", "profesor", "profesora", "estudiante")
)  # fmt: skip
_SCHOOL_SUBJECTS = tagged("subject", "language")


def noun_phrase(
    d: Draw,
    noun: Noun,
    use: str = "object",
    *,
    owner: NounPhrase | None = None,
    negated: bool = False,
    kind: str = "",
    modify: float = 0.34,
) -> NounPhrase:
    """Build a phrase around a noun.

    `use` is subject, object, place or definite; `owner` the third person "su" refers to;
    `kind` a determiner kind that overrides the choice.
    """
    kind = kind or _determiner_kind(d, noun, use)
    if negated and kind in ("indef", "num", "many", "several", "few", "other"):
        kind = "bare" if noun.mass else "none"
    plural = not noun.mass and (
        noun.plural_only or kind in _ALWAYS_PLURAL or d.chance(_plural_chance(noun, use, kind))
    )
    mods = _modify(d, noun, kind, plural, 0.05 if kind in ("name", "num") else modify)
    es_plural = plural and kind != "none"
    if kind == "none":
        mods = _Modifiers()
    det = _determiner(d, noun, kind, plural, owner, elide=not mods.es_before)
    link = d.link()
    es = [*det.es, *mods.es_before, (noun.es[es_plural], link), *mods.es_after]
    en = [*det.en, *mods.en_before, *linked(noun.en[plural], link)]
    if kind == "name":
        es, en = _possessed(d, es, en)
    person = spanish.ELLOS if plural else spanish.EL
    return NounPhrase(
        es, en, person, person, noun.feminine, link, noun, noun.human, owned=kind == "poss"
    )


def _plural_chance(noun: Noun, use: str, kind: str) -> float:
    if "one" in noun.tags:
        return 0.0
    return 0.06 if use == "place" else _PLURAL_CHANCE.get(kind, 0.0)


def _possessed(d: Draw, es: Tokens, en: Tokens) -> tuple[Tokens, Tokens]:
    """Turn "the ..." into "Ana's ...", which is "... de Ana" in Spanish."""
    of = name(d)
    word, link = of.es[0]
    article = en[0][1] if en else 0
    return [*es, ("de", link), (word, link)], [(word + "'s", link | article), *en[1:]]


_SUBJECTS = Weighted.parse(
    "name 25 noun 26 yo 12 tú 8 él 8 nosotros 7 ellos 7 usted 2 ustedes 1 pair 4"
)
_SIMPLE_SUBJECTS = Weighted.parse(
    "name 24 noun 25 yo 12 tú 8 él 8 nosotros 7 ellos 7 usted 2 ustedes 1 pair 3 vague 3"
)
_PEOPLE = Weighted.parse("name 42 noun 48 él 10")
_VAGUE = entries("vague")
_HUMAN = tagged("hum")
_KIN = tagged("kin")
_STRANGERS = tagged("job", "person")


def pronoun(d: Draw, kind: str, overt: bool) -> NounPhrase:
    """Return a personal pronoun; those that may be dropped mostly are, unless `overt`."""
    feminine = d.chance(0.5)
    drop = not overt and d.chance(0.8)
    es, en, person, en_person, droppable = PRONOUNS[kind]
    link = d.link()
    drop = drop and droppable
    return NounPhrase(
        [] if drop else [(es[feminine], link)], [(en[feminine], link)],
        person, en_person, feminine, link, drop=link if drop else 0,
    )  # fmt: skip


def _pair(d: Draw) -> NounPhrase:
    first = noun_phrase(d, d.pick(_KIN), kind="poss", modify=0) if d.chance(0.4) else name(d)
    link = d.link()
    if d.chance(0.4):
        second = pronoun(d, "yo", overt=True)
        person = spanish.NOSOTROS
    else:
        second = name(d)
        person = spanish.ELLOS
        if second.es[0][0] == first.es[0][0]:
            return first
    if first.person == spanish.ELLOS:
        feminine = first.feminine
    else:
        feminine = first.feminine and second.feminine
    return NounPhrase(
        [*first.es, ("y", link), *second.es],
        [*first.en, ("and", link), *second.en],
        person, person, feminine, link,
    )  # fmt: skip


def _vague(d: Draw) -> NounPhrase:
    es, en = d.pick(_VAGUE)
    link = d.link()
    person = spanish.ELLOS if es == "todos" else spanish.EL
    return NounPhrase([(es, link)], [(en, link)], person, 2, False, link, vague=True)


def person_subject(d: Draw, *, vosotros: bool = False, vague: bool = False) -> NounPhrase:
    """Return a person as the subject of a clause."""
    if vosotros and d.chance(0.04):
        return pronoun(d, "vosotros", overt=False)
    kind = (_SIMPLE_SUBJECTS if vague else _SUBJECTS).draw(d)
    if kind == "name":
        return name(d)
    if kind == "noun":
        return noun_phrase(d, d.pick(_HUMAN), "subject", modify=0.2)
    if kind == "pair":
        return _pair(d)
    if kind == "vague":
        return _vague(d)
    return pronoun(d, kind, overt=False)


def someone(d: Draw, owner: NounPhrase | None = None, kin: bool = True) -> NounPhrase:
    """Return a person after a preposition: a name, a noun phrase, or él or ella."""
    kind = _PEOPLE.draw(d)
    # "él habla con él" would be two people, but reads like one.
    same = owner is not None and owner.en_person == english.THIRD
    if kind == "name" or (kind == "él" and same):
        return name(d)
    if kind == "noun":
        if kin and d.chance(0.5):
            return noun_phrase(d, d.pick(_KIN), kind="poss", owner=owner, modify=0.15)
        return noun_phrase(d, d.pick(_STRANGERS), "definite", owner=owner, modify=0.15)
    third = PRONOUNS["él"]
    feminine = d.chance(0.5)
    link = d.link()
    en = english.pronoun("object", english.THIRD, human=True, feminine=feminine)
    return NounPhrase([(third.es[feminine], link)], [(en, link)], 2, 2, feminine, link)
