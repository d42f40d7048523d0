"""What must arrive in the translation of a sentence: terms of a glossary, and tokens.

A model reads and writes a stand-in in place of each token (seq2seq.inference.tokens): a number,
which models copy better than addresses and placeholders, and whose neighbours they translate
better. It reads the words of terms.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from seq2seq.data.corpus import read_lines
from seq2seq.data.tokenizer import normalize_line
from seq2seq.errors import DataError
from seq2seq.inference.tokens import Token, find_tokens
from seq2seq.languages import language


class Required(NamedTuple):
    """A text that must arrive, and its place in what the model reads."""

    text: str
    form: str  # what the model writes for it: a stand-in, or the text itself
    start: int
    end: int
    source: str = ""  # of a token: the text in the source
    joins: tuple[bool, bool] = (False, False)  # without a space to the word before it, after it

    @property
    def pattern(self) -> str:
        """A pattern of the stand-in, also if a model has written it next to a letter."""
        return f"(?<![0-9]){self.form}(?![0-9])"

    def put_back(self, text: str, value: str) -> str:
        """Return a text with a value in place of the stand-in."""
        before, after = (" ?" * joins for joins in self.joins)
        return re.sub(f"{before}{self.pattern}{after}", lambda _: value, text)


class Glossary:
    """Terms of the source language, and how each is translated.

    A term matches whole words as they are written, or in any case if it is in lower case; of terms
    that match at a place the longest does.
    """

    def __init__(self, terms: Mapping[str, str] | None = None) -> None:
        """Take translations by term. Raises DataError for anything but a mapping of texts."""
        self.terms: dict[str, str] = {}
        if not isinstance(terms, Mapping | None):
            raise DataError(f"glossary: expected a mapping of terms, found {terms!r:.40}")
        for pair in (terms or {}).items():
            if not all(isinstance(text, str) and normalize_line(text) for text in pair):
                found = ": ".join(f"{text!r:.40}" for text in pair)
                raise DataError(f"glossary: {found}: expected a term and its translation, as texts")
            source, target = map(normalize_line, pair)
            self.terms[source] = target
        each = (  # in this order, since the first that matches is taken
            f"(?i:{re.escape(term)})" if term == term.lower() else re.escape(term)
            for term in sorted(self.terms, key=len, reverse=True)
        )
        self._pattern = "|".join(each)

    @classmethod
    def read(cls, path: str | Path) -> Glossary:
        """Read lines of a term, a tab and its translation; # begins a comment.

        Raises DataError for a file that cannot be read or has no terms, and for any other line.
        """
        terms: dict[str, str] = {}
        for where, line in read_lines(str(path)):
            if not line.strip() or line.startswith("#"):
                continue
            source, *targets = map(normalize_line, line.split("\t"))
            if len(targets) != 1 or not all((source, *targets)):
                found = f"expected a term, a tab and its translation, found {line.strip()!r}"
                raise DataError(f"{where}: {found}")
            if terms.setdefault(source, targets[0]) != targets[0]:
                found = f"{source!r} has another translation above; remove one"
                raise DataError(f"{where}: {found}")
        if not terms:
            raise DataError(f"{path}: no terms; write a term, a tab and its translation on a line")
        return cls(terms)

    def find(self, text: str, *, spaced: bool) -> Iterator[Required]:
        """Yield the terms of a normalized text, in order, as whole words if it has spaces."""
        pattern = rf"(?!\B\w)(?:{self._pattern})(?<!\w\B)" if spaced else self._pattern
        for match in re.finditer(pattern, text) if self.terms else ():
            found = match[0]
            target = self.terms.get(found) or self.terms.get(found.lower(), "")
            if found not in self.terms and found.isupper() and len(found) > 1:
                target = target.upper()
            if target:  # ſ matches s in any case, but is another letter in lower case
                yield Required(target, target, *match.span())


Protection = tuple[Glossary, str, str]  # a glossary, and the codes of both languages


def mask(text: str, protection: Protection) -> tuple[str, dict[str, Required]]:
    """Return a normalized text with stand-ins in place of its tokens, and these by stand-in.

    Those within a term of the glossary are left alone; a term within a token is not one.
    """
    found, masked, end = dict[str, Required](), "", 0
    names = (name for name in _stand_ins() if name not in text)
    for token in _tokens(text, protection):
        around = text[: token.start][-1:], text[token.end :][:1]
        joins = bool(re.match(r"\w", around[0])), bool(re.match(r"\w", around[1]))
        masked += text[end : token.start] + " " * joins[0]
        form, start, end = next(names), len(masked), token.end
        masked += form + " " * joins[1]
        origin = text[token.start : token.end]
        found[form] = Required(token.target, form, start, start + len(form), origin, joins)
    return masked + text[end:], found


def _tokens(text: str, protection: Protection) -> Iterator[Token]:
    """Yield the tokens of a text, but none within a term of the glossary."""
    glossary, source, target = protection
    tokens = find_tokens(text, source, target)
    terms = glossary.find(text, spaced=language(source).is_spaced) if tokens else ()
    of_terms = [(term.start, term.end) for term in terms]
    for token in tokens:
        if not any(start <= token.start and token.end <= stop for start, stop in of_terms):
            yield token


def required_of(
    part: str, tokens: Mapping[str, Required] | None, protection: Protection
) -> tuple[Required, ...]:
    """Return what must arrive in the translation of a part of a text, in order.

    The text has been masked, unless `tokens` is None: then the model reads and writes them.
    """
    glossary, source, _ = protection
    found = [*glossary.find(part, spaced=language(source).is_spaced)]
    if tokens is None:
        written = [*_tokens(part, protection)]
        found = [
            t for t in found if not any(w.start <= t.start and t.end <= w.end for w in written)
        ]
        found += (Required(w.target, w.target, w.start, w.end) for w in written)
        tokens = {}
    for match in re.finditer(r"(?<!\w)\d+(?!\w)", part) if tokens else ():
        if token := tokens.get(match[0]):
            found.append(token._replace(start=match.start(), end=match.end()))
    return tuple(sorted(found, key=lambda each: each.start))


def show_tokens(text: str, required: Sequence[Required]) -> str:
    """Return a translation with tokens in place of their stand-ins."""
    for each in required:
        text = each.put_back(text, each.text) if each.source else text
    return text


def find_missing(text: str, required: Sequence[Required], *, spaced: bool) -> list[Required]:
    """Return what has not arrived in a translation, in the order of the source."""
    missing, needed = [], Counter(each.form for each in required)
    arrived = {form: len(find_form(text, form, spaced=spaced)) for form in needed}
    for each in reversed(required):
        if needed[each.form] > arrived[each.form]:
            missing.append(each)
            needed[each.form] -= 1
    return missing[::-1]


def find_form(text: str, form: str, *, spaced: bool) -> list[tuple[int, int]]:
    """Return where a text has a form, perhaps with a capital, as whole words if it has spaces."""
    forms = "|".join(re.escape(each) for each in (form, form[:1].upper() + form[1:]))
    pattern = rf"(?!\B\w)(?:{forms})(?<!\w\B)" if spaced else forms
    return [match.span() for match in re.finditer(pattern, text)]


def _stand_ins() -> Iterator[str]:
    """Yield numbers, of which those that follow each other have different digits."""
    return (str(473 + 171 * n % 500 if n < 500 else n + 500) for n in count())
