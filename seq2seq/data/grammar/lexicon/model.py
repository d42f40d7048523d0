"""The kinds of lexical entries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from .. import english, spanish


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
    relational: bool  # a colour or an origin: goes well with a second adjective

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
        """Say whether it is the direct object of the English verb."""
        return not self.en


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
