"""Clauses without a subject of their own: weather, clock, hay, and es + adjective."""

from __future__ import annotations

from .actions import infinitive
from .lexicon import NUMBERS, WEEKDAYS, Entry, Noun, tagged
from .noun_phrase import NounPhrase
from .phrases import noun_phrase
from .tokens import Draw, Phrase

_WEATHER = (
    ("hace", "calor", "hot"), ("hace", "frío", "cold"), ("hace", "sol", "sunny"),
    ("hace", "viento", "windy"),
)  # fmt: skip
_WEATHER_TIMES = (
    Entry("hoy", "today"),
    Entry("esta^1 mañana^2", "this^1 morning^2"),
    Entry("en^1 invierno^2", "in^1 winter^2"),
    Entry("en^1 verano^2", "in^1 summer^2"),
    Entry("aquí", "here"),
    Entry("en^1 la^2 playa^3", "on^1 the^2 beach^3"),
)


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
        verb, noun, en = d.pick(_WEATHER)
        other = d.link()
        es_words = [(verb, other)]
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
        spot = d.pick(_LARDER)
        preposition = "in" if "inside" in spot.tags else "on"
        return d.word("en", preposition) + noun_phrase(d, spot, "place", modify=0).phrase()
    wild = "animal" in noun.tags and "pet" not in noun.tags
    if noun.human or wild or d.chance(0.3):
        spot = d.pick(_OUTDOORS if wild else _PLACES)
        preposition = spot.preposition
    else:
        spot = d.pick(_SPOTS)
        preposition = "in" if "inside" in spot.tags else "on"
    return d.word("en", preposition) + noun_phrase(d, spot, "place", modify=0.1).phrase()


_JUDGED = (
    Entry("importante", "important"), Entry("difícil", "difficult"), Entry("fácil", "easy"),
    Entry("peligroso", "dangerous"), Entry("posible", "possible"),
    Entry("necesario", "necessary"), Entry("aburrido", "boring"), Entry("divertido", "fun"),
)  # fmt: skip


def judged(d: Draw) -> Phrase:
    """Say "es importante comer fruta" / "it is important to eat fruit"."""
    verb, no, to = d.link(), d.link(), d.link()
    adjective = d.word(*d.pick(_JUDGED))
    negated = d.chance(0.25)
    someone = NounPhrase([("ellos", to)], [("they", to)], 5, 5, False, to, vague=True)
    rest = infinitive(d, someone)
    first = rest.es[0]
    return Phrase(
        [*([("no", no)] if negated else []), ("es", verb), *adjective.es, *rest.es],
        [("it", verb), ("is", verb), *([("not", no)] if negated else []), *adjective.en,
         ("to", first[1]), *rest.en],
    )  # fmt: skip
