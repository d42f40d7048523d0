"""Questions: yes/no and wh-, direct and embedded."""

from __future__ import annotations

from typing import NamedTuple

from . import english, spanish
from .actions import FUTURE, HABIT, MAIN, PAST, Request, action
from .clauses import ESTAR, SER, Clause, stative_clause
from .complements import in_or_on
from .lexicon import VERBS, Noun, Verb, VerbPair, tagged
from .linking import clause
from .noun_phrases import NounPhrase, noun_phrase, person_subject, pronoun
from .tokens import Draw, Phrase, Tokens, Weighted

_BE_OLD = VerbPair.of("tener", "be")
_KNOW = VerbPair.of("saber", "know")
_ASK = VerbPair.of("preguntar", "ask")
_ASKED = Weighted.parse("pres 50 pret 30 fut 10 perf 10")
_KINDS = Weighted.parse(
    "what 18 whom 9 who 14 where 14 when 11 why 13 which 8 many 9 owner 3 place 8 color 2 age 3"
    " cost 3"
)
_EMBEDDED = Weighted.parse("what 16 where 18 when 12 why 18 place 10 if 26")
_TRANSITIVE = tuple(
    v for v in VERBS
    if len(v.objects) > 2 and not v.recipient and not v.stative and "noclit" not in v.tags
    and "instrument" not in getattr(v.objects[0], "tags", ())
)  # fmt: skip
_WITH_PEOPLE = tuple(v for v in VERBS if v.human and "noclit" not in v.tags)
_SOMEWHERE = tuple(v for v in VERBS if v.places)
_NOT_BORN = tuple(v for v in VERBS if not v.tenses)


def yes_no(d: Draw) -> Phrase:
    """Return a yes/no question without its marks."""
    found = clause(d, Request(MAIN, extras=0.6, negation=0.07), 0.33)
    while found.subject.person == spanish.YO:
        found = clause(d, Request(MAIN, extras=0.6, negation=0.07), 0.33)
    return found.question()


class Question(NamedTuple):
    """A question word with the clause it asks about."""

    word: Phrase
    clause: Clause


def _asked_subject(d: Draw, third: bool) -> NounPhrase:
    """Return a subject one asks about whose tense shows in its verb: not yo or nosotros."""
    subject = person_subject(d)
    while subject.person in (spanish.YO, spanish.NOSOTROS) or (
        third and subject.en_person == english.SECOND
    ):
        subject = person_subject(d)
    return subject


def _about(d: Draw, verbs: tuple[Verb, ...], gap: bool = False, third: bool = False) -> Clause:
    tenses = d.pick((_ASKED, HABIT, PAST, FUTURE))
    return action(
        d, Request(tenses, _asked_subject(d, third), 0.0, negation=0.0, gap=gap, verbs=verbs)
    )


def _what(d: Draw, third: bool) -> Question:
    return Question(d.word("qué", "what"), _about(d, _TRANSITIVE, gap=True, third=third))


def _where(d: Draw, third: bool) -> Question:
    return Question(d.word("dónde", "where"), _about(d, _SOMEWHERE, third=third))


def _when(d: Draw, third: bool) -> Question:
    return Question(d.word("cuándo", "when"), _about(d, _NOT_BORN, third=third))


def _why(d: Draw, third: bool) -> Question:
    found = clause(d, Request(_ASKED, _asked_subject(d, third), 0.15, negation=0.2), 0.4)
    return Question(d.word("por qué", "why"), found)


def _place(d: Draw, third: bool) -> Question:
    noun = d.pick(tagged("thing", "cloth", "animal", "building", "kin"))
    subject = noun_phrase(d, noun, "definite", kind="def" if noun.letter == "L" else "",
                          modify=0.15)  # fmt: skip
    tense = "imp" if d.chance(0.15) else "pres"
    return Question(d.word("dónde", "where"), stative_clause(d, ESTAR, tense, subject))


ASKABLE = {"what": _what, "where": _where, "when": _when, "why": _why, "place": _place}


def wh(d: Draw) -> Phrase:
    """Return a wh-question without its marks."""
    kind = _KINDS.draw(d)
    if kind in ASKABLE:
        word, asked = ASKABLE[kind](d, False)
        return word + Phrase(verb_first(asked), asked.asked())
    return _OTHER_KINDS[kind](d)


def verb_first(asked: Clause) -> Tokens:
    """Return the Spanish side of a question, after its question word."""
    return asked.statement().es if asked.experiencer else asked.inverted()


def _who(d: Draw) -> Phrase:
    link = d.link()
    subject = NounPhrase([("quién", link)], [("who", link)], 2, 2, False, link, vague=True)
    return clause(d, Request(_ASKED, subject, 0.6, negation=0.08), 0.15).statement()


def _whom(d: Draw) -> Phrase:
    asked = _about(d, _WITH_PEOPLE, gap=True)
    return d.word("a quién", "who") + Phrase(verb_first(asked), asked.asked())


def _countable(verb: Verb) -> tuple[Noun, ...]:
    return tuple(
        n for n in verb.objects
        if isinstance(n, Noun) and not n.mass and not n.plural_only and n.letter != "L"
    )  # fmt: skip


_COUNTED_OBJECTS = {verb: _countable(verb) for verb in _TRANSITIVE if _countable(verb)}
_COUNTING_VERBS = tuple(_COUNTED_OBJECTS)


def _which(d: Draw) -> Phrase:
    verb = d.pick(_COUNTING_VERBS)
    noun = d.pick(_COUNTED_OBJECTS[verb])
    asked = _about(d, (verb,), gap=True)
    word = d.word("qué", "which") + d.word(noun.es[0], noun.en[0])
    return word + Phrase(verb_first(asked), asked.asked())


def _many(d: Draw) -> Phrase:
    verb = d.pick(_COUNTING_VERBS)
    noun = d.pick(_COUNTED_OBJECTS[verb])
    word = d.word("cuántas" if noun.feminine else "cuántos", "how many")
    word += d.word(noun.es[1], noun.en[1])
    if d.chance(0.3):
        at = in_or_on(d, d.pick(tagged("surface", "inside")))
        return word + d.word("hay", "are there") + at
    asked = _about(d, (verb,), gap=True)
    return word + Phrase(verb_first(asked), asked.asked())


def _this_thing(d: Draw) -> NounPhrase:
    noun = d.pick(tagged("thing", "cloth", "vehicle", "animal", "furniture"))
    return noun_phrase(d, noun, kind="dem", modify=0.15)


def _owner(d: Draw) -> Phrase:
    """Return "de quién es este coche" / "whose car is this"."""
    thing = _this_thing(d)
    whose, link = d.link(), d.link()
    form = SER.es.form("pres", thing.person)
    determiner, *rest = thing.en
    return Phrase(
        [("de", whose), ("quién", whose), (form, link), *thing.es],
        [("whose", whose), *rest, ("are" if thing.plural else "is", link), determiner],
    )


def _color(d: Draw) -> Phrase:
    noun = d.pick(tagged("thing", "cloth", "vehicle", "furniture"))
    thing = noun_phrase(d, noun, "definite", modify=0)
    be = SER.es.form("pres", thing.person), "are" if thing.plural else "is"
    return d.word(f"de^1 qué^1 color^2 {be[0]}^3", f"what^1 color^2 {be[1]}^3") + thing.phrase()


def _age(d: Draw) -> Phrase:
    subject = _asked_subject(d, False)
    asked = stative_clause(d, _BE_OLD, "pres", subject)
    how = d.word("cuántos^1 años^2", "how^1 old^2")
    return how + Phrase(asked.inverted(), asked.asked())


def _cost(d: Draw) -> Phrase:
    thing = _this_thing(d)
    how, link = d.link(), d.link()
    form, auxiliary = ("cuestan", "do") if thing.plural else ("cuesta", "does")
    return Phrase(
        [("cuánto", how), (form, link), *thing.es],
        [("how", how), ("much", how), (auxiliary, link), *thing.en, ("cost", link)],
    )


_OTHER_KINDS = {
    "who": _who, "whom": _whom, "which": _which, "many": _many, "owner": _owner,
    "color": _color, "age": _age, "cost": _cost,
}  # fmt: skip


def embedded(d: Draw) -> Phrase:
    """Return a question inside a statement: "no sé dónde vive Ana"."""
    return _frame(d) + _embedded_question(d)


def embedded_in_question(d: Draw) -> Phrase:
    """Return a question inside another: "sabes dónde vive Ana"."""
    subject = pronoun(d, d.pick(("tú", "usted")), overt=False)
    return stative_clause(d, _KNOW, "pres", subject).question() + _embedded_question(d)


def _embedded_question(d: Draw) -> Phrase:
    """Return the inner question."""
    kind = _EMBEDDED.draw(d)
    if kind == "if":
        word = d.word("si", "if")
        asked = clause(d, Request(_ASKED, _asked_subject(d, True), 0.3, negation=0.0), 0.3)
        return word + asked.statement()
    word, asked = ASKABLE[kind](d, True)
    return word + Phrase(verb_first(asked), asked.statement().en)


def _frame(d: Draw) -> Phrase:
    """Return "no sé", "me pregunto", "Ana me preguntó" and their translations."""
    choice = d.random()
    if choice < 0.2:
        return d.word("me pregunto", "I wonder")
    if choice < 0.6:
        subject = person_subject(d)
        known = stative_clause(d, _KNOW, "pres", subject)
        if d.chance(0.75):
            known.negate(d)
        return known.statement()
    subject = person_subject(d)
    while subject.en_person in (0, 3):
        subject = person_subject(d)
    asking = stative_clause(d, _ASK, "pret", subject)
    link = d.link()
    asking.es_before.append(("me", link))
    asking.en_after.append(("me", link))
    return asking.statement()
