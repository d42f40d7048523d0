"""Capitals as marks, so that HOLA, Hola and hola share their pieces.

The marks are two letters that no living language uses, named after the keys of a keyboard. SHIFT
stands before a capital letter; CAPS, as a word of its own, before a word in capitals; CAPS twice
before three or more such words in a row, and SHIFT twice after them unless the text ends there.

    Ana vive en EE.UU.      ↄana vive en Ↄ ee.uu.
    NO PUEDO IR, dice Ana   ↃↃ no puedo ir, ↄↄ dice ↄana
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

SHIFT, CAPS = "\u2184", "\u2183"  # reversed c and C, which Claudius added to the Latin alphabet
ALL_CAPS, ALL_CAPS_END = CAPS * 2, SHIFT * 2
_FEWEST_IN_A_ROW = 3

_LITERAL = str.maketrans({SHIFT: "c", CAPS: "C"})
_SHOWN = str.maketrans({SHIFT: "⇧", CAPS: "⇪"})
_SHIFTED = re.compile(f"[{SHIFT}{CAPS}]+(.?)")


def mark_case(text: str) -> str:
    """Return a text in lower case with marks; its words are separated by single spaces.

    `restore_case` is the inverse, except that marks within the text itself are read as c and C.
    """
    text = text.translate(_LITERAL)
    if text == text.lower():
        return text
    words = text.split(" ")
    if not any(_read(word).in_capitals for word in words):
        return " ".join([_read(word).marked for word in words])
    found: list[str] = []
    for could_be, group in groupby(map(_read, words), lambda word: word.could_be_in_capitals):
        row = list(group)
        if could_be and sum(word.in_capitals for word in row) >= _FEWEST_IN_A_ROW:
            found += [ALL_CAPS, *(word.lower for word in row), ALL_CAPS_END]
            continue
        for word in row:
            found += [CAPS, word.lower] if word.in_capitals else [word.marked]
    if found[-1] == ALL_CAPS_END:
        found.pop()
    return " ".join(found)


def mark_prefix(text: str, *, complete: bool) -> list[str]:
    """Return the marked forms that this text can have at the start of a longer one, its own first.

    Further letters can make its last word one in capitals, and further words a row of such words.
    If the text is `complete`, a space follows it.
    """
    found = {mark_case(text): None}
    for more in (" AA AA AA",) if complete else ("a", "AA", "AA AA AA"):
        longer = mark_case(text + more)
        form = longer[: -len(more)]
        if longer.endswith(more.lower()) and not form.endswith(ALL_CAPS):  # a row that begins later
            found[form] = None
    return list(found)


def restore_case(text: str) -> str:
    """Return a marked text with its capitals; marks that a model has misplaced are left out."""
    if SHIFT not in text and CAPS not in text:
        return text
    found: list[str] = []
    one = every = False
    for word in text.split(" "):
        if word == CAPS:
            one = True
        elif word in (ALL_CAPS, ALL_CAPS_END):
            every, one = word == ALL_CAPS, False
        else:
            word = _SHIFTED.sub(lambda match: _capital(match[1]), word)
            found.append("".join(map(_capital, word)) if one or every else word)
            one = False
    return " ".join(found)


def show_marks(piece: str) -> str:
    """Return a piece with symbols of the keys in place of marks, for readers."""
    return piece.translate(_SHOWN)


def marks_legend(pieces: str) -> str:
    """Return the part of a legend that explains the marks in pieces, "" if there are none."""
    return ", ⇧ a capital, ⇪ a word in capitals" if show_marks(pieces) != pieces else ""


class _Word(NamedTuple):
    lower: str
    marked: str  # with SHIFT before each capital
    could_be_in_capitals: bool  # its lower case determines it; also true without any letter
    in_capitals: bool  # with two letters or more


@lru_cache(1 << 15)
def _read(word: str) -> _Word:
    lower = "".join(map(str.lower, word))  # letter by letter: a Greek word may end in another sigma
    marked = "".join(map(_mark_letter, word))
    determined = "".join(map(_capital, lower)) == word
    return _Word(lower, marked, determined, determined and marked.count(SHIFT) > 1)


def _mark_letter(letter: str) -> str:
    lower = letter.lower()
    return SHIFT + lower if lower != letter and _capital(lower) == letter else letter


def _capital(letter: str) -> str:
    upper = letter.upper()
    return upper if len(upper) == 1 and upper.lower() == letter else letter
