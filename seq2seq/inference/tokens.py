"""Tokens, which nobody translates: addresses, markup, placeholders, identifiers, quantities, dates.

Numbers and dates are rewritten for the target language if the table of languages says how, and if
they can be read in one way only: 1.250,50 but not 1.250.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from seq2seq.languages import Language, language

_TOP = "com|org|net|edu|gov|info|io|ai|dev|app|eu|co|es|mx|ar|uk|us|fr|de|it|pt|br|jp|cn|ru"
_FILE = (
    "avi|bat|bmp|cfg|conf|cpp|css|csv|db|dll|docx?|exe|gif|gz|html?|ini|ipynb|jar|java|jpe?g|js|"
    "json|log|md|mov|mp[34]|odt|pdf|php|png|pptx?|py|rar|rst|sh|sql|srt|svg|tar|tex|tiff?|toml|ts|"
    "tsv|txt|wav|webp|xlsx?|xml|ya?ml|zip"
)
_UNIT = (
    r"(?:\s?(?:km/h|m/s|mph|[kcmµn]m[²³]?|m[²³]|ft²?|[mkµ]g|lb|oz|[mcd][lL]|°[CF]?|[KMGT]i?B|"
    r"[kM]?bps|[kMG]?Hz|[kM]?Wh?|min|ms|dB|px|EUR|USD|GBP|MXN|[$€£¥%‰])|\s[mglLhs])"
)
_MONEY = r"(?:US|[ARC])?[$€£¥₹]\s?"
_NUMBER = r"(?:\d{1,3}(?: \d{3}){1,3}|[-−+±]?\d+(?:[.,]\d+)*|\d*[½¼¾⅓⅔])"
_REST = r"[^\s<>\"]*[^\s<>\".,;:!?…)\]'*»”’]"  # of an address
_KINDS = (  # if two of them find the same text, it belongs to the first
    rf"(?:https?|ftp)://{_REST}|\bwww\.{_REST}|(?<![\w.+%-])[\w.+%-]+@[\w-]+(?:\.[\w-]+)+"
    rf"|(?<![\w@.-])[a-z\d-]+(?:\.[a-z\d-]+)*\.(?:{_TOP})(?![\w-]|\.\w)(?:/{_REST})?",
    r"</?[A-Za-z][\w:.-]*(?:\s[^<>]*)?/?>|&(?:\w+|#\d+);",
    r"\{\{[^{}]*\}\}|[$%#]?\{[^{}\s]*\}|\[\[[^\[\]]*\]\]|%\(\w+\)[A-Za-z]"
    r"|(?<![\w%])%(?:\d+\$)?(?:[sdifuxc](?!\w)|@)|(?<!\w)\$(?:[A-Za-z_]\w*|\d+(?![\w%]|[.,]\d))",
    r"(?<![\w&])[@#]\w+(?:[.-]\w+)*",
    rf"(?<!\w)[A-Za-z]:\\{_REST}|(?<![\w./<~])(?:~|/[\w.-]+)(?:/[\w.-]*\w)+/?|(?<![\w-])--[a-z][\w-]*",
    rf"(?<![\w.-])(?:\w+(?:\.\w+)*\((?:\d[\d.,]*)?\)|[\w-]+(?:\.[\w-]+)*\.(?:{_FILE})(?!\w))"
    r"|(?<!\w)(?:\w*[^\W_]_\w+|\w+(?:::\w+)+)"
    r"|(?<!\w)[a-z]{2,}[A-Z]\w*",
    r"(?<![\w.-])(?:(?:[A-Za-z]+|[a-z]?[A-Z]+-|utf-)\d|\d+-?[A-Z]{2}|0x[\da-f])\w*"
    r"(?:[-.](?:\d\w*|[A-Z]+\d*\b))*|\b[A-Z]{2,}/\d\b",
    r"(?<![\w./-])(?:\d{1,2}([/.-])\d{1,2}\1\d{2,4}|\d{4}([/.-])\d{1,2}\2\d{1,2})(?![\w/-])",
    rf"(?<![\w.,/$€£¥-])(?:{_MONEY}{_NUMBER}|{_NUMBER}{_UNIT}|\d+(?:[.,]\d+){{2,}}|\d*[½¼¾⅓⅔])"
    r"(?![\w²³]|[.,]\d)|(?<!\w)\w+[²³¹⁰⁴-⁹]",
)
_POSSIBLE = re.compile(r"[@#\\/<&{}\[\]%$_½-¾⅓⅔²³¹⁰⁴-⁹]|\w(?:[.:]|::)\w|\(\)|[a-z][A-Z]|--|\d")
_PATTERNS = list(map(re.compile, _KINDS))


class Token(NamedTuple):
    """A token of a text, and its form in the translation."""

    start: int
    end: int
    target: str


def find_tokens(text: str, source: str, target: str) -> list[Token]:
    """Return the tokens of a normalized text, in order. Source and target are language codes."""
    if not _POSSIBLE.search(text):  # as in most sentences
        return []
    theirs, ours = language(source), language(target)
    found = [
        Token(*match.span(), _date(match, theirs, ours))
        for pattern in _date_patterns(source) if ours.months
        for match in pattern.finditer(text)
    ]  # fmt: skip
    taken = bytearray(len(text))
    for token in found:
        taken[token.start : token.end] = b"\1" * (token.end - token.start)
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            start, end = match.span()
            if not any(taken[start:end]):
                taken[start:end] = b"\1" * (end - start)
                is_number = pattern is _PATTERNS[-1]
                written = _rewritten(match[0], theirs, ours) if is_number else match[0]
                found.append(Token(start, end, written))
    joined: list[Token] = []
    for token in sorted(found):
        if joined and joined[-1].end == token.start:
            last = joined.pop()
            token = Token(last.start, token.end, last.target + token.target)
        joined.append(token)
    return joined


def _rewritten(quantity: str, source: Language, target: Language) -> str:
    """Return a quantity with its number as the target language writes it, if that is certain."""
    numbers = re.findall(r"\d[\d.,]*[.,][\d.,]*", quantity)
    if len(numbers) != 1 or not target.number:
        return quantity
    [number] = numbers
    last = re.findall("[.,]", number)[-1]
    whole, _, rest = number.rpartition(last)
    if last in whole or (len(rest) == 3 and last == source.thousands_sign):
        whole, rest = number, ""
    elif len(rest) == 3 and whole.isdecimal() and whole != "0" and not source.number:
        return quantity  # 1,250 can be read in two ways
    groups = re.split("[.,]", whole)
    if groups[1:] and (len(groups[0]) > 3 or any(len(group) != 3 for group in groups[1:])):
        return quantity
    written = target.thousands_sign.join(groups) + (target.decimal_sign + rest if rest else "")
    return quantity.replace(number, written)


@lru_cache
def _date_patterns(code: str) -> list[re.Pattern[str]]:
    """Return patterns of dates with the name of a month: 3 de mayo de 1999, May 3rd, 1999."""
    months = [form for month in language(code).months for form in {month, month.capitalize()}]
    month = rf"(?P<month>{'|'.join(months)})"
    day = r"(?P<day>0?[1-9]|[12]\d|3[01])(?:\.|º|er|st|nd|rd|th)?"
    year = r"(?P<year>\d{4})(?!\w)"
    forms = (
        rf"(?<![\w.,/-]){day}\s+(?:de\s+|of\s+)?{month}(?!\w)(?:,?\s+(?:del?\s+|of\s+)?{year})?",
        rf"(?<!\w){month}\s+{day},?\s+{year}",
    )
    return list(map(re.compile, forms)) if months else []


def _date(match: re.Match[str], source: Language, target: Language) -> str:
    """Return a date as the target language writes it."""
    month = [each.lower() for each in source.months].index(match["month"].lower())
    form, year = target.date.split("|")
    form += year if match["year"] else ""
    return form.format(match["day"].lstrip("0"), target.months[month], match["year"])
