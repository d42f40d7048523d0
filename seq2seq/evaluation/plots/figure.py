"""A picture and its file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.errors import DataError
from seq2seq.files import check_writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
_MOST_INCHES = 100.0
_DOTS_PER_INCH = 150


def check_picture(path: Path) -> None:
    """Raise DataError where a name does not say which kind of picture, or cannot be written."""
    if path.suffix.lower() not in SUFFIXES:
        raise DataError(f"{path}: a picture ends in {', '.join(SUFFIXES)}; rename it")
    check_writable(path)


def new_figure(width: float, height: float, *, constrained: bool = True) -> Figure:
    """Return an empty picture of this size in inches, or of the largest that can be drawn.

    Its parts find their places by themselves unless it is not `constrained`.
    """
    # A canvas of its own: nothing here needs a display or pyplot's list of open figures.
    from matplotlib.figure import Figure

    size = (min(width, _MOST_INCHES), min(height, _MOST_INCHES))
    return Figure(figsize=size, layout="constrained" if constrained else None)


def save(figure: Figure, path: Path) -> None:
    """Write the picture; the suffix chooses PNG, SVG or PDF.

    Raises DataError for another suffix and for a path that cannot be written.
    """
    check_picture(path)
    with warnings.catch_warnings():
        # A sign that the font lacks is drawn as a box.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(path, dpi=_DOTS_PER_INCH)


def plain(text: str) -> str:
    """Return a text that matplotlib draws as it is: a dollar would start mathematics."""
    return text.replace("$", r"\$")


def run_names(runs: list[str]) -> list[str]:
    """Return short names of runs that are still different from each other."""
    names = [Path(run).resolve().name for run in runs]
    return names if len(set(names)) == len(names) else list(runs)
