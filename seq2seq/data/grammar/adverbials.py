"""Adverbials: times, places, manners, and the adverbs that stand before the verb."""

from __future__ import annotations

from . import spanish
from .lexicon import (
    CITIES,
    COUNTRIES,
    FREQUENCY,
    MONTHS,
    NUMBERS,
    SEASONS,
    TIMES,
    WEEKDAYS,
    Complement,
    Entry,
    Noun,
    Verb,
)
from .noun_phrase import NounPhrase
from .phrases import noun_phrase, proper
from .tokens import Draw, Phrase

_HOURS = tuple(n for n in NUMBERS if n.es in (
    "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve", "diez", "once", "doce"
))  # fmt: skip
_YEARS = tuple(str(year) for year in range(2010, 2021))
_PARTS_OF_YEAR = SEASONS * 3 + MONTHS
_DAYS = ("1", "5", "10", "12", "15", "20", "25", "30")
_FEW = NUMBERS[:9]


def _hour(d: Draw) -> Phrase:
    at = d.word("a", "at")
    article = d.link()
    if d.chance(0.08):
        hour, one = d.link(), "one"
        es, en = [("la", article), ("una", hour)], [(one, hour)]
    else:
        number = d.pick(_HOURS)
        hour = d.link()
        es, en = [("las", article), (number.es, hour)], [(number.en, hour)]
    choice = d.random()
    part = d.link()
    if choice < 0.5:
        return at + Phrase(es, [*en, ("o'clock", article)])
    if choice < 0.7:
        return at + Phrase(
            [*es, ("y", part), ("media", part)], [("half", part), ("past", part | article), *en]
        )
    if choice < 0.85:
        sign, preposition, quarter = "y", "past", d.link()
    else:
        sign, preposition, quarter = "menos", "to", d.link()
    return at + Phrase(
        [*es, (sign, part), ("cuarto", quarter)],
        [("a", quarter), ("quarter", quarter), (preposition, part | article), *en],
    )


def _weekday(d: Draw, kind: str) -> Phrase:
    day = d.pick(WEEKDAYS)
    link, other = d.link(), d.link()
    if kind == "on":
        return Phrase([("el", other), (day.es, link)], [("on", other), (day.en, link)])
    if kind == "habit":
        return Phrase(
            [("los", other), (spanish.plural(day.es), link)], [("on", other), (day.en + "s", link)]
        )
    word, en = ("pasado", "last") if kind == "last" else ("próximo", "next")
    es = [(day.es, link), (word, other)] if kind == "last" else [(word, other), (day.es, link)]
    return Phrase([("el", other), *es], [(en, other), (day.en, link)])


def _date(d: Draw) -> Phrase:
    month = d.pick(MONTHS)
    day = d.pick(_DAYS)
    on, number, link = d.link(), d.link(), d.link()
    return Phrase(
        [("el", on), (day, number), ("de", link), (month.es, link)],
        [("on", on), (month.en, link), (day, number)],
    )


def _counted(d: Draw, es: str, en: str, es_first: bool) -> Phrase:
    """Return "hace dos años" / "two years ago" and its like."""
    number = d.pick(_FEW)
    unit = d.pick(_UNITS)
    a, b, c = d.link(), d.link(), d.link()
    words = [(w, a) for w in es.split()]
    es_tokens = [*words, (number.es, b), (unit.es, c)]
    count = [(number.en, b), (unit.en, c)]
    return Phrase(es_tokens, [*count, (en, a)] if es_first else [(en, a), *count])


_UNITS = (
    Entry("días", "days"),
    Entry("semanas", "weeks"),
    Entry("meses", "months"),
    Entry("años", "years"),
)


def _special_time(d: Draw, key: str) -> Phrase:
    """Return an adverbial of time that is composed, not listed."""
    choice = d.random()
    if choice < 0.22:
        return _hour(d)
    if key in ("pres", "imp"):
        if choice < 0.66:
            return _weekday(d, "habit")
        return d.word("en", "in") + d.word(*d.pick(_PARTS_OF_YEAR))
    if choice < 0.38:
        return _weekday(d, "on")
    if choice < 0.47:
        return _weekday(d, "last" if key == "pret" else "next")
    if choice < 0.6:
        return d.word("en", "in") + d.word(*d.pick(MONTHS))
    if choice < 0.78:
        return _date(d)
    if key == "pret":
        if choice < 0.88:
            return _counted(d, "hace", "ago", es_first=True)
        year = d.pick(_YEARS)
        return d.word("en", "in") + d.word(year, year)
    return _counted(d, "dentro de", "in", es_first=False)


def time(d: Draw, key: str) -> Phrase | None:
    """Return when, for a tense; None for a tense that takes no time."""
    if key not in TIMES:
        return None
    if key in ("pres", "imp", "pret", "fut", "modal") and d.chance(0.62):
        return _special_time(d, key)
    return d.word(*d.pick(TIMES[key]))


def past_time(d: Draw) -> Phrase:
    """Return a time that only a past can have."""
    if d.chance(0.2):
        return _counted(d, "hace", "ago", es_first=True)
    if d.chance(0.2):
        return _weekday(d, "last")
    return d.word(*d.pick(TIMES["pret"]))


def frequency(d: Draw, key: str) -> Phrase | None:
    """Return an adverb that precedes the main verb."""
    return d.word(*d.pick(FREQUENCY[key])) if key in FREQUENCY else None


_REGIONS = COUNTRIES + COUNTRIES + CITIES


def place(d: Draw, noun: Noun, owner: NounPhrase | None = None) -> Phrase:
    """Return "en" and a place, with the English preposition the place takes."""
    if noun.es[0] == "casa" and d.chance(0.5):
        return d.word("en^1 casa^2", "at^1 home^2")
    if d.chance(0.3):
        return d.word("en", "in") + d.word(*d.pick(_REGIONS))
    return (
        d.word("en", noun.preposition)
        + noun_phrase(d, noun, "place", owner=owner, modify=0.12).phrase()
    )


def manner(d: Draw, verb: Verb) -> Phrase | None:
    """Return how; None for a verb that takes no manner."""
    return d.word(*d.pick(verb.manners)) if verb.manners else None


def complement(d: Draw, c: Complement, owner: NounPhrase | None, person: NounPhrase) -> Phrase:
    """Return a verb's prepositional complement; `person` fills a human one."""
    en = c.en
    if c.human and (not c.targets or d.chance(0.5)):
        noun_part = person
    else:
        target = d.pick(c.targets)
        if isinstance(target, Entry):
            noun_part = proper(d, target)
        else:
            use = "place" if target.letter == "L" else "definite"
            kind = "def" if "sport" in target.tags else ""
            if target.mass and not kind:
                kind = d.pick(("bare", "def"))
            noun_part = noun_phrase(d, target, use, owner=owner, kind=kind, modify=0.15)
            if en == "in" and target.letter == "L":
                en = target.preposition
            if "sport" in target.tags:
                return Phrase(
                    [(c.es, noun_part.link), *noun_part.es], [(target.en[0], noun_part.link)]
                )
    link = d.link()
    if not en:
        # The English verb takes a direct object: link the preposition to its first word.
        first = noun_part.en[0][1]
        return Phrase([(c.es, first), *noun_part.es], noun_part.en)
    return Phrase([(c.es, link), *noun_part.es], [*((w, link) for w in en.split()), *noun_part.en])
