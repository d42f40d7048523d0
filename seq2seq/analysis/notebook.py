"""Translations as HTML for Jupyter notebooks: the texts, and the picture of their attention.

The picture is in an `img` element, which survives the sanitizers of JupyterLab and GitHub. Without
matplotlib, which translating does not need, the texts are shown alone.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from io import BytesIO
from math import isfinite

from seq2seq.analysis.heatmaps import attention_figure, piece_label
from seq2seq.analysis.plots import write_figure
from seq2seq.inference.text import Part

MOST_PIECES = 60  # rows or columns of a picture
MOST_PARTS = 3  # pictures of a line that was split
_PIXELS_PER_INCH = 80  # as it is shown; it is drawn with more
_NO_WEIGHTS = (
    "No attention weights to show: translate with translator.options(keep_weights=True). A model "
    "with attention.score none has no weights."
)
_RULE = "Rows are target pieces, columns source pieces; · continues a word. Each row sums to 1."
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def attention_html(parts: Sequence[Part], *, without: str = _NO_WEIGHTS, **numbers: float) -> str:
    """Return the texts of a line, numbers such as its score, and the pictures of its parts.

    `without` is said in place of a picture where there are no weights.
    """
    if not parts:
        return "<div><p>An empty line: nothing was translated.</p></div>"
    source = escape_text(" ".join(part.source for part in parts))
    target = escape_text(" ".join(part.text for part in parts))
    shown = ", ".join(f"{name} = {value:.3f}" for name, value in numbers.items() if isfinite(value))
    found = f"<p>{source}<br/><b>{target}</b></p>{_note(shown)}"
    if parts[0].weights is None:
        return f"<div>{found}{_note(without)}</div>"
    found += "".join(map(_picture, parts[:MOST_PARTS]))
    if len(parts) > MOST_PARTS:
        found += _note(f"The line was split; pictures of {MOST_PARTS} of its {len(parts)} parts.")
    return f"<div>{found}</div>"


def escape_text(text: str) -> str:
    """Return a text for HTML and XML, without the characters that XML does not allow."""
    return escape(_NOT_XML.sub("\ufffd", text))


def _note(text: str) -> str:
    return f"<p><small>{escape_text(text)}</small></p>"


def _picture(part: Part) -> str:
    """Return the picture of a part with notes about what it leaves out."""
    assert part.weights is not None
    sides = {"source": part.source_pieces, "target": part.target_pieces}
    notes = [
        f"Shown are the first {MOST_PIECES} of {len(pieces)} {side} pieces."
        for side, pieces in sides.items()
        if len(pieces) > MOST_PIECES
    ]
    shown = replace(
        part,
        source_pieces=part.source_pieces[:MOST_PIECES],
        target_pieces=part.target_pieces[:MOST_PIECES],
        weights=part.weights[:MOST_PIECES, :MOST_PIECES],
    )
    try:
        figure = attention_figure([shown])
    except ModuleNotFoundError:
        return _note("Install matplotlib to see the attention weights: pip install matplotlib")
    file = BytesIO()
    write_figure(figure, file)
    image = (
        f'<img width="{figure.get_figwidth() * _PIXELS_PER_INCH:.0f}" '
        f'alt="{escape_text(_alternative_text(shown))}" '
        f'src="data:image/png;base64,{b64encode(file.getvalue()).decode()}"/>'
    )
    return image + _note(" ".join([_RULE, *notes]))


def _alternative_text(part: Part) -> str:
    """Return for each target piece the source piece with the largest weight, as text."""
    assert part.weights is not None
    rows = zip(part.target_pieces, part.weights.tolist(), strict=True)
    heaviest = ((piece, part.source_pieces[row.index(max(row))], max(row)) for piece, row in rows)
    each = (f"{piece_label(t)}: {piece_label(s)} {weight:.2f}" for t, s, weight in heaviest)
    return f"Attention, the largest weight for each target piece: {', '.join(each)}"
