"""Heat maps of attention weights, for files and notebooks.

Translating does not need matplotlib; without it, notebooks show only texts.

Legend: T target pieces or words, S source pieces or words.
"""

from __future__ import annotations

import math
import unicodedata
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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


_LIGHT = 0.005  # a weight that rounds to zero in two digits
_NUMBERED = 0.05  # cells from this weight on show it
_DARK = 0.72  # and from this one on, in white; text has a contrast of 4.5 on any cell
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


class _Map(NamedTuple):
    """One heat map: the labels of its columns and rows, and the weights."""

    source: list[str]
    target: list[str]
    weights_TS: npt.NDArray[np.floating]


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
    names = dict.fromkeys(sentences, "the sentence")
    if target is not None:
        names[target] = "the given translation"
    for text, name in names.items():
        if not normalize_line(text):
            raise DataError(f"{name} is empty; give words to translate")
    if target is not None and len(sentences) > 1:
        raise DataError(
            f"one translation is given, but {len(sentences)} sentences; give one sentence"
        )
    if target is None:
        options = translator.options(beam_size=beam, keep_weights=True)
        found = translator.translate(sentences, options)
        parts = [part for best, *_ in found for part in best.parts]
    else:
        parts = translator.force_decode(sentences, [target])
    if path:
        languages = translator.config.data.languages
        write_figure(attention_figure(parts, languages=languages, words=words), path)
    return parts


def attention_figure(
    parts: Sequence[Part], *, languages: tuple[str, str] = ("", ""), words: bool = False
) -> Figure:
    """Return the weights of translations as heat maps with one scale, one below the other.

    Columns are source pieces, rows are target pieces; with `words` both are words
    (words.word_attention). Cells have the same size in all maps. Raises DataError for a model
    without attention.
    """
    maps = [_map(part, words=words) for part in parts]
    left = _EDGE + _GAP + max(_text_width(text) for each in maps for text in each.target)
    columns = max(len(each.source) for each in maps)
    width = max(left + _CELL[0] * columns, _EDGE + _CAPTION) + _BAR_WIDTH
    # Labels above a map are rotated by 60 degrees.
    above = [_GAP + 0.87 * max(map(_text_width, each.source)) for each in maps]
    height = sum(above) + _CELL[1] * sum(len(each.target) for each in maps) + _EDGE
    figure = new_figure(width, height, constrained=False)

    def add_axes(left: float, top: float, wide: float, high: float) -> Axes:
        box = (left / width, 1 - (top + high) / height, wide / width, high / height)
        return figure.add_axes(box)

    top = 0.0
    for heat_map, labels in zip(maps, above, strict=True):
        size = (_CELL[0] * len(heat_map.source), _CELL[1] * len(heat_map.target))
        image = _draw(add_axes(left, top + labels, *size), heat_map)
        top += labels + size[1]
    bar = min(_BAR_HEIGHT, top)
    scale = add_axes(width - 0.75, (height - bar) / 2, 0.16, bar)
    figure.colorbar(image, cax=scale, label="attention weight")
    unit = "words" if words else "pieces"
    source, target = (f" ({language})" * bool(language) for language in languages)
    normal = all(np.allclose(each.weights_TS.sum(1), 1, atol=0.01) for each in maps)
    below = f"source {unit}{source}{' (each row sums to 1)' * normal}"
    middle = (_EDGE + width - _BAR_WIDTH) / 2 / width
    figure.text(middle, 0.1 / height, below, ha="center", va="bottom")
    figure.text(0.1 / width, 0.5, f"target {unit}{target}", rotation=90, ha="left", va="center")
    return figure


def attention_lines(part: Part, *, words: bool = False) -> Iterator[str]:
    """Yield both texts, and a line for each target piece or word: the heaviest of the source."""
    found = _map(part, words=words)
    yield f"{part.source}\n{part.text}   (log p = {part.log_prob:.3f})"
    for label, row_S in zip(pad(found.target), found.weights_TS, strict=True):
        yield f"{label}  {heaviest(found.source, row_S)}".rstrip()


def pad(cells: Sequence[str], *, right: bool = False) -> list[str]:
    """Return texts with spaces, so that all have the same width in a terminal."""
    gaps = [" " * (max(map(_columns, cells)) - _columns(cell)) for cell in cells]
    return [gap + cell if right else cell + gap for cell, gap in zip(cells, gaps, strict=True)]


def heaviest(names: Sequence[str], weights_S: npt.NDArray[np.floating]) -> str:
    """Return the three heaviest source pieces or words with their weights, heaviest first."""
    order = (-weights_S[: len(names)]).argsort(kind="stable")[:3]
    return "  ".join(f"{names[n]} {weights_S[n]:.2f}" for n in order if weights_S[n] >= _LIGHT)


def _map(part: Part, *, words: bool) -> _Map:
    if part.weights is None:
        raise DataError("no attention weights to draw: the model has attention.score none")
    if not words:
        source, target = (
            [plain(piece_label(piece)) for piece in side]
            for side in (part.source_pieces, part.target_pieces)
        )
        return _Map(source, target, part.weights)
    found = word_attention(part)
    if not found.target:
        raise DataError(
            "a translation without words has no weights between words; leave out --words"
        )
    source = [*map(plain, found.source[:-1]), piece_label(EOS_PIECE)]
    return _Map(source, list(map(plain, found.target)), found.weights)


def _text_width(text: str) -> float:
    """Return a generous estimate in inches."""
    return _CHARACTER * _columns(text)


def _columns(text: str) -> int:
    """Return the width of a text in a terminal, where East Asian wide characters count twice."""
    marks = sum(unicodedata.category(char) == "Mn" for char in text)
    return len(text) - marks + sum(unicodedata.east_asian_width(char) in "WF" for char in text)


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
_PIXELS_PER_INCH = 80  # of the image as shown; it is drawn with more
_NO_WEIGHTS = (
    "No attention weights to show: the model has none (attention.score none), or they were not "
    "kept; translate with translator.options(keep_weights=True)."
)
_RULE = "Rows are target pieces, columns source pieces; · continues a word"


def attention_html(parts: Sequence[Part], **numbers: float) -> str:
    """Return the texts of a line, numbers such as its score, and a picture of its attention."""
    if not parts:
        return "<div><p>An empty line: nothing was translated.</p></div>"
    source = escape(" ".join(part.source for part in parts))
    target = escape(" ".join(part.text for part in parts))
    shown = ", ".join(
        f"{name} = {value:.3f}" for name, value in numbers.items() if math.isfinite(value)
    )
    found = f"<p>{source}<br/><b>{target}</b></p>{_note(shown)}"
    known = parts[0].weights is not None
    return f"<div>{found}{_picture(parts) if known else _note(_NO_WEIGHTS)}</div>"


def _note(text: str) -> str:
    return f"<p><small>{escape(text)}</small></p>"


def _picture(parts: Sequence[Part]) -> str:
    """Return one picture of the beginnings of the first parts, and its content in words."""
    shown = [
        replace(
            part,
            source_pieces=part.source_pieces[:MOST_PIECES],
            target_pieces=part.target_pieces[:MOST_PIECES],
            weights=None if part.weights is None else part.weights[:MOST_PIECES, :MOST_PIECES],
        )
        for part in parts[:MOST_PARTS]
    ]
    try:
        figure = attention_figure(shown)
    except ModuleNotFoundError as error:
        return _note(f"Picture of the attention: {missing_package(error)}")
    file = BytesIO()
    write_figure(figure, file)
    each = (
        f"{piece_label(piece)}: {piece_label(part.source_pieces[row.argmax()])} {row.max():.2f}"
        for part in shown
        if part.weights is not None
        for piece, row in zip(part.target_pieces, part.weights, strict=True)
    )
    text = f"Attention, the largest weight for each target piece: {', '.join(each)}"
    image = (
        f'<img width="{figure.get_figwidth() * _PIXELS_PER_INCH:.0f}" alt="{escape(text)}" '
        f'src="data:image/png;base64,{b64encode(file.getvalue()).decode()}"/>'
    )
    pieces = [piece for part in shown for piece in part.source_pieces + part.target_pieces]
    rule = f"{_RULE}{marks_legend(''.join(pieces))}."
    if sum(len(part.source_pieces + part.target_pieces) for part in parts) > len(pieces):
        rule += f" Shown are at most {MOST_PARTS} sentences, and {MOST_PIECES} pieces of each side."
    return image + _note(rule)
