"""Clauses: a subject and its predicate, and the statements and questions made of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from .lexicon import Verb
from .noun_phrase import NounPhrase
from .tokens import NOTHING, Draw, Phrase, Token, Tokens
from .verb_groups import VerbGroup


@dataclass(slots=True)
class Clause:
    """The parts of a clause, before a word order is chosen for it.

    `es_before` holds what stands right before the Spanish verb: no, adverbs, clitics.
    """

    subject: NounPhrase
    es_subject: Tokens
    group: VerbGroup
    tense: str
    es_before: Tokens = field(default_factory=list)
    es_after: Tokens = field(default_factory=list)
    en_not: int = 0
    en_adverb: Tokens = field(default_factory=list)
    en_after: Tokens = field(default_factory=list)
    fronted: Phrase = NOTHING
    verb: Verb | None = None
    object: NounPhrase | None = None
    experiencer: bool = False  # the Spanish subject is not the English one
    compact: bool = False  # verb and complement stay together when the subject moves behind

    def add(self, phrase: Phrase) -> None:
        """Append a complement or an adverbial."""
        self.es_after += phrase.es
        self.en_after += phrase.en

    def negate(self, d: Draw) -> None:
        """Put no before the verb and its clitics."""
        link = d.link()
        self.es_before.insert(0, ("no", link))
        self.en_not = link

    def _en_verb(self) -> Tokens:
        group = self.group
        if self.en_not:
            first, *rest = group.marked
            return [first, ("not", self.en_not), *self.en_adverb, *rest]
        if group.has_auxiliary:
            first, *rest = group.plain
            return [first, *self.en_adverb, *rest]
        return [*self.en_adverb, *group.plain]

    def statement(self) -> Phrase:
        """Return subject, verb and the rest, any fronted adverbial first."""
        return Phrase(
            [*self.fronted.es, *self.es_subject, *self.es_before, *self.group.es, *self.es_after],
            [*self.fronted.en, *self.subject.en, *self._en_verb(), *self.en_after],
        )

    def inverted(self) -> Tokens:
        """Return the Spanish side with its subject behind the verb."""
        verb = [*self.es_before, *self.group.es]
        if self.compact:
            return [*verb, *self.es_after, *self.es_subject]
        return [*verb, *self.es_subject, *self.es_after]

    def asked(self) -> Tokens:
        """Return the English side with its auxiliary before the subject."""
        first, *rest = self.group.marked
        negation: list[Token] = [("not", self.en_not)] if self.en_not else []
        return [first, *self.subject.en, *negation, *self.en_adverb, *rest, *self.en_after]

    def question(self) -> Phrase:
        """Return the order of a yes/no question."""
        if self.experiencer or (len(self.es_subject) > 3 and not self.compact):
            es = [*self.es_subject, *self.es_before, *self.group.es, *self.es_after]
        else:
            es = self.inverted()
        return Phrase(es, self.asked())
