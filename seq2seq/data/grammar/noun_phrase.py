"""The noun phrase: its words in both languages and the features others agree with."""

from __future__ import annotations

from dataclasses import dataclass

from . import english, spanish
from .lexicon import Noun
from .tokens import Draw, Phrase, Tokens

_SUBJECT_PRONOUNS = ("I", "you", "", "we", "you", "they")
_OBJECT_PRONOUNS = ("me", "you", "", "us", "you", "them")
POSSESSIVES = ("my", "your", "", "our", "your", "their")


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
    relative: bool = False
    owned: bool = False  # by a possessive

    @property
    def plural(self) -> bool:
        """Say whether an adjective describing the phrase is plural."""
        return self.person >= spanish.NOSOTROS

    def pronoun(self, table: tuple[str, ...], he: str, she: str, it: str) -> str:
        """Return the English pronoun for the phrase."""
        if self.en_person != english.THIRD:
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
        return self.pronoun(POSSESSIVES, "his", "her", "its")

    def say_yo(self) -> None:
        """Say a dropped yo, for verb forms that could as well be those of él."""
        if self.drop and self.person == spanish.YO:
            self.es, self.drop = [("yo", self.link)], 0

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
