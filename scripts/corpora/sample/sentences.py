"""Sentences: every kind with its frequency, and the impersonal clauses and chains among them."""

from __future__ import annotations

from collections.abc import Callable

from . import english, linking, questions, spanish
from .actions import MAIN, Request, action, infinitive
from .clauses import SER
from .complements import in_or_on
from .lexicon import NUMBERS, VERBS, WEEKDAYS, Entry, Noun, entries, tagged
from .linking import clause
from .noun_phrases import ATTRIBUTIVE, NounPhrase, noun_phrase, pronoun
from .tokens import NOTHING, Draw, Phrase, Weighted, linked


def weather(d: Draw) -> Phrase:
    """Return a statement about the weather."""
    choice = d.random()
    if choice < 0.3:
        found = d.word(*d.pick(entries("rain")))
    elif choice < 0.5:
        found = d.word(*d.pick(entries("raining")))
    else:
        es, en = d.pick(entries("weather"))
        very = ("mucho^3 ", "very^3 ") if d.chance(0.35) else ("", "")
        found = d.word(f"hace^1 {very[0]}{es}^2", f"it^1 is^1 {very[1]}{en}^2")
    if d.chance(0.55):
        found += d.word(*d.pick(entries("weather time")))
    return found


def calendar(d: Draw) -> Phrase:
    """Return a statement about the day or the time."""
    if d.chance(0.4):
        es, en = d.pick((("hoy", "today"), ("mañana", "tomorrow")))
        day = d.pick(WEEKDAYS)
        return d.word(f"{es}^1 es^2 {day.es}^3", f"{en}^1 is^2 {day.en}^3")
    hour = d.pick(NUMBERS[:11])
    if d.chance(0.4):
        return d.word(f"son^1 las^2 {hour.es}^3", f"it^1 is^1 {hour.en}^3 o'clock^2")
    return d.word(f"son^1 las^2 {hour.es}^3 y^4 media^4", f"it^1 is^1 half^4 past^42 {hour.en}^3")


_FOUND = tagged("thing", "cloth", "food", "drink", "animal", "read")
_SPOTS = tagged("surface", "inside")
_LARDER = tagged("larder")
_OUTDOORS = tagged("outdoor")
_PLACES = tagged("building", "room", "outdoor")


def existence(d: Draw, asked: bool = False) -> Phrase:
    """Return what there is somewhere, as a statement or a question."""
    negated = not asked and d.chance(0.2)
    people = d.chance(0.25)
    noun = d.pick(tagged("job", "person") if people else _FOUND)
    kind = "bare" if noun.mass or noun.plural_only else d.pick(("indef", "num", "many", "bare"))
    if negated:
        kind = "bare"
    thing = noun_phrase(d, noun, kind=kind, modify=0.2)
    past = d.chance(0.2)
    link = d.link()
    one = not thing.plural
    be = ("was" if past else "is") if one else ("were" if past else "are")
    verb = "había" if past else "hay"
    at = _spot(d, noun)
    if asked:
        some = [("any", thing.link)] if kind == "bare" else []
        return Phrase(
            [(verb, link), *thing.es, *at.es],
            [(be, link), ("there", link), *some, *thing.en, *at.en],
        )
    no = d.word("no", "no") if negated else NOTHING
    return Phrase(
        [*no.es, (verb, link), *thing.es, *at.es],
        [("there", link), (be, link), *no.en, *thing.en, *at.en],
    )


def _spot(d: Draw, noun: Noun) -> Phrase:
    """Return where something may be found."""
    if noun.letter in "FD":
        return in_or_on(d, d.pick(_LARDER))
    wild = "animal" in noun.tags and "pet" not in noun.tags
    if noun.human or wild or d.chance(0.3):
        place = d.pick(_OUTDOORS if wild else _PLACES)
        found = noun_phrase(d, place, "place", modify=0.1)
        return d.word("en", place.preposition) + found.phrase()
    return in_or_on(d, d.pick(_SPOTS), modify=0.1)


def opinion(d: Draw) -> Phrase:
    """Return "es importante comer fruta" / "it is important to eat fruit" and the like."""
    adjective = d.word(*d.pick(entries("opinion")))
    be = d.word("no^2 es^1", "it^1 is^1 not^2") if d.chance(0.25) else d.word("es", "it is")
    someone = NounPhrase([], [], spanish.ELLOS, english.THIRD_PLURAL, False, vague=True)
    rest = infinitive(d, someone)
    return be + adjective + Phrase(rest.es, [("to", rest.es[0][1]), *rest.en])


_COMMANDS = tuple(v for v in VERBS if "cmd" in v.tags)
_FORBIDDEN_VERBS = tuple(v for v in linking.SUBJUNCTIVE_VERBS if not v.stative)
_IMPERATIVE = Weighted.parse("pres 1")
_FORBIDDEN = Weighted.parse("subj 1")


def _close(d: Draw, phrase: Phrase) -> Phrase:
    return phrase + d.word(".", ".")


def _enclose(d: Draw, phrase: Phrase, opening: str, closing: str) -> Phrase:
    link = d.link()
    return Phrase([(opening, link), *phrase.es, (closing, link)], [*phrase.en, (closing, link)])


def _simple(d: Draw) -> Phrase:
    return clause(d, Request(MAIN, vague=True, front=True), 0.27).statement()


def _command(d: Draw) -> Phrase:
    """Build a command or a prohibition."""
    forbid = d.chance(0.3)
    subject = pronoun(d, "tú", overt=False)
    subject.es, subject.drop = [], 0
    verbs = _FORBIDDEN_VERBS if forbid else _COMMANDS
    request = Request(
        _FORBIDDEN if forbid else _IMPERATIVE, subject, 0.35, negation=0.0, verbs=verbs
    )
    told = action(d, request)
    while (told.es_before and not forbid) or told.en_adverb:
        told = action(d, request)
    verb = told.verb
    form, link = told.group.es[0]
    _, *base = told.group.marked
    if forbid or verb is None:
        no = d.link()
        es = [("no", no), *told.es_before, (form, link), *told.es_after]
        en = [("do", link), ("not", no), *base, *told.en_after]
    else:
        es = [(verb.es.imperative, link), *told.es_after]
        en = [*base, *told.en_after]
    phrase = Phrase(es, en)
    if d.chance(0.5):
        return _close(d, phrase + d.word(",", ",") + d.word("por favor", "please"))
    return _enclose(d, phrase, "¡", "!")


def _exclamation(d: Draw) -> Phrase:
    """Build "¡Qué casa tan bonita!" or "¡Qué bonita es la casa!"."""
    noun = d.pick(tagged("thing", "cloth", "vehicle", "building", "animal", "event", "read"))
    options = [a for a in ATTRIBUTIVE[noun.letter] if a.gradable and a.ser]
    adjective = d.pick(options)
    what, link = d.link(), d.link()
    if noun.plural_only or d.chance(0.5):
        thing = noun_phrase(d, noun, "definite", modify=0)
        verb = d.link()
        form = adjective.agree(thing.feminine, thing.plural)
        es = [("qué", what), (form, link), (SER.es.form("pres", thing.person), verb), *thing.es]
        en = [("how", what), (adjective.en, link), *thing.en,
              ("are" if thing.plural else "is", verb)]  # fmt: skip
        return _enclose(d, Phrase(es, en), "¡", "!")
    such, head = d.link(), d.link()
    es = [("qué", what), (noun.es[0], head), ("tan", such), (adjective.agree(noun.feminine, False),
          link)]  # fmt: skip
    en = [("what", what), ("a", what | such), (adjective.en, link),
          *linked(noun.en[0], head)]  # fmt: skip
    return _enclose(d, Phrase(es, en), "¡", "!")


def _existence(d: Draw) -> Phrase:
    if d.chance(0.25):
        return _enclose(d, existence(d, asked=True), "¿", "?")
    return _close(d, existence(d))


# Without their punctuation.
_STATEMENTS: dict[str, Callable[[Draw], Phrase]] = {
    "simple": _simple,
    "weather": weather,
    "calendar": calendar,
    "opinion": opinion,
    "embedded": questions.embedded,
    "complex": linking.complex_clause,
    "coordination": linking.coordination,
    "reported": linking.reported,
    "wished": linking.wished,
    "infinitive": linking.with_infinitive,
    "relative": linking.with_relative,
    "object_relative": linking.with_object_relative,
    "clitic": linking.with_clitic,
    "fronted": linking.fronted_object,
}
_QUESTIONS: dict[str, Callable[[Draw], Phrase]] = {
    "yes/no": questions.yes_no,
    "wh": questions.wh,
    "asked_embedded": questions.embedded_in_question,
}
_CHAIN = Weighted.parse("complex 30 coordination 22 reported 18 wished 5 infinitive 10 relative 10")
_CHAIN_LENGTHS = Weighted.parse("2 62 3 25 4 9 5 4")
_CHAIN_JOINTS = entries("chain")
SUBJECT_PRONOUNS = frozenset(("you", "they", "we", "I", "he", "she", "it"))


def _chain(d: Draw) -> Phrase:
    """Join several complex clauses into one long sentence."""
    found = _STATEMENTS[_CHAIN.draw(d)](d)
    before: Entry | None = None
    for _ in range(int(_CHAIN_LENGTHS.draw(d)) - 1):
        joint = d.pick([j for j in _CHAIN_JOINTS if j is not before])
        before = joint
        found = found + d.word(",", ",") + d.word(*joint) + independent(d)
    return _close(d, found)


def independent(d: Draw) -> Phrase:
    """Return a complex clause that opens with a subject of its own."""
    while True:
        phrase = _STATEMENTS[_CHAIN.draw(d)](d)
        if phrase.en[0][0] not in SUBJECT_PRONOUNS:
            return phrase


_SENTENCES: dict[str, Callable[[Draw], Phrase]] = {
    "command": _command,
    "exclamation": _exclamation,
    "existence": _existence,
    "chain": _chain,
}
_WEIGHTS = Weighted.parse(
    "simple 46 yes/no 6 wh 8 command 4 exclamation 1.5 weather 0.4 calendar 0.2 existence 2.5"
    " opinion 1.5 embedded 2.4 asked_embedded 0.8 complex 8 coordination 4 reported 4 wished 2"
    " infinitive 3 relative 3 object_relative 1.5 clitic 1.5 fronted 1.2 chain 7"
)


def sentence(d: Draw) -> Phrase:
    """Build one sentence of any kind."""
    kind = _WEIGHTS.draw(d)
    if kind in _STATEMENTS:
        return _close(d, _STATEMENTS[kind](d))
    if kind in _QUESTIONS:
        return _enclose(d, _QUESTIONS[kind](d), "¿", "?")
    return _SENTENCES[kind](d)
