"""The lexicon: the tables of this package, read into the objects the grammar works with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from .. import english, spanish
from ..tokens import Weighted
from . import adjectives, closed, nouns, verbs

_LETTERS = (
    ("hum", "P"), ("animal", "A"), ("read", "R"), ("thing", "O"), ("furniture", "O"),
    ("fixture", "O"), ("instrument", "O"), ("cloth", "C"), ("vehicle", "V"), ("food", "F"),
    ("drink", "D"), ("place", "L"), ("room", "L"), ("abstract", "X"), ("event", "E"),
    ("body", "B"),
)  # fmt: skip
_PREPOSITIONS = frozenset({"in", "at", "on"})


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
    letter: str  # the class of things adjectives choose by
    preposition: str  # the English "in" of a place

    @property
    def mass(self) -> bool:
        """Say whether the noun has no plural."""
        return "mass" in self.tags

    @property
    def plural_only(self) -> bool:
        """Say whether the noun has no singular."""
        return "only" in self.tags

    @cached_property
    def human(self) -> bool:
        """Say whether the noun names a person."""
        return "hum" in self.tags


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective in both languages, with the nouns it suits."""

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

    def agree(self, feminine: bool, plural: bool) -> str:
        """Return the Spanish form that agrees with a noun."""
        return self.forms[feminine + 2 * plural]


class Complement(NamedTuple):
    """A prepositional complement of a verb."""

    es: str
    en: str
    optional: bool
    human: bool
    targets: tuple[Noun | Entry, ...]


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb in both languages, with what it stands with."""

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
        """Say whether the imperfect is a plain past and the progressive missing."""
        return "stat" in self.tags

    @cached_property
    def past_like_present(self) -> bool:
        """Say whether the "nosotros" of the preterite is also that of the present."""
        rows = self.es.rows
        return rows["pres"][spanish.NOSOTROS] == rows["pret"][spanish.NOSOTROS]


class Periphrasis(NamedTuple):
    """A verb that leads another one, as "tener que" does."""

    es: spanish.Paradigm
    linker: tuple[str, ...]
    form: str
    en: english.Verb
    en_linker: tuple[str, ...]
    en_form: str
    tenses: tuple[str, ...]


def _lines(table: str) -> list[str]:
    return [line for line in table.strip().splitlines() if line.strip()]


def _entries(table: str) -> tuple[Entry, ...]:
    pairs = (item.split("=") for item in table.split())
    return tuple(Entry(es, en.replace("_", " ")) for es, en in pairs)


def _noun(line: str, section: list[str]) -> Noun:
    es, gender, en, *extra = line.split()
    options = dict(item.split("=") for item in extra if "=" in item)
    tags = [*section, *(item.lstrip("+") for item in extra if "=" not in item)]
    en = en.replace("_", " ")
    plural_only = "only" in tags
    own = [tag for tag in tags if tag in _PREPOSITIONS]
    return Noun(
        es=(es, options.get("pl") or spanish.plural(es)),
        en=(en, en if plural_only else options.get("enpl") or english.plural(en)),
        feminine=gender == "f",
        tags=frozenset(tags),
        letter=next((letter for tag, letter in _LETTERS if tag in tags), ""),
        preposition=own[-1] if own else "in",
    )


def _read_nouns() -> tuple[Noun, ...]:
    found: list[Noun] = []
    section: list[str] = []
    for line in _lines(nouns.TABLE):
        if line.startswith("["):
            section = line.strip("[]").split()
        else:
            found.append(_noun(line, section))
    return tuple(found)


def _read_adjectives() -> tuple[Adjective, ...]:
    found = []
    for line in _lines(adjectives.TABLE):
        es, en, letters, copula, *tags = line.split()
        options = dict(tag.split("=") for tag in tags if "=" in tag)
        forms = spanish.adjective_forms(es, options.get("fem", ""), options.get("pl", ""))
        found.append(
            Adjective(
                forms=forms,
                en=en,
                grades=english.grades(en),
                letters=letters,
                ser=copula == "ser",
                short=options.get("short", es),
                prenominal="pre" in tags or "only" in tags,
                only_prenominal="only" in tags,
                predicative="pred" in tags,
                gradable="abs" not in tags and "only" not in tags,
            )
        )
    return tuple(found)


NOUNS = _read_nouns()
ADJECTIVES = _read_adjectives()
MEN = tuple(closed.MEN)
WOMEN = tuple(closed.WOMEN)
CITIES = _entries(closed.CITIES)
COUNTRIES = _entries(closed.COUNTRIES)
NUMBERS = _entries(closed.NUMBERS)
ORDINALS = _entries(closed.ORDINALS)
WEEKDAYS = _entries(closed.WEEKDAYS)
MONTHS = _entries(closed.MONTHS)
SEASONS = _entries(closed.SEASONS)
MATERIALS = _entries(closed.MATERIALS)


def _index_nouns() -> dict[str, tuple[Noun | Entry, ...]]:
    index: dict[str, list[Noun | Entry]] = {
        "city": list(CITIES),
        "travel": [*CITIES, *COUNTRIES],
        "live": [*COUNTRIES],
    }
    for noun in NOUNS:
        for tag in sorted(noun.tags):
            index.setdefault(tag, []).append(noun)
    by_name = {noun.es[0]: noun for noun in NOUNS}
    for line in _lines(verbs.GROUPS):
        tag, members = line.split(":")
        index[tag] = [by_name[name] for name in members.split()]
    return {tag: tuple(found) for tag, found in index.items()}


TARGETS = _index_nouns()


def tagged(*tags: str) -> tuple[Noun, ...]:
    """Return the nouns with any of the tags, each once, in the order of the table."""
    found = dict.fromkeys(item for tag in tags for item in TARGETS[tag])
    return tuple(item for item in found if isinstance(item, Noun))


def _targets(tags: str) -> tuple[Noun | Entry, ...]:
    names = [tag for tag in tags.split(",") if tag != "hum"]
    return tuple(dict.fromkeys(item for tag in names for item in TARGETS[tag]))


def _complement(field: str) -> Complement:
    head, _, tags = field.partition(":")[2].partition(":")
    es, _, en = head.partition(">")
    return Complement(es, en, field.startswith("pp?"), "hum" in tags.split(","), _targets(tags))


def _read_manners() -> dict[str, tuple[Entry, ...]]:
    found: dict[str, list[Entry]] = {}
    for line in _lines(closed.MANNER):
        letter, es, en = (field.strip() for field in line.split("|"))
        found.setdefault(letter, []).append(Entry(es, en))
    return {letter: tuple(entries) for letter, entries in found.items()}


_MANNERS = _read_manners()


def _verb(line: str) -> Verb:
    head, en, subjects, frame, tag_field = (field.strip() for field in line.split("|"))
    lemma, *marks = head.split()
    fields = frame.split()
    tags = tag_field.split()
    options = dict(tag.split("=") for tag in tags if "=" in tag)
    objects = [field for field in fields if field.startswith("obj")]
    complements = [field for field in fields if field.startswith("pp")]
    places = [tag.partition(":")[2] for tag in tags if tag.startswith("loc:")]
    return Verb(
        es=spanish.conjugate(lemma, " ".join(mark for mark in marks if mark != "se")),
        en=english.verb(en),
        reflexive="se" in marks,
        subjects=tuple(subjects.split()),
        objects=_targets(objects[0].partition(":")[2]) if objects else (),
        object_optional=bool(objects) and objects[0].startswith("obj?"),
        human="hum" in fields,
        complement=_complement(complements[0]) if complements else None,
        recipient=next((f.rstrip("?") for f in fields if f.startswith("rec")), ""),
        recipient_optional="rec?" in fields or "recto?" in fields,
        where="where" in fields,
        tags=frozenset(tags),
        places=tagged(*places),
        manners=tuple(e for letter in options.get("m", "") for e in _MANNERS[letter]),
        tenses=tuple(options["t"].split(",")) if "t" in options else (),
    )


VERBS = tuple(_verb(line) for line in _lines(verbs.TABLE))


def _read_periphrases() -> tuple[tuple[Periphrasis, ...], Weighted]:
    found = []
    weights = []
    for n, line in enumerate(_lines(closed.PERIPHRASES)):
        head, link, en, en_link, tenses, weight = (part.strip() for part in line.split("|"))
        lemma, *marks = head.split()
        *linker, form = link.split()
        *en_linker, en_form = en_link.split()
        paradigm = spanish.conjugate(lemma, " ".join(marks))
        found.append(
            Periphrasis(
                paradigm, tuple(linker), form, english.verb(en), tuple(en_linker), en_form,
                tuple(tenses.split()),
            )
        )  # fmt: skip
        weights.append(f"{n} {weight}")
    return tuple(found), Weighted.parse(" ".join(weights))


PERIPHRASES, PERIPHRASIS_WEIGHTS = _read_periphrases()


def _read_adverbs(table: str) -> dict[str, tuple[Entry, ...]]:
    """Return the adverbials each tense goes with."""
    index: dict[str, list[Entry]] = {}
    for line in _lines(table):
        tenses, es, en = (field.strip() for field in line.split("|"))
        for tense in tenses.split():
            index.setdefault(tense, []).append(Entry(es, en))
    return {tense: tuple(entries) for tense, entries in index.items()}


FREQUENCY = _read_adverbs(closed.FREQUENCY)
TIMES = _read_adverbs(closed.TIMES)


def _read_materials() -> dict[str, tuple[Entry, ...]]:
    """Return what each noun, by its Spanish singular, may be made of."""
    english_of = dict(MATERIALS)
    index: dict[str, list[Entry]] = {}
    for line in _lines(closed.MADE_OF):
        material, made = line.split(":")
        for noun in made.split():
            index.setdefault(noun, []).append(Entry(material, english_of[material]))
    return {noun: tuple(entries) for noun, entries in index.items()}


MADE_OF = _read_materials()
