"""English morphology: verb forms, plurals, comparison and the choice between a and an."""

from __future__ import annotations

from typing import NamedTuple

from .tables import read_table

FIRST, SECOND, THIRD, FIRST_PLURAL, SECOND_PLURAL, THIRD_PLURAL = range(6)

BE_PRESENT = ("am", "are", "is", "are", "are", "are")
BE_PAST = ("was", "were", "was", "were", "were", "were")

# By person; then he and she.
_PRONOUNS = {
    "subject": ("I", "you", "it", "we", "you", "they", "he", "she"),
    "object": ("me", "you", "it", "us", "you", "them", "him", "her"),
    "possessive": ("my", "your", "its", "our", "your", "their", "his", "her"),
}
_VOWELS = "aeiou"


def _irregular() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the irregular forms of each class of the table by word."""
    rows = read_table("english_irregular", "class word form second_form", lambda *fields: fields)
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for kind, word, *forms in rows:
        found.setdefault(kind, {})[word] = tuple(forms)
    return found


_IRREGULAR = _irregular()


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
    past, participle = _IRREGULAR["verb"].get(base) or (_past(base),) * 2
    return Verb(base, _third(base), past, participle, _gerund(base), tuple(particle))


def pronoun(case: str, person: int, *, human: bool = False, feminine: bool = False) -> str:
    """Return a pronoun: its subject, object or possessive form."""
    row = _PRONOUNS[case]
    return row[6 + feminine] if person == THIRD and human else row[person]


def _doubles(word: str) -> bool:
    """Return whether a final consonant is doubled before a vowel."""
    if len(word) < 3 or word[-1] in _VOWELS + "wxy":
        return False
    closed = word[-2] in _VOWELS and word[-3] not in _VOWELS
    one_syllable = sum(letter in _VOWELS for letter in word) == 1
    return closed and (one_syllable or word in _IRREGULAR["doubles"])


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
    if last in _IRREGULAR["plural"]:
        return head + space + _IRREGULAR["plural"][last][0]
    if last.endswith("y") and last[-2] not in _VOWELS:
        return head + space + last[:-1] + "ies"
    if last.endswith(("s", "x", "z", "ch", "sh")):
        return head + space + last + "es"
    return head + space + last + "s"


def _is_short(adjective: str) -> bool:
    if adjective in _IRREGULAR["more"] or adjective[0].isupper():
        return False
    if adjective in _IRREGULAR["er"]:
        return True
    syllables = sum(
        letter in "aeiouy" and (i == 0 or adjective[i - 1] not in "aeiouy")
        for i, letter in enumerate(adjective)
    ) - (adjective.endswith("e") and not adjective.endswith("le"))
    return syllables <= 1 or (syllables == 2 and adjective.endswith("y"))


def grades(adjective: str) -> tuple[str, str] | None:
    """Return an adjective's comparative and superlative, or None if it takes more and most."""
    if adjective in _IRREGULAR["grade"]:
        comparative, superlative = _IRREGULAR["grade"][adjective]
        return comparative, superlative
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
    """Return whether the article before a word is "an"."""
    start = following.lower()
    if start.startswith(tuple(_IRREGULAR["an"])):
        return True
    return start[0] in _VOWELS and not start.startswith(tuple(_IRREGULAR["a"]))
