"""Translations as HTML for Jupyter notebooks: the texts, and the picture of their attention.

The picture is in an `img` element, which survives the sanitizers of JupyterLab and GitHub. Without
matplotlib, which translating does not need, the texts are shown alone.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from html import escape
from io import BytesIO
from math import isfinite

from seq2seq.analysis.heatmaps import attention_figure, piece_label
from seq2seq.analysis.plots import write_figure
from seq2seq.inference.text import Part, Translation

MOST_PIECES = 60  # rows or columns of a picture
MOST_PARTS = 3  # pictures of a line that was split
_PIXELS_PER_INCH = 80  # as it is shown; it is drawn with more
_NO_WEIGHTS = (
    "No attention weights to show: translate with translator.options(keep_weights=True). A model "
    "with attention.score none has no weights."
)
_RULE = "Rows are target pieces, columns source pieces; · continues a word. Each row sums to 1."
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def translation_html(translation: Translation) -> str:
    """Return a translation with its source, its score and the pictures of its parts."""
    parts = translation.parts
    if not parts:
        return "<div><p>An empty line: nothing was translated.</p></div>"
    source = " ".join(part.source for part in parts)
    shown = "".join(_attention(part, _NO_WEIGHTS) for part in parts[:MOST_PARTS])
    if parts[0].weights is None:
        shown = _note(_NO_WEIGHTS)
    elif len(parts) > MOST_PARTS:
        shown += _note(f"The line was split; pictures of {MOST_PARTS} of its {len(parts)} parts.")
    return f"<div>{_texts(source, translation.text, score=translation.score)}{shown}</div>"


def part_html(part: Part, *, without: str = _NO_WEIGHTS) -> str:
    """Return a part with its log probability and its picture, or a note if it has no weights."""
    texts = _texts(part.source, part.text, **{"log p": part.log_prob})
    return f"<div>{texts}{_attention(part, without)}</div>"


def escape_text(text: str) -> str:
    """Return a text for HTML and XML, without the characters that XML does not allow."""
    return escape(_NOT_XML.sub("\ufffd", text))


def _texts(source: str, target: str, **numbers: float) -> str:
    shown = ", ".join(f"{name} = {value:.3f}" for name, value in numbers.items() if isfinite(value))
    return f"<p>{escape_text(source)}<br/><b>{escape_text(target)}</b></p>" + _note(shown)


def _note(text: str) -> str:
    return f"<p><small>{escape_text(text)}</small></p>"


def _attention(part: Part, without: str) -> str:
    """Return the picture of a part with notes about what it leaves out."""
    if part.weights is None:
        return _note(without)
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
        f'alt="{escape_text(_spoken(shown))}" '
        f'src="data:image/png;base64,{b64encode(file.getvalue()).decode()}"/>'
    )
    return image + _note(" ".join([_RULE, *notes]))


def _spoken(part: Part) -> str:
    """Return for each target piece the source piece with the largest weight, as text."""
    assert part.weights is not None
    rows = zip(part.target_pieces, part.weights.tolist(), strict=True)
    heaviest = ((piece, part.source_pieces[row.index(max(row))], max(row)) for piece, row in rows)
    each = (f"{piece_label(t)}: {piece_label(s)} {weight:.2f}" for t, s, weight in heaviest)
    return f"Attention, the largest weight for each target piece: {', '.join(each)}"
