"""English morphology: verb forms, plurals, comparison and the choice between a and an."""

from __future__ import annotations

from typing import NamedTuple

FIRST, SECOND, THIRD, FIRST_PLURAL, SECOND_PLURAL, THIRD_PLURAL = range(6)

BE_PRESENT = ("am", "are", "is", "are", "are", "are")
BE_PAST = ("was", "were", "was", "were", "were", "were")

# base: past participle
_IRREGULAR_VERBS = """
be was been|begin began begun|bite bit bitten|break broke broken|bring brought brought
build built built|buy bought bought|catch caught caught|choose chose chosen|come came come
cost cost cost|cut cut cut|do did done
draw drew drawn|drink drank drunk|drive drove driven|eat ate eaten
fall fell fallen|feel felt felt|find found found|fly flew flown|forget forgot forgotten
get got gotten|give gave given|go went gone|grow grew grown|have had had|hear heard heard
hide hid hidden|hit hit hit|hurt hurt hurt|keep kept kept|know knew known|leave left left
lend lent lent|lose lost lost|make made made|mean meant meant|meet met met|pay paid paid
put put put|read read read|ride rode ridden|run ran run|say said said|see saw seen
sell sold sold|send sent sent|sew sewed sewn|show showed shown|sing sang sung|sit sat sat
sleep slept slept|speak spoke spoken|spend spent spent|stand stood stood|steal stole stolen
swim swam swum|take took taken|teach taught taught|tell told told|think thought thought
throw threw thrown|understand understood understood|wake woke woken|wear wore worn
win won won|write wrote written
""".replace("\n", "|")
_VERBS = {
    base: (past, participle)
    for base, past, participle in (
        entry.split() for entry in _IRREGULAR_VERBS.strip("|").split("|")
    )
}
_FINAL_STRESS = frozenset({"begin", "forget", "prefer", "admit"})
_VOWELS = "aeiou"
_IRREGULAR_PLURALS = {
    "man": "men",
    "woman": "women",
    "child": "children",
    "foot": "feet",
    "tooth": "teeth",
    "mouse": "mice",
    "fish": "fish",
    "sheep": "sheep",
    "knife": "knives",
    "wife": "wives",
    "wolf": "wolves",
    "shelf": "shelves",
    "potato": "potatoes",
    "tomato": "tomatoes",
    "stomach": "stomachs",
}
_IRREGULAR_GRADES = {
    "good": ("better", "best"),
    "bad": ("worse", "worst"),
    "far": ("farther", "farthest"),
}
_LONG_GRADES = frozenset({"tired", "bored", "scared", "famous", "useful", "boring", "fun"})
_SHORT_GRADES = frozenset({"quiet", "narrow", "clever", "simple", "gentle"})
_SPOKEN_CONSONANT = ("uni", "use", "usu", "eu", "one")
_SILENT_H = ("hour", "honest", "honor")


class Verb(NamedTuple):
    """The forms of an English verb and the particle that follows it, as in "look for"."""

    base: str
    third: str
    past: str
    participle: str
    gerund: str
    particle: tuple[str, ...]


def verb(text: str) -> Verb:
    """Return the forms of a verb given as its base and any particle."""
    base, *particle = text.split()
    past, participle = _VERBS.get(base) or (_past(base),) * 2
    return Verb(base, _third(base), past, participle, _gerund(base), tuple(particle))


def _doubles(word: str) -> bool:
    """Say whether a final consonant is doubled before a vowel."""
    if len(word) < 3 or word[-1] in _VOWELS + "wxy":
        return False
    closed = word[-2] in _VOWELS and word[-3] not in _VOWELS
    one_syllable = sum(letter in _VOWELS for letter in word) == 1
    return closed and (one_syllable or word in _FINAL_STRESS)


def _past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in _VOWELS:
        return base[:-1] + "ied"
    return base + (base[-1] if _doubles(base) else "") + "ed"


def _gerund(base: str) -> str:
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith(("ee", "be")):
        return base[:-1] + "ing"
    return base + (base[-1] if _doubles(base) else "") + "ing"


def _third(base: str) -> str:
    if base in ("have", "be"):
        return {"have": "has", "be": "is"}[base]
    return "goes" if base == "go" else "does" if base == "do" else plural(base)


def plural(noun: str) -> str:
    """Return the plural of a noun, of its last word when it has several."""
    head, space, last = noun.rpartition(" ")
    if last in _IRREGULAR_PLURALS:
        return head + space + _IRREGULAR_PLURALS[last]
    if last.endswith("y") and last[-2] not in _VOWELS:
        return head + space + last[:-1] + "ies"
    if last.endswith(("s", "x", "z", "ch", "sh")):
        return head + space + last + "es"
    return head + space + last + "s"


def _is_short(adjective: str) -> bool:
    if adjective in _LONG_GRADES or adjective[0].isupper():
        return False
    syllables = sum(
        letter in "aeiouy" and (i == 0 or adjective[i - 1] not in "aeiouy")
        for i, letter in enumerate(adjective)
    ) - (adjective.endswith("e") and not adjective.endswith("le"))
    if adjective in _LONG_GRADES:
        return False
    return (
        syllables <= 1 or adjective in _SHORT_GRADES or (syllables == 2 and adjective.endswith("y"))
    )


def grades(adjective: str) -> tuple[str, str] | None:
    """Return an adjective's comparative and superlative, or None where it takes more/most."""
    if adjective in _IRREGULAR_GRADES:
        return _IRREGULAR_GRADES[adjective]
    if not _is_short(adjective):
        return None
    if adjective.endswith("e"):
        stem = adjective[:-1]
    elif adjective.endswith("y") and adjective[-2] not in _VOWELS:
        stem = adjective[:-1] + "i"
    else:
        stem = adjective + (adjective[-1] if _doubles(adjective) else "")
    return stem + "er", stem + "est"


def takes_an(following: str) -> bool:
    """Say whether the article before a word is an."""
    start = following.lower()
    if start.startswith(_SILENT_H):
        return True
    return start[0] in _VOWELS and not start.startswith(_SPOKEN_CONSONANT)
