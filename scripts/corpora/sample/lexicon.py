"""The lexicon: the tables in words/ as the objects that the grammar works with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from . import english, spanish
from .tables import read_table
from .tokens import Weighted

# --- Entries -----------------------------------------------------------------------------------


class Entry(NamedTuple):
    """A word or fixed expression and its translation."""

    es: str
    en: str


@dataclass(frozen=True, eq=False)
class Noun:
    """A common noun in both languages."""

    es: tuple[str, str]  # singular, plural
    en: tuple[str, str]
    feminine: bool
    tags: frozenset[str]
    letter: str  # the kind of noun that adjectives choose by
    preposition: str  # the English "in" of a place

    @property
    def mass(self) -> bool:
        """Return whether the noun has no plural."""
        return "mass" in self.tags

    @property
    def plural_only(self) -> bool:
        """Return whether the noun has no singular."""
        return "only" in self.tags

    @cached_property
    def human(self) -> bool:
        """Return whether the noun names a person."""
        return "hum" in self.tags


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective in both languages, with the nouns it describes."""

    forms: tuple[str, ...]  # masculine, feminine, and their plurals
    en: str
    grades: tuple[str, str] | None
    letters: str
    ser: bool
    short: str
    prenominal: bool
    only_prenominal: bool
    predicative: bool
    gradable: bool
    relational: bool  # a color or an origin: goes well with a second adjective

    def agree(self, feminine: bool, plural: bool) -> str:
        """Return the Spanish form that agrees with a noun."""
        return self.forms[feminine + 2 * plural]


class Complement(NamedTuple):
    """A prepositional complement of a verb."""

    es: str
    en: str
    optional: bool
    human: bool
    kin: bool  # whether that person may be family
    targets: tuple[Noun | Entry, ...]

    @property
    def is_object(self) -> bool:
        """Return whether it is the direct object of the English verb."""
        return not self.en


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb in both languages, with what it takes."""

    es: spanish.Paradigm
    en: english.Verb
    reflexive: bool
    subjects: tuple[str, ...]
    objects: tuple[Noun | Entry, ...]
    object_optional: bool
    human: bool  # may take a person as its direct object
    complement: Complement | None
    recipient: str  # "", "rec" or "recto"
    recipient_optional: bool
    where: bool
    tags: frozenset[str]
    places: tuple[Noun, ...]
    manners: tuple[Entry, ...]
    tenses: tuple[str, ...]

    @cached_property
    def stative(self) -> bool:
        """Return whether the imperfect is a plain past and there is no progressive."""
        return "stat" in self.tags

    @cached_property
    def past_like_present(self) -> bool:
        """Return whether the "nosotros" form is the same in preterite and present."""
        rows = self.es.rows
        return rows["pres"][spanish.NOSOTROS] == rows["pret"][spanish.NOSOTROS]


class VerbPair(NamedTuple):
    """A verb in both languages, of which only the forms are needed."""

    es: spanish.Paradigm
    en: english.Verb

    @classmethod
    def of(cls, es: str, en: str) -> VerbPair:
        """Return the forms of two infinitives."""
        return cls(spanish.paradigm(es), english.verb(en))


class Periphrasis(NamedTuple):
    """A verb that leads another one, as "tener que" does."""

    es: spanish.Paradigm
    linker: tuple[str, ...]
    form: str
    en: english.Verb
    en_linker: tuple[str, ...]
    en_form: str
    tenses: tuple[str, ...]


class Determiner(NamedTuple):
    """A determiner: Spanish forms by gender and number, English forms by number."""

    es: tuple[str, ...]  # masculine, feminine, and their plurals
    en: tuple[str, str]


class Pronoun(NamedTuple):
    """A subject pronoun in both genders, and its person in both languages."""

    es: tuple[str, str]  # masculine, feminine
    en: tuple[str, str]
    person: int
    en_person: int
    droppable: bool


# --- Closed classes ----------------------------------------------------------------------------


def _determiner(kind: str, *forms: str) -> tuple[str, Determiner]:
    *es, one, many = forms
    return kind, Determiner(tuple(es), (one, many))


def _pronoun(
    kind: str, es: str, es_feminine: str, en: str, en_feminine: str, person: str, en_person: str,
    drop: str,
) -> tuple[str, Pronoun]:  # fmt: skip
    forms = (es, es_feminine), (en, en_feminine)
    return kind, Pronoun(*forms, int(person), int(en_person), drop == "drop")


DETERMINERS = dict(read_table(
    "determiners",
    "kind masculine feminine masculine_plural feminine_plural english english_plural",
    _determiner,
))  # fmt: skip
PRONOUNS = dict(read_table(
    "pronouns",
    "kind spanish spanish_feminine english english_feminine person english_person drop",
    _pronoun,
))  # fmt: skip
_CLOSED = read_table("closed", "class spanish english degree", lambda *fields: fields)


@cache
def entries(kind: str) -> tuple[Entry, ...]:
    """Return the entries of a closed class."""
    return tuple(Entry(es, en) for name, es, en, _ in _CLOSED if name == kind)


MEN = tuple(man.es for man in entries("man"))
WOMEN = tuple(woman.es for woman in entries("woman"))
CITIES = entries("city")
COUNTRIES = entries("country")
NUMBERS = entries("number")
WEEKDAYS = entries("weekday")
MONTHS = entries("month")
# Feelings with "tener", each with the Spanish "very" it takes, if any.
FEELINGS = tuple((Entry(es, en), very) for name, es, en, very in _CLOSED if name == "feeling")


def _adverbs() -> dict[tuple[str, str], tuple[Entry, ...]]:
    """Return the adverbials of each kind and use (a tense or a class of manners)."""
    index: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for kind, uses, es, en in read_table("adverbs", "kind use spanish english", lambda *row: row):
        for use in uses.split():
            index[kind, use].append(Entry(es, en))
    return {key: tuple(found) for key, found in index.items()}


ADVERBS = _adverbs()


def _periphrasis(
    es: str, linker: str, form: str, en: str, en_linker: str, en_form: str, tenses: str, weight: str
) -> tuple[Periphrasis, float]:
    return Periphrasis(
        spanish.paradigm(es), tuple(linker.split()), form,
        english.verb(en), tuple(en_linker.split()), en_form, tuple(tenses.split()),
    ), float(weight)  # fmt: skip


_WEIGHTED_PERIPHRASES = read_table(
    "periphrases",
    "spanish linker form english english_linker english_form tenses weight",
    _periphrasis,
)
PERIPHRASES = tuple(periphrasis for periphrasis, _ in _WEIGHTED_PERIPHRASES)
PERIPHRASIS_WEIGHTS = Weighted.parse(
    " ".join(f"{n} {weight}" for n, (_, weight) in enumerate(_WEIGHTED_PERIPHRASES))
)


def _by_noun() -> dict[str, tuple[Entry, ...]]:
    """Return what each noun, given by its Spanish singular, may be made of."""
    index: dict[str, list[Entry]] = defaultdict(list)
    for es, en, nouns in read_table("materials", "spanish english nouns", lambda *row: row):
        for noun in nouns.split():
            index[noun].append(Entry(es, en))
    return {noun: tuple(found) for noun, found in index.items()}


MADE_OF = _by_noun()


def _by_letter() -> dict[str, tuple[Entry, ...]]:
    """Return the settings of superlatives for each kind of noun."""
    index: dict[str, list[Entry]] = defaultdict(list)
    for letter, es, en in read_table("superlatives", "nouns spanish english", lambda *row: row):
        index[letter].append(Entry(es, en))
    return {letter: tuple(found) for letter, found in index.items()}


SETTINGS = _by_letter()

# --- Nouns and adjectives ----------------------------------------------------------------------

_LETTERS = (
    ("hum", "P"), ("animal", "A"), ("read", "R"), ("thing", "O"), ("furniture", "O"),
    ("fixture", "O"), ("instrument", "O"), ("cloth", "C"), ("vehicle", "V"), ("food", "F"),
    ("drink", "D"), ("place", "L"), ("room", "L"), ("abstract", "X"), ("event", "E"),
    ("body", "B"),
)  # fmt: skip


def _noun(
    es: str, gender: str, en: str, tags: str, preposition: str, es_plural: str, en_plural: str
) -> Noun:
    names = frozenset(tags.split())
    if gender not in ("m", "f"):
        raise ValueError(f"gender {gender!r}; expected m or f")
    return Noun(
        es=(es, es_plural or spanish.plural(es)),
        en=(en, en if "only" in names else en_plural or english.plural(en)),
        feminine=gender == "f",
        tags=names,
        letter=next((letter for tag, letter in _LETTERS if tag in names), ""),
        preposition=preposition or "in",
    )


def _adjective(
    es: str, en: str, letters: str, copula: str, tags: str, feminine: str, plural: str, short: str
) -> Adjective:
    names = tags.split()
    return Adjective(
        forms=spanish.adjective_forms(es, feminine, plural),
        en=en,
        grades=english.grades(en),
        letters=letters,
        ser=copula == "ser",
        short=short or es,
        prenominal="pre" in names or "only" in names,
        only_prenominal="only" in names,
        predicative="pred" in names,
        gradable="abs" not in names and "only" not in names and "rel" not in names,
        relational="rel" in names,
    )


NOUNS = read_table(
    "nouns", "spanish gender english tags preposition spanish_plural english_plural", _noun
)
ADJECTIVES = read_table(
    "adjectives", "spanish english nouns copula tags feminine plural short", _adjective
)


def _index_nouns() -> dict[str, tuple[Noun | Entry, ...]]:
    """Return the nouns and places of each tag and group."""
    index: dict[str, list[Noun | Entry]] = defaultdict(list)
    index |= {"city": [*CITIES], "travel": [*CITIES, *COUNTRIES], "live": [*COUNTRIES]}
    for noun in NOUNS:
        for tag in noun.tags:
            index[tag].append(noun)
    tags = {tag: tuple(found) for tag, found in index.items()}
    by_name = {noun.es[0]: noun for noun in NOUNS}

    def members(group: str, names: str) -> tuple[str, tuple[Noun | Entry, ...]]:
        return group, tuple(
            item
            for name in names.split()
            for item in (tags[name[1:]] if name.startswith("+") else (by_name[name],))
        )

    return tags | dict(read_table("groups", "group nouns", members))


_TARGETS = _index_nouns()


@cache
def tagged(*tags: str) -> tuple[Noun, ...]:
    """Return the nouns with any of the tags, each once, in the order of the table."""
    return tuple(item for item in _targets(tags) if isinstance(item, Noun))


def _targets(tags: Iterable[str]) -> tuple[Noun | Entry, ...]:
    """Return the nouns and places of the tags, each once."""
    return tuple(dict.fromkeys(item for tag in tags for item in _TARGETS[tag]))


# --- Verbs -------------------------------------------------------------------------------------


def _verb(
    es: str, en: str, subjects: str, objects: str, preposition: str, en_preposition: str,
    complement: str, recipient: str, place: str, manner: str, tenses: str, tags: str,
) -> Verb:  # fmt: skip
    lemma, *reflexive = es.split()
    names = frozenset(tags.split())
    return Verb(
        es=spanish.paradigm(lemma),
        en=english.verb(en),
        reflexive=reflexive == ["se"],
        subjects=tuple(subjects.split()),
        objects=_targets(objects.removeprefix("?").split()),
        object_optional=objects.startswith("?"),
        human="person" in names,
        complement=_complement(preposition, en_preposition, complement) if preposition else None,
        recipient=recipient.removesuffix("?"),
        recipient_optional=recipient.endswith("?"),
        where="where" in names,
        tags=names,
        places=tagged(*place.split()),
        manners=tuple(entry for letter in manner for entry in ADVERBS["manner", letter]),
        tenses=tuple(tenses.split()),
    )


def _complement(es: str, en: str, tags: str) -> Complement:
    names = tags.removeprefix("?").split()
    kin = "hum" in names
    human = kin or "stranger" in names
    targets = _targets(name for name in names if name not in ("hum", "stranger"))
    return Complement(es, en, tags.startswith("?"), human, kin, targets)


VERBS = read_table(
    "verbs",
    "spanish english subjects objects preposition english_preposition complement recipient place"
    " manner tenses tags",
    _verb,
)
