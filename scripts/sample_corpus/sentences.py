"""Sentences: the kinds there are, how often each comes, and chains of clauses."""

from __future__ import annotations

from collections.abc import Callable

from . import linking, questions
from .actions import MAIN, Request, action, infinitive
from .clauses import SER
from .complements import in_or_on
from .lexicon import NUMBERS, VERBS, WEEKDAYS, Entry, Noun, entries, tagged
from .linking import clause, comma
from .noun_phrases import ATTRIBUTIVE, NounPhrase, noun_phrase, pronoun
from .tokens import Draw, Phrase, Weighted, linked

_WEATHER_TIMES = entries("weather time")


def weather(d: Draw) -> Phrase:
    """Say what the weather is like, without a full stop."""
    choice = d.random()
    link = d.link()
    if choice < 0.3:
        es, en = d.pick((("llueve", "rains"), ("nieva", "snows")))
        found = Phrase([(es, link)], [("it", link), (en, link)])
    elif choice < 0.5:
        es, en = d.pick((("lloviendo", "raining"), ("nevando", "snowing")))
        other = d.link()
        found = Phrase([("está", other), (es, link)], [("it", other), ("is", other), (en, link)])
    else:
        noun, en = d.pick(entries("weather"))
        other = d.link()
        es_words = [("hace", other)]
        en_words = [("it", other), ("is", other)]
        if d.chance(0.35):
            very = d.link()
            es_words.append(("mucho", very))
            en_words.append(("very", very))
        found = Phrase([*es_words, (noun, link)], [*en_words, (en, link)])
    if d.chance(0.55):
        found += d.word(*d.pick(_WEATHER_TIMES))
    return found


def calendar(d: Draw) -> Phrase:
    """Say what day or what time it is, without a full stop."""
    a, b, c = d.link(), d.link(), d.link()
    if d.chance(0.4):
        es, en = d.pick((("hoy", "today"), ("mañana", "tomorrow")))
        day = d.pick(WEEKDAYS)
        return Phrase([(es, a), ("es", b), (day.es, c)], [(en, a), ("is", b), (day.en, c)])
    hour = d.pick(NUMBERS[:11])
    es_tokens = [("son", a), ("las", b), (hour.es, c)]
    en_tokens = [("it", a), ("is", a)]
    part = d.link()
    if d.chance(0.4):
        en_tokens += [(hour.en, c), ("o'clock", b)]
    else:
        es_tokens += [("y", part), ("media", part)]
        en_tokens += [("half", part), ("past", part | b), (hour.en, c)]
    return Phrase(es_tokens, en_tokens)


_FOUND = tagged("thing", "cloth", "food", "drink", "animal", "read")
_SPOTS = tagged("surface", "inside")
_LARDER = tagged("larder")
_OUTDOORS = tagged("outdoor")
_PLACES = tagged("building", "room", "outdoor")


def existence(d: Draw, asked: bool = False) -> Phrase:
    """Say what there is somewhere, without a full stop."""
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
    no = d.link()
    return Phrase(
        [*([("no", no)] if negated else []), (verb, link), *thing.es, *at.es],
        [("there", link), (be, link), *([("no", no)] if negated else []), *thing.en, *at.en],
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


def judged(d: Draw) -> Phrase:
    """Say "es importante comer fruta" / "it is important to eat fruit"."""
    verb, no, to = d.link(), d.link(), d.link()
    adjective = d.word(*d.pick(entries("opinion")))
    negated = d.chance(0.25)
    someone = NounPhrase([("ellos", to)], [("they", to)], 5, 5, False, to, vague=True)
    rest = infinitive(d, someone)
    first = rest.es[0]
    return Phrase(
        [*([("no", no)] if negated else []), ("es", verb), *adjective.es, *rest.es],
        [("it", verb), ("is", verb), *([("not", no)] if negated else []), *adjective.en,
         ("to", first[1]), *rest.en],
    )  # fmt: skip


_COMMANDS = tuple(v for v in VERBS if "cmd" in v.tags)
_FORBIDDEN_VERBS = tuple(v for v in linking.SUBJUNCTIVE_VERBS if not v.stative)
_IMPERATIVE = Weighted.parse("pres 1")
_FORBIDDEN = Weighted.parse("subj 1")


def _close(d: Draw, phrase: Phrase) -> Phrase:
    link = d.link()
    return Phrase([*phrase.es, (".", link)], [*phrase.en, (".", link)])


def _enclose(d: Draw, phrase: Phrase, opening: str, closing: str) -> Phrase:
    link = d.link()
    return Phrase([(opening, link), *phrase.es, (closing, link)], [*phrase.en, (closing, link)])


def _simple(d: Draw) -> Phrase:
    return _close(d, clause(d, Request(MAIN, vague=True, front=True), 0.27).statement())


def _yes_no(d: Draw) -> Phrase:
    return _enclose(d, questions.yes_no(d), "¿", "?")


def _wh(d: Draw) -> Phrase:
    return _enclose(d, questions.wh(d), "¿", "?")


def _command(d: Draw) -> Phrase:
    """Tell someone to do something, or not to."""
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
        return _close(d, phrase + comma(d) + d.word("por favor", "please"))
    return _enclose(d, phrase, "¡", "!")


def _exclamation(d: Draw) -> Phrase:
    """Say "¡Qué casa tan bonita!" or "¡Qué bonita es la casa!"."""
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


def _asked_embedded(d: Draw) -> Phrase:
    return _enclose(d, questions.embedded_in_question(d), "¿", "?")


def _closed(build: Callable[[Draw], Phrase]) -> Callable[[Draw], Phrase]:
    def closed(d: Draw) -> Phrase:
        return _close(d, build(d))

    return closed


_LINKS: dict[str, Callable[[Draw], Phrase]] = {
    "complex": linking.complex_clause,
    "coordination": linking.coordination,
    "reported": linking.reported,
    "wished": linking.wished,
    "infinitive": linking.with_infinitive,
    "relative": linking.with_relative,
    "object_relative": linking.with_object_relative,
}
_CHAIN = Weighted.parse("complex 30 coordination 22 reported 18 wished 5 infinitive 10 relative 10")
_CHAIN_LENGTHS = Weighted.parse("2 62 3 25 4 9 5 4")
_CHAIN_JOINTS = entries("chain")


def _chain(d: Draw) -> Phrase:
    """Join several complex clauses into one long sentence."""
    found = _LINKS[_CHAIN.draw(d)](d)
    before: Entry | None = None
    for _ in range(int(_CHAIN_LENGTHS.draw(d)) - 1):
        joint = d.pick([j for j in _CHAIN_JOINTS if j is not before])
        before = joint
        found = found + comma(d) + d.word(*joint) + _independent(d)
    return _close(d, found)


def _independent(d: Draw) -> Phrase:
    """Return a complex clause that opens with a subject of its own."""
    while True:
        phrase = _LINKS[_CHAIN.draw(d)](d)
        if phrase.en[0][0] not in ("you", "they", "we", "I", "he", "she", "it"):
            return phrase


_KINDS: dict[str, Callable[[Draw], Phrase]] = {
    "simple": _simple,
    "yes/no": _yes_no,
    "wh": _wh,
    "command": _command,
    "exclamation": _exclamation,
    "weather": _closed(weather),
    "calendar": _closed(calendar),
    "existence": _existence,
    "judged": _closed(judged),
    "embedded": _closed(questions.embedded),
    "asked_embedded": _asked_embedded,
    "complex": _closed(linking.complex_clause),
    "coordination": _closed(linking.coordination),
    "reported": _closed(linking.reported),
    "wished": _closed(linking.wished),
    "infinitive": _closed(linking.with_infinitive),
    "relative": _closed(linking.with_relative),
    "object_relative": _closed(linking.with_object_relative),
    "clitic": _closed(linking.with_clitic),
    "fronted": _closed(linking.fronted_object),
    "chain": _chain,
}
_WEIGHTS = Weighted.parse(
    "simple 46 yes/no 6 wh 8 command 4 exclamation 1.5 weather 0.4 calendar 0.2 existence 2.5"
    " judged 1.5 embedded 2.4 asked_embedded 0.8 complex 8 coordination 4 reported 4 wished 2"
    " infinitive 3 relative 3 object_relative 1.5 clitic 1.5 fronted 1.2 chain 7"
)


def sentence(d: Draw) -> Phrase:
    """Build one sentence of any kind."""
    return _KINDS[_WEIGHTS.draw(d)](d)
