"""Pages and cards from the templates beside this file; a page is one file that loads nothing."""

from __future__ import annotations

import difflib
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from seq2seq.analysis.heatmaps import piece_label
from seq2seq.evaluation.metrics import LABELS
from seq2seq.languages import language


def render(template: str, **values: Any) -> str:
    """Return a page or, in Markdown, a card; the values of a page are escaped."""
    return ENVIRONMENT.get_template(template).render(values)


def marked(text: str, reference: str) -> Markup:
    """Return a text with the words marked that differ from the reference."""
    words = text.split()
    matcher = difflib.SequenceMatcher(None, reference.split(), words, autojunk=False)
    parts = []
    for kind, _, _, start, end in matcher.get_opcodes():
        part = escape(" ".join(words[start:end]))
        if part:
            parts.append(part if kind == "equal" else Markup("<mark>{}</mark>").format(part))
    return Markup(" ").join(parts)


ENVIRONMENT = Environment(
    loader=PackageLoader("seq2seq.analysis"),
    autoescape=select_autoescape(["html"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
ENVIRONMENT.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "allow_nan": False}
ENVIRONMENT.filters |= {
    "decimal": lambda value: f"{value:.1f}",
    "percent": lambda share: f"{100 * share:.1f} %",
    "metric_label": LABELS.__getitem__,
    "language": lambda code: language(code).name,
    "piece_label": piece_label,
    "marked": marked,
}
