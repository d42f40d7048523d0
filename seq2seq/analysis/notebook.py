"""Translations as HTML for Jupyter notebooks: the text, and a picture of its attention.

The picture is an SVG in an `img` element. No script can run there, it survives the sanitizers of
JupyterLab and GitHub, which remove inline SVG, and it has a background of its own, so that it can
be read in light and dark themes. Only the standard library is needed.

Legend: T target pieces, S source pieces.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from math import isfinite
from typing import TYPE_CHECKING

from seq2seq.data.subwords import SPACE_PIECE
from seq2seq.data.tokenizer import EOS_PIECE, PAD_PIECE

if TYPE_CHECKING:
    from seq2seq.inference.text import Part, Translation

MOST_PIECES = 60  # rows or columns of a picture
MOST_PARTS = 3  # pictures of a line that was split
LIGHT = 0.005  # rounds to zero in two digits
_NUMBERED = 0.05  # cells from this weight on show it
_NO_WEIGHTS = (
    "No attention weights to show: translate with translator.options(keep_weights=True). A model "
    "with attention.score none has no weights."
)
_RULE = "Rows are target pieces, columns source pieces; · continues a word. Each row sums to 1."
# All in pixels.
_CELL_WIDTH, _CELL_HEIGHT = 34, 24
_EDGE, _GAP = 8, 6  # around the picture; between labels and cells
_CHARACTER = 7.5
# The second block of rules is for dark themes. Text upon the full color has a contrast of 4.5.
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1a1d21}.paper{fill:#fff}.heat{fill:#6087bb}"
    ".lines{stroke:#d0d7de;fill:none}.weight{text-anchor:middle}.target{text-anchor:end}"
    "@media(prefers-color-scheme:dark){"
    "text{fill:#e9edf2}.paper{fill:#14171c}.heat{fill:#466b98}.lines{stroke:#363d47}}"
)
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def piece_label(piece: str) -> str:
    """Return a piece as pictures show it: `·` begins a piece that continues a word."""
    names = {EOS_PIECE: "(end)", PAD_PIECE: "(pad)"}
    if piece in names:
        return names[piece]
    continues = not piece.startswith(SPACE_PIECE)
    return f"·{piece}" if continues else piece.removeprefix(SPACE_PIECE) or SPACE_PIECE


def text_columns(text: str) -> int:
    """Return the width of a text in characters; East Asian wide ones count twice."""
    return len(text) + sum(unicodedata.east_asian_width(char) in "WF" for char in text)


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


def _texts(source: str, target: str, **numbers: float) -> str:
    shown = ", ".join(f"{name} = {value:.3f}" for name, value in numbers.items() if isfinite(value))
    return f"<p>{escape_text(source)}<br/><b>{escape_text(target)}</b></p>" + _note(shown)


def _note(text: str) -> str:
    return f"<p><small>{escape_text(text)}</small></p>"


def _attention(part: Part, without: str) -> str:
    """Return the picture of a part with notes about what it leaves out."""
    if part.weights is None:
        return _note(without)
    notes = [
        f"Shown are the first {MOST_PIECES} of {len(pieces)} {side} pieces."
        for side, pieces in (("source", part.source_pieces), ("target", part.target_pieces))
        if len(pieces) > MOST_PIECES
    ]
    svg, width = attention_svg(part)
    data = b64encode(svg.encode()).decode()
    image = (
        f'<img width="{width}" alt="{escape_text(_spoken(part))}" '
        f'src="data:image/svg+xml;base64,{data}"/>'
    )
    return image + _note(" ".join([_RULE, *notes]))


def _spoken(part: Part) -> str:
    """Return for each target piece the source piece with the largest weight, as text."""
    assert part.weights is not None
    source = part.source_pieces
    rows = zip(part.target_pieces[:MOST_PIECES], part.weights.tolist(), strict=False)
    heaviest = [(piece, row.index(max(row)), max(row)) for piece, row in rows]
    each = (f"{piece_label(t)}: {piece_label(source[s])} {weight:.2f}" for t, s, weight in heaviest)
    return f"Attention, the largest weight for each target piece: {', '.join(each)}"


def attention_svg(part: Part) -> tuple[str, int]:
    """Return the weights [T, S] of a part as an SVG, source pieces across, and its width in pixels.

    It has at most MOST_PIECES of each. The part must have weights.
    """
    assert part.weights is not None
    rows = part.weights[:MOST_PIECES, :MOST_PIECES].tolist()
    source = [piece_label(piece) for piece in part.source_pieces[:MOST_PIECES]]
    target = [piece_label(piece) for piece in part.target_pieces[:MOST_PIECES]]
    # Source labels are rotated by 60 degrees, and lean to the right.
    left = _EDGE + round(_CHARACTER * max(map(text_columns, target))) + _GAP
    top = _EDGE + round(0.87 * _CHARACTER * max(map(text_columns, source))) + _GAP
    right = left + _CELL_WIDTH * len(source)
    bottom = top + _CELL_HEIGHT * len(target)
    width = max(right, *_label_ends(source, left)) + _EDGE
    height = bottom + _EDGE
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}"><style>{_STYLE}</style>'
            f'<rect class="paper" width="{width}" height="{height}"/>',
            *_labels(source, target, left, top),
            *_cells(rows, left, top),
            '<path class="lines" d="',
            *(f"M{left} {top + _CELL_HEIGHT * n}H{right}" for n in range(len(target) + 1)),
            *(f"M{left + _CELL_WIDTH * n} {top}V{bottom}" for n in range(len(source) + 1)),
            '"/></svg>',
        ]
    ), width


def _label_ends(source: Sequence[str], left: int) -> list[int]:
    """Return where the rotated labels end."""
    return [
        left + round(_CELL_WIDTH * (n + 0.5) + 0.5 * _CHARACTER * text_columns(label))
        for n, label in enumerate(source)
    ]


def _labels(source: Sequence[str], target: Sequence[str], left: int, top: int) -> list[str]:
    across = [
        f'<text transform="translate({left + _CELL_WIDTH * n + _CELL_WIDTH // 2 + 4} {top - _GAP})'
        f' rotate(-60)">{escape_text(label)}</text>'
        for n, label in enumerate(source)
    ]
    down = [
        f'<text class="target" x="{left - _GAP}" y="{top + _CELL_HEIGHT * n + 16}">'
        f"{escape_text(label)}</text>"
        for n, label in enumerate(target)
    ]
    return across + down


def _cells(rows: Sequence[Sequence[float]], left: int, top: int) -> list[str]:
    """Return the cells; most weights are close to 0, and have none."""
    found = []
    for t, row in enumerate(rows):
        for s, weight in enumerate(row):
            if weight < LIGHT:
                continue
            x, y = left + _CELL_WIDTH * s, top + _CELL_HEIGHT * t
            found.append(
                f'<path class="heat" d="M{x} {y}h{_CELL_WIDTH}v{_CELL_HEIGHT}h-{_CELL_WIDTH}z" '
                f'fill-opacity="{weight:.2f}"/>'
            )
            if weight >= _NUMBERED:
                found.append(
                    f'<text class="weight" x="{x + _CELL_WIDTH // 2}" y="{y + 16}">'
                    f"{f'{weight:.2f}'.removeprefix('0')}</text>"
                )
    return found


def escape_text(text: str) -> str:
    """Return a text for HTML and XML, without the characters that XML does not allow."""
    return escape(_NOT_XML.sub("\ufffd", text))
