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
_NUMBER = r"(?:\d{1,3}(?: \d{3})+|[-−+±]?\d+(?:[.,]\d+)*|\d*[½¼¾⅓⅔])"
_REST = r"[^\s<>\"]*[^\s<>\".,;:!?…)\]'*»”’]"  # of an address
_KINDS = (  # if two of them find the same text, it belongs to the first
    rf"(?:https?|ftp)://{_REST}|\bwww\.{_REST}|[\w.+%-]+@[\w-]+(?:\.[\w-]+)+"
    rf"|(?<![\w@.-])[a-z\d-]+(?:\.[a-z\d-]+)*\.(?:{_TOP})(?![\w-]|\.\w)(?:/{_REST})?",
    r"</?[A-Za-z][\w:.-]*(?:\s[^<>]*)?/?>|&(?:\w+|#\d+);",
    r"\{\{[^{}]*\}\}|[$%#]?\{[^{}\s]*\}|\[\[[^\[\]]*\]\]|%\(\w+\)[A-Za-z]"
    r"|(?<![\w%])%(?:\d+\$)?(?:[sdifuxc](?!\w)|@)|(?<!\w)\$(?:[A-Za-z_]\w*|\d+(?![\w%]|[.,]\d))",
    r"(?<![\w&])[@#]\w+(?:[.-]\w+)*",
    rf"(?<!\w)[A-Za-z]:\\{_REST}|(?<![\w./<~])(?:~|/[\w.-]+)(?:/[\w.-]*\w)+/?|(?<![\w-])--[a-z][\w-]*",
    rf"\w+(?:\.\w+)*\(\)|[\w-]+(?:\.[\w-]+)*\.(?:{_FILE})(?!\w)|\w*[^\W_]_\w+|\w+(?:::\w+)+"
    r"|(?<!\w)[a-z]{2,}[A-Z]\w*",
    r"(?<![\w.-])(?:(?:[A-Za-z]+|[a-z]?[A-Z]+-|utf-)\d|\d+-?[A-Z]{2}|0x[\da-f])\w*"
    r"(?:[-.](?:\d\w*|[A-Z]+\d*\b))*|\b[A-Z]{2,}/\d\b",
    r"(?<![\w./-])(?:\d{1,2}([/.-])\d{1,2}\1\d{2,4}|\d{4}([/.-])\d{1,2}\2\d{1,2})(?![\w/-])",
    rf"(?<![\w.,/$€£¥-])(?:{_MONEY}{_NUMBER}|{_NUMBER}{_UNIT}|\d+(?:[.,]\d+){{2,}}|\d*[½¼¾⅓⅔])"
    r"(?![\w²³]|[.,]\d)|\w+[²³¹⁰⁴-⁹]",
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
        Token(match.start(), match.end(), date)
        for pattern in _date_patterns(source)
        for match in pattern.finditer(text)
        if (date := _date(match, theirs, ours))
    ]
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            start, end = match.span()
            if not any(start < token.end and token.start < end for token in found):
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
    numbers = re.findall(r"\d[\d.,]*", quantity)
    number = numbers[0] if len(numbers) == 1 else ""
    signs = re.findall("[.,]", number)
    whole, decimal, rest = number, "", ""
    if len(set(signs)) == 2 and signs.count(signs[-1]) == 1:
        decimal = signs[-1]
    elif len(signs) == 1 and (len(number.split(signs[0])[1]) != 3 or number[0] == "0"):
        decimal = signs[0]
    elif len(signs) == 1:  # 1,250 can be read in two ways
        decimal = signs[0] if signs[0] == source.decimal_sign else ""
        if not source.number:
            return quantity
    if decimal:
        whole, rest = number.split(decimal)
    groups = re.split("[.,]", whole)
    if not target.number or not signs or not all(len(group) == 3 for group in groups[1:]):
        return quantity
    written = target.thousands_sign.join(groups) + (target.decimal_sign if decimal else "") + rest
    return quantity.replace(number, written)


@lru_cache
def _date_patterns(code: str) -> list[re.Pattern[str]]:
    """Return patterns of dates with the name of a month: 3 de mayo de 1999, May 3rd, 1999."""
    months = [form for month in language(code).months for form in {month, month.capitalize()}]
    if not months:
        return []
    month, day = rf"(?P<month>{'|'.join(months)})", r"(?P<day>\d{1,2})(?:\.|º|er|st|nd|rd|th)?"
    return [
        re.compile(
            rf"(?<![\w.,/-]){day}\s+(?:de\s+|of\s+)?{month}(?:,?\s+(?:del?\s+|of\s+)?"
            r"(?P<year>\d{4}))?(?!\w)"
        ),
        re.compile(rf"(?<!\w){month}\s+{day},?\s+(?P<year>\d{{4}})(?!\w)"),
    ]


def _date(match: re.Match[str], source: Language, target: Language) -> str:
    """Return a date as the target language writes it; "" if it is not known how."""
    if not target.months:
        return ""
    months = [month.lower() for month in source.months]
    day_month, year = target.date.split("|")
    month = target.months[months.index(match["month"].lower())]
    written = day_month.format(match["day"].lstrip("0"), month)
    return written + (year.format("", "", match["year"]) if match["year"] else "")
