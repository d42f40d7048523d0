"""Small pictures of the museum's exhibits."""

from __future__ import annotations

from pathlib import Path

from seq2seq.diagnosis.museum import LOSS, PADDINGS, Museum
from seq2seq.evaluation.alignment import END
from seq2seq.inference.translation import Part

_CELL = 0.2  # inches
_DPI = 120
_NAMES = {END: "(end)", "<pad>": "(pad)"}


def plot_weights(part: Part, path: Path) -> None:
    """Draw the weights of a translation as they are, whether or not rows sum to 1; 1 is darkest.

    A model without attention has no picture. Raises OSError where the file cannot be written.
    """
    from matplotlib.figure import Figure

    if part.weights is None:
        return
    source, target = (
        [_shown(p) for p in side] for side in (part.source_pieces, part.target_pieces)
    )
    size = (1.1 + _CELL * len(source), 0.9 + _CELL * len(target))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.pcolormesh(
        part.weights.numpy(), cmap="Blues", vmin=0, vmax=1, edgecolors="white", linewidth=0.5
    )
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    axes.set_xticks([n + 0.5 for n in range(len(source))], source, rotation=90, fontsize=7)
    axes.set_yticks([n + 0.5 for n in range(len(target))], target, fontsize=7)
    axes.tick_params(length=0)
    figure.savefig(path, dpi=_DPI)


def _shown(piece: str) -> str:
    # A dollar would start mathematics in matplotlib.
    return _NAMES.get(piece, piece.removeprefix("▁") or "▁").replace("$", r"\$")


def plot_losses(museum: Museum, path: Path) -> None:
    """Draw loss and norm of the gradient by columns of padding, healthy and faulty.

    Raises OSError where the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 2.8), layout="constrained")
    sides = figure.subplots(1, 2)
    titles = ("loss (nats a piece)", "norm of the gradient")
    for place, (axes, title) in enumerate(zip(sides, titles, strict=True)):
        for exhibit, name in ((museum.healthy, "healthy"), (museum.faulty[LOSS], "counts padding")):
            values = [pair[place] for pair in exhibit.losses]
            axes.plot(PADDINGS, values, marker="o", markersize=3, label=name)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("more columns of padding", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.set_ylim(bottom=0)
    sides[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=_DPI)
