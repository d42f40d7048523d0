"""Pictures of attention weights."""

from __future__ import annotations

import warnings
from pathlib import Path

from seq2seq.errors import DataError
from seq2seq.evaluation.alignment import END
from seq2seq.inference.translation import Part
from seq2seq.inference.translator import Translator

SUFFIXES = (".png", ".svg", ".pdf")
_MOST_INCHES = 100.0


def plot_sentence(
    translator: Translator, sentence: str, path: Path, *, beam: int | None = None
) -> None:
    """Translate a sentence and draw its attention; of a split sentence, the first part's.

    Raises DataError as plot_attention does, and for an empty sentence.
    """
    _check_suffix(path)
    options = translator.options(beam_size=beam, keep_weights=True)
    parts = translator.translate([sentence], options)[0][0].parts
    if not parts:
        raise DataError("the sentence is empty; give one to translate")
    data = translator.config.data
    plot_attention(parts[0], path, languages=(data.source_language, data.target_language))


def plot_attention(part: Part, path: Path, *, languages: tuple[str, str] = ("", "")) -> None:
    """Draw the weights of one translation as a heat map; the suffix chooses PNG, SVG or PDF.

    Columns are source pieces, rows are target pieces; each row sums to 1. Raises DataError for
    another suffix, a path that cannot be written and a model without attention.
    """
    _check_suffix(path)
    if part.weights is None:
        raise DataError("no attention weights to draw: the model has attention.score none")
    # A canvas of its own: nothing here needs a display or pyplot's list of open figures.
    from matplotlib.figure import Figure

    source = [_shown(piece) for piece in part.source_pieces]
    target = [_shown(piece) for piece in part.target_pieces]
    width, height = 2.2 + 0.42 * len(source), 1.8 + 0.34 * len(target)
    figure = Figure(
        figsize=(min(width, _MOST_INCHES), min(height, _MOST_INCHES)), layout="constrained"
    )
    axes = figure.subplots()
    image = axes.imshow(part.weights.numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(source)), source, rotation=60, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(target)), target)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xticks([n - 0.5 for n in range(1, len(source))], minor=True)
    axes.set_yticks([n - 0.5 for n in range(1, len(target))], minor=True)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="minor", length=0)
    axes.set_xlabel(f"{languages[0]} source pieces (each row sums to 1)".strip())
    axes.set_ylabel(f"{languages[1]} target pieces".strip())
    figure.colorbar(image, ax=axes, shrink=0.8, label="attention weight")
    with warnings.catch_warnings():
        # A sign that the font lacks is drawn as a box.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        try:
            figure.savefig(path, dpi=150)
        except OSError as error:
            raise DataError(f"{path}: cannot be written ({error.strerror})") from None


def _check_suffix(path: Path) -> None:
    if path.suffix.lower() not in SUFFIXES:
        raise DataError(f"{path}: a picture ends in {', '.join(SUFFIXES)}; rename it")


def _shown(piece: str) -> str:
    """Return a piece without the mark of its word's start, or with a mark that it goes on."""
    if piece == END:
        return "(end)"
    # A dollar would start mathematics in matplotlib.
    text = piece.removeprefix("▁") or "▁"
    return (text if piece.startswith("▁") else f"·{text}").replace("$", r"\$")
