"""Clauses: verb groups with their tense, and the statements and questions made with them.

The conventions that keep a translation recoverable from its source:

* the imperfect is "used to" for actions and a plain past for states; after mientras it is
  "was ...ing";
* the preterite is a plain past, the perfect "have ...";
* the present is the simple present, estar + gerund the progressive.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from . import english, spanish
from .lexicon import Periphrasis, Verb, VerbPair
from .noun_phrases import NounPhrase
from .tokens import NOTHING, Draw, Phrase, Token, Tokens

SER = VerbPair.of("ser", "be")
ESTAR = VerbPair.of("estar", "be")
_HABER = spanish.paradigm("haber")

# Tenses whose "yo" and "él" forms are the same: their "yo" is never dropped.
_AMBIGUOUS = frozenset({"imp", "was", "pprog", "plup", "subj", "cond"})
_HELPERS = {
    "perf": (_HABER, "pres"),
    "plup": (_HABER, "imp"),
    "prog": (ESTAR.es, "pres"),
    "pprog": (ESTAR.es, "imp"),
}


@dataclass(slots=True)
class VerbGroup:
    """A verb in its tense.

    `plain` is the English of a positive statement; `marked` that of a question or a negative,
    whose first word is the auxiliary. They are the same list where there is an auxiliary anyway.
    """

    es: Tokens
    plain: Tokens
    marked: Tokens
    has_auxiliary: bool
    infinitive_last: bool = False


def _lexical(en: english.Verb, past: bool, person: int) -> tuple[list[str], list[str]]:
    if past:
        return [en.past], ["did", en.base]
    third = person == english.THIRD
    return [en.third if third else en.base], ["does" if third else "do", en.base]


def _be(past: bool, person: int) -> str:
    return (english.BE_PAST if past else english.BE_PRESENT)[person]


def _english(
    en: english.Verb, tense: str, person: int, stative: bool
) -> tuple[list[str], list[str]]:
    """Return the English words of a tense, as a positive statement and with an auxiliary."""
    if tense == "fut":
        row = ["will", en.base]
    elif tense == "cond":
        row = ["would", en.base]
    elif tense in ("perf", "plup"):
        have = "had" if tense == "plup" else "has" if person == english.THIRD else "have"
        row = [have, en.participle]
    elif tense in ("prog", "pprog", "was"):
        row = [_be(tense != "prog", person), en.gerund]
    elif en.base == "be":
        row = [_be(tense in ("pret", "imp"), person)]
    elif tense == "imp" and not stative:
        return ["used", "to", en.base], ["did", "use", "to", en.base]
    else:
        return _lexical(en, tense in ("pret", "imp"), person)
    return row, row


def verb_group(
    d: Draw, es: spanish.Paradigm, en: english.Verb, tense: str, subject: NounPhrase, stative: bool
) -> VerbGroup:
    """Conjugate a verb for its subject."""
    if tense in _AMBIGUOUS:
        subject.say_yo()
    link = d.link()
    plain, marked = _english(en, tense, subject.en_person, stative)
    particle = [(word, link) for word in en.particle]
    if tense in _HELPERS:
        helper, row = _HELPERS[tense]
        first = d.link()
        form = es.participle if helper is _HABER else es.gerund
        tokens = [(helper.form(row, subject.person), first | subject.drop), (form, link)]
        english_tokens = [(plain[0], first), (plain[1], link), *particle]
        return VerbGroup(tokens, english_tokens, english_tokens, True)
    row = "imp" if tense == "was" else tense
    tokens = [(es.form(row, subject.person), link | subject.drop)]
    stated = [*((word, link) for word in plain), *particle]
    if marked is plain:
        return VerbGroup(tokens, stated, stated, True)
    return VerbGroup(tokens, stated, [*((word, link) for word in marked), *particle], False)


def _leading(p: Periphrasis, tense: str, person: int) -> tuple[list[str], list[str], bool]:
    """Return the English of a leading verb, plain and marked, and whether it is an auxiliary."""
    particle = list(p.en.particle)
    base = p.en.base
    if base == "can":
        row = ["could" if tense in ("imp", "cond") else "can"]
    elif base == "should":
        row = ["should"]
    elif base == "be":
        row = [_be(tense == "imp", person)]
    elif base == "have" and particle:
        row = ["has" if person == english.THIRD else "have"]
    elif base == "usually":
        third = person == english.THIRD
        return ["usually"], ["does" if third else "do", "usually"], False
    else:
        plain, marked = _english(p.en, tense, person, stative=True)
        return plain, marked, marked is plain
    return row + particle, row + particle, True


def led_group(d: Draw, p: Periphrasis, verb: Verb, tense: str, subject: NounPhrase) -> VerbGroup:
    """Conjugate a leading verb and add the verb it leads."""
    if tense in _AMBIGUOUS:
        subject.say_yo()
    first, link = d.link(), d.link()
    plain, marked, auxiliary = _leading(p, tense, subject.en_person)
    es_main = verb.es.gerund if p.form == "ger" else verb.es.infinitive
    en_main = {
        "base": verb.en.base,
        "ger": verb.en.gerund,
        "part": verb.en.participle,
    }[p.en_form]
    tokens = [
        (p.es.form(tense, subject.person), first | subject.drop),
        *((word, first) for word in p.linker),
        (es_main, link),
    ]
    rest = [
        *((word, first) for word in p.en_linker),
        (en_main, link),
        *((word, link) for word in verb.en.particle),
    ]
    stated = [(word, first) for word in plain] + rest
    if p.en.base == "usually" and subject.en_person == english.THIRD:
        stated[1] = (verb.en.third, link)
    asked = stated if marked is plain else [(word, first) for word in marked] + rest
    return VerbGroup(tokens, stated, asked, auxiliary, infinitive_last=p.form == "inf")


@dataclass(slots=True)
class Clause:
    """The parts of a clause, before a word order is chosen for it.

    `es_before` holds the words directly before the Spanish verb: no, adverbs, clitics.
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
        """Negate the clause: no before the verb and its clitics."""
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


def stative_clause(
    d: Draw, verb: VerbPair, tense: str, subject: NounPhrase, *, compact: bool = False
) -> Clause:
    """Return a clause with a stative verb, for its complements to be added."""
    group = verb_group(d, *verb, tense, subject, stative=True)
    return Clause(subject, subject.es, group, tense, compact=compact)
