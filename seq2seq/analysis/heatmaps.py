"""The picture of attention, which commands write and notebooks show: heat maps of the weights.

Translating does not need matplotlib; without it, notebooks show texts alone.

Legend: T target pieces or words, S source pieces or words.
"""

from __future__ import annotations

import math
import re
import unicodedata
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from seq2seq.analysis.plots import check_picture, new_figure, plain, write_figure
from seq2seq.data.casing import marks_legend, show_marks
from seq2seq.data.tokenizer import EOS_PIECE, PAD_PIECE, SPACE_PIECE, normalize_line
from seq2seq.errors import DataError, missing_package
from seq2seq.inference.text import Part
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import word_attention

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MOST_MAPS = 30
_LIGHT = 0.005  # a weight that rounds to zero in two digits
_NUMBERED = 0.05  # cells from this weight on show it
_DARK = 0.72  # and from this one on, in white; text has a contrast of 4.5 upon any cell
# All in inches.
_CELL = (0.42, 0.34)
_EDGE, _GAP = 0.45, 0.25  # for captions, to the left and below; between neighboring maps
_CAPTION = 3.2
_BAR_WIDTH, _BAR_HEIGHT = 1.15, 3.5
_CHARACTER = 0.085


def piece_label(piece: str) -> str:
    """Return a piece as pictures show it: `·` begins a piece that continues a word."""
    names = {EOS_PIECE: "(end)", PAD_PIECE: "(pad)"}
    if piece in names:
        return names[piece]
    continues, piece = not piece.startswith(SPACE_PIECE), show_marks(piece)
    return f"·{piece}" if continues else piece.removeprefix(SPACE_PIECE) or SPACE_PIECE


@dataclass(frozen=True)
class _Map:
    """One heat map: the labels of its columns and rows, and the weights."""

    source: list[str]
    target: list[str]
    weights_TS: npt.NDArray[np.floating]

    @property
    def size(self) -> tuple[float, float]:
        """Return width and height in inches."""
        return _CELL[0] * len(self.source), _CELL[1] * len(self.target)

    @property
    def labels(self) -> tuple[float, float]:
        """Return the size of the labels, to the left and above, in inches."""
        left = max(map(_text_width, self.target))
        # Those above are rotated by 60 degrees.
        return left, 0.87 * max(map(_text_width, self.source))


def _boxes(maps: Sequence[_Map]) -> tuple[list[tuple[float, float, float, float]], float, float]:
    """Return left, top, width and height of each map, and the right and bottom end of all.

    The maps are row by row, like words on a page, such that the figure is somewhat wider than high.
    Cells have the same size in all maps, which matplotlib's own layouts cannot give.
    """
    widths = [m.labels[0] + _GAP + m.size[0] for m in maps]
    heights = [m.labels[1] + _GAP + m.size[1] for m in maps]
    room = max(1.3 * math.sqrt(np.dot(widths, heights)), *widths)
    rows: list[list[_Map]] = [[]]
    used = 0.0
    for heat_map, width in zip(maps, widths, strict=True):
        if used + width > room:
            rows.append([])
            used = 0.0
        rows[-1].append(heat_map)
        used += width
    boxes, right, bottom = [], _EDGE + _CAPTION, 0.0
    for row in rows:
        left, top = _EDGE, bottom + max(m.labels[1] for m in row) + _GAP
        for heat_map in row:
            left += heat_map.labels[0] + _GAP
            boxes.append((left, top, *heat_map.size))
            left += heat_map.size[0]
        right = max(right, left)
        bottom = top + max(m.size[1] for m in row)
    return boxes, right, bottom


def plot_sentences(
    translator: Translator,
    sentences: Sequence[str],
    path: Path | None,
    *,
    beam: int | None = None,
    words: bool = False,
    target: str | None = None,
) -> list[Part]:
    """Translate sentences, draw their attention, if there is a path, and return all parts of them.

    A `target` is drawn as the translation of the only sentence, whatever the model would write.
    Raises DataError for an empty sentence or target, for a target of several sentences, and as
    check_picture and attention_figure do.
    """
    if path:
        check_picture(path)
    _check_count(len(sentences))
    for number, sentence in enumerate(sentences, start=1):
        if not normalize_line(sentence):
            which = "the sentence" if len(sentences) == 1 else f"sentence {number}"
            raise DataError(f"{which} is empty; give words to translate")
    if target is None:
        options = translator.options(beam_size=beam, keep_weights=True)
        found = translator.translate(sentences, options)
        parts = [part for best, *_ in found for part in best.parts]
    else:
        if len(sentences) != 1:
            raise DataError(
                f"one translation is given, but {len(sentences)} sentences; give one sentence"
            )
        if not normalize_line(target):
            raise DataError("the given translation is empty; give one, or leave it out")
        parts = translator.force(sentences, [target])
    if path:
        languages = translator.config.data.languages
        write_figure(attention_figure(parts, languages=languages, words=words), path)
    return parts


def attention_figure(
    parts: Sequence[Part], *, languages: tuple[str, str] = ("", ""), words: bool = False
) -> Figure:
    """Return the weights of translations as a grid of heat maps with one scale, from 0 to 1.

    Columns are source pieces, rows are target pieces; with `words` both are words
    (words.word_attention). Raises DataError for a model without attention, no translations, and
    more than 30.
    """
    _check_count(len(parts))
    maps = [_word_map(part) if words else _piece_map(part) for part in parts]
    boxes, right, bottom = _boxes(maps)
    width, height = right + _BAR_WIDTH, bottom + _EDGE

    def add_axes(figure: Figure, left: float, top: float, wide: float, high: float) -> Axes:
        box = (left / width, 1 - (top + high) / height, wide / width, high / height)
        return figure.add_axes(box)

    figure = new_figure(width, height, constrained=False)
    for heat_map, box in zip(maps, boxes, strict=True):
        image = _draw(add_axes(figure, *box), heat_map)
    bar = min(_BAR_HEIGHT, bottom)
    scale = add_axes(figure, width - 0.75, (height - bar) / 2, 0.16, bar)
    figure.colorbar(image, cax=scale, label="attention weight")
    unit = "words" if words else "pieces"
    source, target = (f" ({language})" * bool(language) for language in languages)
    normal = all(np.allclose(each.weights_TS.sum(1), 1, atol=0.01) for each in maps)
    below = f"source {unit}{source}{' (each row sums to 1)' * normal}"
    middle = (_EDGE + right) / 2 / width
    figure.text(middle, 0.1 / height, below, ha="center", va="bottom")
    figure.text(0.1 / width, 0.5, f"target {unit}{target}", rotation=90, ha="left", va="center")
    return figure


def attention_lines(part: Part, *, words: bool = False) -> Iterator[str]:
    """Yield both texts, and a line for each target piece or word: the heaviest of the source."""
    found = _word_map(part) if words else _piece_map(part)
    yield f"{part.source}\n{part.text}   (log p = {part.log_prob:.3f})"
    for label, row_S in zip(found.target, found.weights_TS, strict=True):
        yield f"{label:{max(map(len, found.target))}}  {heaviest(found.source, row_S)}".rstrip()


def heaviest(names: Sequence[str], weights_S: npt.NDArray[np.floating]) -> str:
    """Return the three heaviest source pieces or words with their weights, heaviest first."""
    order = (-weights_S[: len(names)]).argsort(kind="stable")[:3]
    return "  ".join(f"{names[n]} {weights_S[n]:.2f}" for n in order if weights_S[n] >= _LIGHT)


def _check_count(count: int) -> None:
    if not 1 <= count <= MOST_MAPS:
        raise DataError(f"{count} sentences to draw; a picture holds 1 to {MOST_MAPS}")


def _piece_map(part: Part) -> _Map:
    if part.weights is None:
        raise DataError("no attention weights to draw: the model has attention.score none")
    source, target = (
        [plain(piece_label(piece)) for piece in side]
        for side in (part.source_pieces, part.target_pieces)
    )
    return _Map(source, target, part.weights)


def _word_map(part: Part) -> _Map:
    found = word_attention(part)
    if not found.target:
        raise DataError(
            "a translation without words has no weights between words; leave out --words"
        )
    source = [*map(plain, found.source[:-1]), piece_label(EOS_PIECE)]
    return _Map(source, list(map(plain, found.target)), found.weights)


def _text_width(text: str) -> float:
    """Return a generous estimate in inches; East Asian wide characters count twice."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return _CHARACTER * (len(text) + wide)


def _draw(axes: Axes, heat_map: _Map) -> Any:
    source, target = heat_map.source, heat_map.target
    image = axes.imshow(heat_map.weights_TS, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(source)), source, rotation=60, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(target)), target)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xticks([n - 0.5 for n in range(1, len(source))], minor=True)
    axes.set_yticks([n - 0.5 for n in range(1, len(target))], minor=True)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="minor", length=0)
    for t, s in np.argwhere(heat_map.weights_TS >= _NUMBERED):
        weight = heat_map.weights_TS[t, s]
        color = "white" if weight >= _DARK else "black"
        number = f"{weight:.2f}".removeprefix("0")
        axes.text(s, t, number, ha="center", va="center", fontsize=8, color=color)
    return image


# --- HTML for notebooks


MOST_PIECES = 60  # rows or columns of a picture
MOST_PARTS = 3  # pictures of a line that was split
_PIXELS_PER_INCH = 80  # as it is shown; it is drawn with more
_NO_WEIGHTS = (
    "No attention weights to show: translate with translator.options(keep_weights=True). A model "
    "with attention.score none has no weights."
)
_RULE = "Rows are target pieces, columns source pieces; · continues a word"
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def attention_html(parts: Sequence[Part], *, without: str = _NO_WEIGHTS, **numbers: float) -> str:
    """Return the texts of a line, numbers such as its score, and the pictures of its parts.

    `without` is the note in place of a picture where there are no weights.
    """
    if not parts:
        return "<div><p>An empty line: nothing was translated.</p></div>"
    source = escape_text(" ".join(part.source for part in parts))
    target = escape_text(" ".join(part.text for part in parts))
    shown = ", ".join(
        f"{name} = {value:.3f}" for name, value in numbers.items() if math.isfinite(value)
    )
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
    weights_TS = part.weights[:MOST_PIECES, :MOST_PIECES]
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
        weights=weights_TS,
    )
    try:
        figure = attention_figure([shown])
    except ModuleNotFoundError as error:
        return _note(f"Picture of the attention: {missing_package(error)}")
    file = BytesIO()
    write_figure(figure, file)
    rows = zip(shown.target_pieces, weights_TS.tolist(), strict=True)
    heaviest = ((piece, shown.source_pieces[row.index(max(row))], max(row)) for piece, row in rows)
    each = (f"{piece_label(t)}: {piece_label(s)} {weight:.2f}" for t, s, weight in heaviest)
    text = f"Attention, the largest weight for each target piece: {', '.join(each)}"
    image = (
        f'<img width="{figure.get_figwidth() * _PIXELS_PER_INCH:.0f}" alt="{escape_text(text)}" '
        f'src="data:image/png;base64,{b64encode(file.getvalue()).decode()}"/>'
    )
    rule = f"{_RULE}{marks_legend(''.join(shown.source_pieces + shown.target_pieces))}."
    return image + _note(" ".join([rule, *notes]))
