"""HTML pages that need no network: one file, readable on a phone, in light and dark.

What the functions below return is HTML; every text that they are given is escaped.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources


def page(title: str, body: str) -> str:
    """Return a whole page; the body is HTML, the title is not."""
    style = (resources.files("seq2seq.evaluation") / "page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def section(title: str, *content: str) -> str:
    """Return a headed part of a page."""
    return f"<h2>{escape(title)}</h2>\n" + "\n".join(content)


def note(text: str) -> str:
    """Return a remark in small print."""
    return f'<p class="note">{escape(text)}</p>'


def card(value: str, label: str, definition: str) -> str:
    """Return a figure with its name and what it means."""
    return (
        f'<div class="card"><b>{escape(value)}</b>{escape(label)}'
        f"<span>{escape(definition)}</span></div>"
    )


def cards(found: Iterable[str]) -> str:
    """Return cards side by side."""
    return f'<div class="cards">{"".join(found)}</div>'


@dataclass(frozen=True)
class Bar:
    """A number from 0 to 100 that a table draws as a bar too."""

    value: float


Cell = str | int | float | Bar


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return a table; what is no text is a number, shown to one decimal and to the right."""
    cells = [list(row) for row in rows]
    head = ""
    for column, heading in enumerate(headings):
        numeric = bool(cells) and not any(isinstance(row[column], str) for row in cells)
        head += f"<th{_NUMBER if numeric else ''}>{escape(heading)}</th>"
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in cells)
    return (
        f'<div class="scroll"><table class="data"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


_NUMBER = ' class="n"'


def _cell(value: Cell) -> str:
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    if isinstance(value, Bar):
        return f'<td class="n bar" style="--v:{value.value:.1f}">{value.value:.1f}</td>'
    return f"<td{_NUMBER}>{value if isinstance(value, int) else f'{value:.1f}'}</td>"


def texts(named: Iterable[tuple[str, str]]) -> str:
    """Return named HTML texts, such as a source and its translation, one below the other."""
    return f"<dl>{''.join(f'<dt>{escape(n)}</dt><dd>{html}</dd>' for n, html in named)}</dl>"


def details(summary: str, *content: str, shown: bool = False) -> str:
    """Return a part that is folded away until it is asked for."""
    inside = "\n".join(content)
    start = "<details open>" if shown else "<details>"
    return f"{start}<summary>{escape(summary)}</summary>{inside}</details>"


def marked(text: str, reference: str) -> str:
    """Return a text with the words marked that are not, or not there, in the reference."""
    words = text.split()
    matcher = difflib.SequenceMatcher(None, reference.split(), words, autojunk=False)
    found = []
    for kind, _, _, start, end in matcher.get_opcodes():
        part = escape(" ".join(words[start:end]))
        if part:
            found.append(part if kind == "equal" else f"<mark>{part}</mark>")
    return " ".join(found)
