"""The lexicon: the tables of this package, read into the objects the grammar works with."""

from __future__ import annotations

from functools import cache

from .. import english, spanish
from ..tokens import Weighted
from . import adjectives, closed, irregular, nouns, verbs
from .model import Adjective, Complement, Entry, Noun, Periphrasis, Verb

__all__ = [
    "ADJECTIVES", "CITIES", "COUNTRIES", "FREQUENCY", "MADE_OF", "MATERIALS", "MEN", "MONTHS",
    "NOUNS", "NUMBERS", "ORDINALS", "PERIPHRASES", "PERIPHRASIS_WEIGHTS", "SEASONS", "TIMES",
    "VERBS", "WEEKDAYS", "WOMEN", "Adjective", "Complement", "Entry", "Noun", "Periphrasis",
    "Verb", "paradigm", "tagged",
]  # fmt: skip

_LETTERS = (
    ("hum", "P"), ("animal", "A"), ("read", "R"), ("thing", "O"), ("furniture", "O"),
    ("fixture", "O"), ("instrument", "O"), ("cloth", "C"), ("vehicle", "V"), ("food", "F"),
    ("drink", "D"), ("place", "L"), ("room", "L"), ("abstract", "X"), ("event", "E"),
    ("body", "B"),
)  # fmt: skip
_PREPOSITIONS = frozenset({"in", "at", "on"})


def _lines(table: str) -> list[str]:
    return [line for line in table.strip().splitlines() if line.strip()]


def _marks() -> dict[str, str]:
    rows = (line.partition(":") for line in _lines(irregular.TABLE))
    return {lemma: marks for lemma, _, marks in rows}


_IRREGULAR = _marks()


def paradigm(lemma: str) -> spanish.Paradigm:
    """Conjugate a verb, looking up what is irregular about it."""
    return spanish.conjugate(lemma, _IRREGULAR.get(lemma, ""))


def _entries(table: str) -> tuple[Entry, ...]:
    pairs = (item.split("=") for item in table.split())
    return tuple(Entry(es, en.replace("_", " ")) for es, en in pairs)


def _noun(line: str, section: list[str]) -> Noun:
    es, gender, en, *extra = line.split()
    options = dict(item.split("=") for item in extra if "=" in item)
    tags = [*section, *(item.lstrip("+") for item in extra if "=" not in item)]
    en = en.replace("_", " ")
    plural_only = "only" in tags
    own = [tag for tag in tags if tag in _PREPOSITIONS]
    return Noun(
        es=(es, options.get("pl") or spanish.plural(es)),
        en=(en, en if plural_only else options.get("enpl") or english.plural(en)),
        feminine=gender == "f",
        tags=frozenset(tags),
        letter=next((letter for tag, letter in _LETTERS if tag in tags), ""),
        preposition=own[-1] if own else "in",
    )


def _read_nouns() -> tuple[Noun, ...]:
    found: list[Noun] = []
    section: list[str] = []
    for line in _lines(nouns.TABLE):
        if line.startswith("["):
            section = line.strip("[]").split()
        else:
            found.append(_noun(line, section))
    return tuple(found)


def _read_adjectives() -> tuple[Adjective, ...]:
    found = []
    for line in _lines(adjectives.TABLE):
        es, en, letters, copula, *tags = line.split()
        options = dict(tag.split("=") for tag in tags if "=" in tag)
        forms = spanish.adjective_forms(es, options.get("fem", ""), options.get("pl", ""))
        found.append(
            Adjective(
                forms=forms,
                en=en,
                grades=english.grades(en),
                letters=letters,
                ser=copula == "ser",
                short=options.get("short", es),
                prenominal="pre" in tags or "only" in tags,
                only_prenominal="only" in tags,
                predicative="pred" in tags,
                gradable="abs" not in tags and "only" not in tags and "rel" not in tags,
                relational="rel" in tags,
            )
        )
    return tuple(found)


NOUNS = _read_nouns()
ADJECTIVES = _read_adjectives()
MEN = tuple(closed.MEN.split())
WOMEN = tuple(closed.WOMEN.split())
CITIES = _entries(closed.CITIES)
COUNTRIES = _entries(closed.COUNTRIES)
NUMBERS = _entries(closed.NUMBERS)
ORDINALS = _entries(closed.ORDINALS)
WEEKDAYS = _entries(closed.WEEKDAYS)
MONTHS = _entries(closed.MONTHS)
SEASONS = _entries(closed.SEASONS)
MATERIALS = _entries(closed.MATERIALS)


def _index_nouns() -> dict[str, tuple[Noun | Entry, ...]]:
    index: dict[str, list[Noun | Entry]] = {
        "city": list(CITIES),
        "travel": [*CITIES, *COUNTRIES],
        "live": [*COUNTRIES],
    }
    for noun in NOUNS:
        for tag in sorted(noun.tags):
            index.setdefault(tag, []).append(noun)
    by_name = {noun.es[0]: noun for noun in NOUNS}
    for line in _lines(verbs.GROUPS):
        tag, members = line.split(":")
        index[tag] = [
            item
            for name in members.split()
            for item in (index[name[1:]] if name.startswith("+") else [by_name[name]])
        ]
    return {tag: tuple(found) for tag, found in index.items()}


TARGETS = _index_nouns()


@cache
def tagged(*tags: str) -> tuple[Noun, ...]:
    """Return the nouns with any of the tags, each once, in the order of the table."""
    found = dict.fromkeys(item for tag in tags for item in TARGETS[tag])
    return tuple(item for item in found if isinstance(item, Noun))


def _targets(tags: str) -> tuple[Noun | Entry, ...]:
    names = [tag for tag in tags.split(",") if tag not in ("hum", "stranger")]
    return tuple(dict.fromkeys(item for tag in names for item in TARGETS[tag]))


def _complement(field: str) -> Complement:
    head, _, tags = field.partition(":")[2].partition(":")
    es, _, en = head.partition(">")
    names = tags.split(",")
    kin = "hum" in names
    human = kin or "stranger" in names
    return Complement(es, en, field.startswith("pp?"), human, kin, _targets(tags))


def _read_manners() -> dict[str, tuple[Entry, ...]]:
    found: dict[str, list[Entry]] = {}
    for line in _lines(closed.MANNER):
        letter, es, en = (field.strip() for field in line.split("|"))
        found.setdefault(letter, []).append(Entry(es, en))
    return {letter: tuple(entries) for letter, entries in found.items()}


_MANNERS = _read_manners()


def _verb(line: str) -> Verb:
    head, en, subjects, frame, tag_field = (field.strip() for field in line.split("|"))
    lemma, *marks = head.split()
    fields = frame.split()
    tags = tag_field.split()
    options = dict(tag.split("=") for tag in tags if "=" in tag)
    objects = [field for field in fields if field.startswith("obj")]
    complements = [field for field in fields if field.startswith("pp")]
    places = [tag.partition(":")[2] for tag in tags if tag.startswith("loc:")]
    return Verb(
        es=paradigm(lemma),
        en=english.verb(en),
        reflexive="se" in marks,
        subjects=tuple(subjects.split()),
        objects=_targets(objects[0].partition(":")[2]) if objects else (),
        object_optional=bool(objects) and objects[0].startswith("obj?"),
        human="hum" in fields,
        complement=_complement(complements[0]) if complements else None,
        recipient=next((f.rstrip("?") for f in fields if f.startswith("rec")), ""),
        recipient_optional="rec?" in fields or "recto?" in fields,
        where="where" in fields,
        tags=frozenset(tags),
        places=tagged(*places),
        manners=tuple(e for letter in options.get("m", "") for e in _MANNERS[letter]),
        tenses=tuple(options["t"].split(",")) if "t" in options else (),
    )


VERBS = tuple(_verb(line) for line in _lines(verbs.TABLE))


def _read_periphrases() -> tuple[tuple[Periphrasis, ...], Weighted]:
    found = []
    weights = []
    for n, line in enumerate(_lines(closed.PERIPHRASES)):
        head, link, en, en_link, tenses, weight = (part.strip() for part in line.split("|"))
        *linker, form = link.split()
        *en_linker, en_form = en_link.split()
        found.append(
            Periphrasis(
                paradigm(head), tuple(linker), form, english.verb(en), tuple(en_linker), en_form,
                tuple(tenses.split()),
            )
        )  # fmt: skip
        weights.append(f"{n} {weight}")
    return tuple(found), Weighted.parse(" ".join(weights))


PERIPHRASES, PERIPHRASIS_WEIGHTS = _read_periphrases()


def _read_adverbs(table: str) -> dict[str, tuple[Entry, ...]]:
    """Return the adverbials each tense goes with."""
    index: dict[str, list[Entry]] = {}
    for line in _lines(table):
        tenses, es, en = (field.strip() for field in line.split("|"))
        for tense in tenses.split():
            index.setdefault(tense, []).append(Entry(es, en))
    return {tense: tuple(entries) for tense, entries in index.items()}


FREQUENCY = _read_adverbs(closed.FREQUENCY)
TIMES = _read_adverbs(closed.TIMES)


def _read_materials() -> dict[str, tuple[Entry, ...]]:
    """Return what each noun, by its Spanish singular, may be made of."""
    english_of = dict(MATERIALS)
    index: dict[str, list[Entry]] = {}
    for line in _lines(closed.MADE_OF):
        material, made = line.split(":")
        for noun in made.split():
            index.setdefault(noun, []).append(Entry(material, english_of[material]))
    return {noun: tuple(entries) for noun, entries in index.items()}


MADE_OF = _read_materials()
