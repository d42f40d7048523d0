"""What follows a verb: objects, recipients and clitics, times, places and manners."""

from __future__ import annotations

from . import english, spanish
from .clauses import Clause
from .lexicon import (
    ADVERBS,
    CITIES,
    COUNTRIES,
    MONTHS,
    NUMBERS,
    WEEKDAYS,
    Complement,
    Entry,
    Noun,
    Verb,
    entries,
)
from .noun_phrases import NounPhrase, noun_phrase, proper, someone
from .tokens import Draw, Phrase, Token, Tokens, linked


def add_clitics(d: Draw, clause: Clause, clitics: Tokens) -> None:
    """Put clitics before the verb, or onto the infinitive where the verb allows it."""
    verb, group = clause.verb, clause.group
    tags = verb.tags if verb is not None else frozenset()
    if group.infinitive_last and ("encr" in tags or ("enc" in tags and d.chance(0.6))):
        word, mask = group.es[-1]
        for _, link in clitics:
            mask |= link
        group.es[-1] = (spanish.enclitic(word, tuple(c for c, _ in clitics)), mask)
    else:
        clause.es_before += clitics


def add_object(d: Draw, clause: Clause, verb: Verb, negated: bool) -> None:
    """Add the direct object of a verb and its recipient."""
    choice = d.random()
    with_recipient = bool(verb.recipient) and not (verb.recipient_optional and d.chance(0.5))
    person = verb.human and (not verb.objects or d.chance(0.5))
    if person:
        _add_person(d, clause, choice)
        return
    bare = "noclit" not in verb.tags
    if choice < 0.05 and not with_recipient and not verb.stative and bare:
        en = "anything" if negated else "something"
        clause.add(d.word("nada" if negated else "algo", en))
        return
    if choice < 0.17 and bare and not isinstance(verb.objects[0], Entry):
        _add_thing_clitic(d, clause, with_recipient, verb)
        return
    target = d.pick(verb.objects)
    thing = _thing(d, target, clause.subject, negated)
    clause.object = thing
    if with_recipient:
        _add_recipient(d, clause, verb, thing)
    else:
        clause.add(thing.phrase())


def _thing(d: Draw, target: Noun | Entry, owner: NounPhrase, negated: bool) -> NounPhrase:
    """Return a thing as the object of a verb."""
    if isinstance(target, Entry):
        return proper(d, target)
    tags = target.tags
    if "language" in tags or "subject" in tags:
        return noun_phrase(d, target, kind="bare", modify=0)
    if "instrument" in tags or "sport" in tags:
        thing = noun_phrase(d, target, kind="def", modify=0)
        if "sport" in tags:
            thing.es[0] = (thing.es[0][0], thing.link)
            thing.en = thing.en[1:]
        return thing
    use = "place" if target.letter == "L" else "object"
    return noun_phrase(d, target, use, owner=owner, negated=negated)


def _add_person(d: Draw, clause: Clause, choice: float) -> None:
    """Add a person as the direct object."""
    subject = clause.subject
    verb = clause.verb
    bare_clitic = verb is not None and "noclit" not in verb.tags
    if choice < 0.2 and bare_clitic:
        clitic = _speaker(d, subject)
        if clitic is not None:
            add_clitics(d, clause, clitic.es)
            clause.en_after += clitic.en
            return
    if choice < 0.3 and bare_clitic:
        feminine, many = d.chance(0.5), d.chance(0.4)
        link = d.link()
        es = spanish.direct_clitic(feminine, many)
        en = "them" if many else "her" if feminine else "him"
        add_clitics(d, clause, [(es, link)])
        clause.en_after.append((en, link))
        if verb is not None and verb.objects and not many:
            # lo/la alone would be "it" with a verb that takes things too
            clause.es_after += [("a", link), ("ella" if feminine else "él", link)]
        return
    noun_part = someone(d, subject)
    if noun_part.es[0][0] in ("él", "ella"):
        link = noun_part.link
        add_clitics(d, clause, [(spanish.direct_clitic(noun_part.feminine, False), link)])
    clause.es_after += [("a", noun_part.link), *noun_part.es]
    clause.en_after += noun_part.en


def _speaker(d: Draw, subject: NounPhrase) -> Phrase | None:
    """Return me, te or nos, if the subject does not include them."""
    person = d.pick((0, 0, 1, 3))
    second = person == spanish.TU
    if subject.en_person in (
        (english.SECOND, english.SECOND_PLURAL) if second else (english.FIRST, english.FIRST_PLURAL)
    ):
        return None
    return d.word(spanish.DATIVES[person], english.pronoun("object", person))


def _add_thing_clitic(d: Draw, clause: Clause, with_recipient: bool, verb: Verb) -> None:
    feminine, many = d.chance(0.5), d.chance(0.35)
    link = d.link()
    it: Token = (spanish.direct_clitic(feminine, many), link)
    en: Token = ("them" if many else "it", link)
    if not with_recipient:
        add_clitics(d, clause, [it])
        clause.en_after.append(en)
        return
    speaker = _speaker(d, clause.subject) if d.chance(0.5) else None
    if speaker is not None:
        add_clitics(d, clause, [*speaker.es, it])
        clause.en_after += [en, ("to", speaker.es[0][1]), *speaker.en]
        return
    to = d.link()
    person = someone(d, clause.subject)
    add_clitics(d, clause, [("se", to), it])
    clause.es_after += [("a", to), *person.es]
    clause.en_after += [en, ("to", to), *person.en]


def _add_recipient(d: Draw, clause: Clause, verb: Verb, thing: NounPhrase) -> None:
    speaker = _speaker(d, clause.subject) if d.chance(0.4) else None
    if speaker is not None:
        add_clitics(d, clause, speaker.es)
        clause.es_after += thing.es
        if verb.recipient == "rec":
            clause.en_after += [*speaker.en, *thing.en]
        else:
            clause.en_after += [*thing.en, ("to", speaker.en[0][1]), *speaker.en]
        return
    to = d.link()
    person = someone(d, clause.subject)
    add_clitics(d, clause, [("les" if person.person == spanish.ELLOS else "le", to)])
    clause.es_after += [*thing.es, ("a", to), *person.es]
    clause.en_after += [*thing.en, ("to", to), *person.en]


_HOURS = NUMBERS[:11]
_YEARS = tuple(str(year) for year in range(2010, 2021))
_PARTS_OF_YEAR = entries("season") * 3 + MONTHS
_DAYS = ("1", "5", "10", "12", "15", "20", "25", "30")
_FEW = NUMBERS[:9]
_UNITS = entries("unit")


def _hour(d: Draw) -> Phrase:
    """Return "a las dos y media" / "at half past two" and the like."""
    if d.chance(0.08):
        es, en = "a^1 la^2 una^3", "one^3"
    else:
        number = d.pick(_HOURS)
        es, en = f"a^1 las^2 {number.es}^3", f"{number.en}^3"
    choice = d.random()
    if choice < 0.5:
        return d.word(es, f"at^1 {en} o'clock^2")
    if choice < 0.7:
        return d.word(f"{es} y^4 media^4", f"at^1 half^4 past^42 {en}")
    if choice < 0.85:
        return d.word(f"{es} y^4 cuarto^5", f"at^1 a^5 quarter^5 past^42 {en}")
    return d.word(f"{es} menos^4 cuarto^5", f"at^1 a^5 quarter^5 to^42 {en}")


def _weekday(d: Draw, kind: str) -> Phrase:
    """Return on which day: "on", "habit" (on each), "last" or "next"."""
    es, en = d.pick(WEEKDAYS)
    if kind == "on":
        return d.word(f"el^1 {es}^2", f"on^1 {en}^2")
    if kind == "habit":
        return d.word(f"los^1 {spanish.plural(es)}^2", f"on^1 {en}s^2")
    if kind == "last":
        return d.word(f"el^1 {es}^2 pasado^1", f"last^1 {en}^2")
    return d.word(f"el^1 próximo^1 {es}^2", f"next^1 {en}^2")


def _date(d: Draw) -> Phrase:
    month = d.pick(MONTHS)
    day = d.pick(_DAYS)
    return d.word(f"el^1 {day}^2 de^3 {month.es}^3", f"on^1 {month.en}^3 {day}^2")


def _counted(d: Draw, es: str, en: str) -> Phrase:
    """Return a count of days, weeks ... in two patterns, with # for the count and its unit."""
    number = d.pick(_FEW)
    unit = d.pick(_UNITS)
    return d.word(
        es.replace("#", f"{number.es}^2 {unit.es}^3"), en.replace("#", f"{number.en}^2 {unit.en}^3")
    )


def _ago(d: Draw) -> Phrase:
    return _counted(d, "hace^1 #", "# ago^1")


def _special_time(d: Draw, key: str) -> Phrase:
    """Return an adverbial of time that is not listed but composed."""
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
            return _ago(d)
        year = d.pick(_YEARS)
        return d.word("en", "in") + d.word(year, year)
    return _counted(d, "dentro^1 de^1 #", "in^1 #")


def time(d: Draw, key: str) -> Phrase | None:
    """Return an adverbial of time for a tense; None for a tense that takes none."""
    if ("time", key) not in ADVERBS:
        return None
    if key in ("pres", "imp", "pret", "fut", "modal") and d.chance(0.62):
        return _special_time(d, key)
    return d.word(*d.pick(ADVERBS["time", key]))


def past_time(d: Draw) -> Phrase:
    """Return an adverbial of time that only a past tense takes."""
    if d.chance(0.2):
        return _ago(d)
    if d.chance(0.2):
        return _weekday(d, "last")
    return d.word(*d.pick(ADVERBS["time", "pret"]))


def frequency(d: Draw, key: str) -> Phrase | None:
    """Return an adverb that precedes the main verb."""
    adverbs = ADVERBS.get(("frequency", key))
    return d.word(*d.pick(adverbs)) if adverbs else None


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


def in_or_on(d: Draw, noun: Noun, owner: NounPhrase | None = None, modify: float = 0.0) -> Phrase:
    """Return "en" and a piece of furniture or a container."""
    preposition = d.word("en", "in" if "inside" in noun.tags else "on")
    return preposition + noun_phrase(d, noun, "place", owner=owner, modify=modify).phrase()


def manner(d: Draw, verb: Verb) -> Phrase | None:
    """Return an adverb of manner; None for a verb that takes none."""
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
    return Phrase([(c.es, link), *noun_part.es], [*linked(en, link), *noun_part.en])
