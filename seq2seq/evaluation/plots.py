"""Pictures of attention weights."""

from __future__ import annotations

from pathlib import Path

from seq2seq.errors import DataError
from seq2seq.inference.translator import Part, Translator


def plot_attention(part: Part, path: Path) -> None:
    """Draw the weights of one translation as a heat map; the suffix chooses PNG, SVG or PDF.

    Columns are source pieces, rows are target pieces; each row sums to 1. Raises DataError for a
    model without attention.
    """
    if part.weights is None:
        raise DataError("no attention weights to draw: the model has attention.score none")
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    source = [_shown(piece) for piece in part.source_pieces]
    target = [_shown(piece) for piece in part.target_pieces]
    size = (2.2 + 0.42 * len(source), 1.8 + 0.34 * len(target))
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    image = axes.imshow(part.weights.numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(source)), source, rotation=60, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(target)), target)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xticks([n - 0.5 for n in range(1, len(source))], minor=True)
    axes.set_yticks([n - 0.5 for n in range(1, len(target))], minor=True)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="minor", length=0)
    axes.set_xlabel("source pieces (each row sums to 1)")
    axes.set_ylabel("target pieces")
    figure.colorbar(image, ax=axes, shrink=0.8, label="attention weight")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _shown(piece: str) -> str:
    """Return a piece without the mark of its word's start, or with a mark that it goes on."""
    if piece == "</s>":
        return "(end)"
    # A dollar would start mathematics in matplotlib.
    text = piece.removeprefix("▁") or "▁"
    return (text if piece.startswith("▁") else f"·{text}").replace("$", r"\$")


def plot_sentence(run: str, sentence: str, path: Path, *, beam: int | None = None) -> None:
    """Translate a sentence and draw its attention; of a split sentence, the first part's."""
    translator = Translator.load(run)
    options = translator.options(beam_size=beam, keep_weights=True)
    parts = translator.translate([sentence], options)[0][0].parts
    if not parts:
        raise DataError("the sentence is empty")
    plot_attention(parts[0], path)
