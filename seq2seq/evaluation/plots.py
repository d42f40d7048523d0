"""BLEU by source length, of one or several systems in one picture."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError
from seq2seq.evaluation.by_length import bleu_by_length
from seq2seq.files import check_writable
from seq2seq.runs.directory import RunDirectory
from seq2seq.runs.logs import KINDS, Record, read_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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


Unit = Literal["steps", "minutes", "tokens"]
UNITS: tuple[Unit, ...] = ("steps", "minutes", "tokens")


@dataclass(frozen=True)
class Curve:
    """Values over what training had spent by then; a value that was not finite is nan."""

    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class Curves:
    """The records of one run: of training, of validations, of the averaged checkpoint."""

    train: list[Record]
    validation: list[Record]
    average: list[Record]

    def loss(self, unit: Unit) -> Curve:
        """Return the training's cross-entropy in nats a target piece, without label smoothing."""
        found = self.of("train", "perplexity", unit)
        return Curve(found.x, [math.log(y) if y > 0 else math.nan for y in found.y])

    def of(self, kind: Literal["train", "validation", "average"], key: str, unit: Unit) -> Curve:
        """Return the values of one key, where there are any."""
        records = [record for record in getattr(self, kind) if key in record]
        values = [math.nan if record[key] is None else float(record[key]) for record in records]
        return Curve([self._place(record, unit) for record in records], values)

    def _place(self, record: Record, unit: Unit) -> float:
        """Return steps, minutes or millions of tokens of a record.

        A validation does not say its tokens; they are those of its step between the records of
        the training.
        """
        key = {"steps": "step", "minutes": "minutes", "tokens": "tokens"}[unit]
        steps = [0, *(train["step"] for train in self.train)]
        spent = [0, *(train[key] for train in self.train)]
        place = record[key] if key in record else np.interp(record["step"], steps, spent)
        return float(place) / (1e6 if unit == "tokens" else 1)


def read_curves(run: Path) -> Curves:
    """Read the records of a run.

    Raises DataError for a run without records, and for what read_metrics refuses.
    """
    path = RunDirectory(run).metrics
    kinds: dict[str, list[Record]] = {kind: [] for kind in KINDS}
    for record in read_metrics(path):
        kinds[record["kind"]].append(record)
    if not kinds["train"] and not kinds["validation"]:
        raise DataError(f"{path}: no records yet; train the run further")
    return Curves(**kinds)


MOST_RUNS = 10  # as many as there are colours that can be told apart
_LABELS: dict[Unit, str] = {
    "steps": "updates",
    "minutes": "minutes",
    "tokens": "million target pieces",
}


def plot_training(runs: Sequence[str], path: Path, *, unit: Unit = "steps") -> None:
    """Draw the losses, validation metrics and learning rates of runs over what they had spent.

    The training loss is the cross-entropy without label smoothing (but with dropout), so that it
    can be compared with the validation's. The suffix chooses PNG, SVG or PDF. Raises DataError for
    another suffix, runs without records, and more than 10 runs.
    """
    check_picture(path)
    if len(runs) > MOST_RUNS:
        raise DataError(f"{len(runs)} runs; a picture holds {MOST_RUNS}")
    curves = [read_curves(Path(run)) for run in runs]
    figure = new_figure(7.5, 7.5)
    losses, metrics, rates = figure.subplots(3, 1, sharex=True, height_ratios=[3, 3, 1.4])
    for number, (name, found) in enumerate(zip(run_names(list(runs)), curves, strict=True)):
        label = "" if len(runs) == 1 else f"{plain(name)}: "
        color = f"C{number}"
        _losses(losses, found, unit, label, color)
        _metrics(metrics, found, unit, label, color)
        _line(rates, found.of("train", "learning_rate", unit), "", color=color, linewidth=1.2)
    _finish(losses, metrics, rates, unit)
    if len(runs) == 1:
        figure.suptitle(plain(run_names(list(runs))[0]))
    save(figure, path)


def _losses(axes: Axes, curves: Curves, unit: Unit, label: str, color: str) -> None:
    train, validation = curves.loss(unit), curves.of("validation", "loss", unit)
    _line(axes, train, f"{label}training", color=color, alpha=0.55, linewidth=1.2)
    _line(axes, validation, f"{label}validation", color=color, marker="o", markersize=3.5)
    _line(axes, curves.of("average", "loss", unit), "", color=color, marker="*", markersize=11)


def _metrics(axes: Axes, curves: Curves, unit: Unit, label: str, color: str) -> None:
    styles = {"bleu": ("BLEU", "-", "o"), "chrf": ("chrF", "--", "s")}
    for key, (name, line, marker) in styles.items():
        style = {"color": color, "linestyle": line, "marker": marker, "markersize": 3.5}
        _line(axes, curves.of("validation", key, unit), f"{label}{name}", **style)
        average = curves.of("average", key, unit)
        _line(axes, average, f"{label}{name} of the average", **{**style, "marker": "*",
              "markersize": 11, "linestyle": "none"})  # fmt: skip


def _line(axes: Axes, curve: Curve, label: str, **style: Any) -> None:
    if curve.x:
        axes.plot(curve.x, curve.y, label=label or None, **style)


def _finish(losses: Axes, metrics: Axes, rates: Axes, unit: Unit) -> None:
    losses.set_ylabel("cross-entropy, nats a piece")
    # The same curve read on the right is the perplexity.
    right = losses.secondary_yaxis("right", functions=(np.exp, np.log))
    right.set_ylabel("perplexity")
    right.set_yscale("log")
    metrics.set_ylabel("validation, percent")
    metrics.set_ylim(0, 100)
    rates.set_ylabel("learning rate")
    rates.set_ylim(bottom=0)
    rates.ticklabel_format(axis="y", scilimits=(0, 0))
    rates.set_xlabel(_LABELS[unit])
    rates.set_xlim(left=0)
    for axes in (losses, metrics, rates):
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize="small")


MOST_SYSTEMS = 10


def plot_length(
    systems: Mapping[str, Sequence[str]], pairs: Sequence[Pair], path: Path, *, buckets: int = 6
) -> None:
    """Draw corpus BLEU by source length with bands of 95 percent (seq2seq.evaluation.by_length).

    `systems` are translations of the pairs' sources by the name of who made them. The suffix
    chooses PNG, SVG or PDF. Raises DataError for another suffix, translations that do not fit the
    pairs, and more than 10 systems.
    """
    check_picture(path)
    if len(systems) > MOST_SYSTEMS:
        raise DataError(f"{len(systems)} systems; a picture holds {MOST_SYSTEMS}")
    sources = [pair.source for pair in pairs]
    references = [(pair.target, *pair.references) for pair in pairs]
    figure = new_figure(7.5, 4.6)
    axes = figure.subplots()
    for number, (name, hypotheses) in enumerate(systems.items()):
        found = bleu_by_length(sources, hypotheses, references, buckets=buckets)
        x = range(len(found))
        color = f"C{number}"
        axes.plot(x, [b.bleu for b in found], "o-", color=color, label=plain(name))
        low, high = [b.low for b in found], [b.high for b in found]
        axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)
    labels = [f"{_span(b.shortest, b.longest)}\n{b.sentences}" for b in found]
    axes.set_xticks(x, labels)
    axes.set_xlabel("source words (below: sentences)")
    axes.set_ylabel("BLEU, with 95 % of the resamples")
    axes.set_ylim(0, 100)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.legend(frameon=False)
    save(figure, path)


def _span(shortest: int, longest: int) -> str:
    return str(shortest) if shortest == longest else f"{shortest}-{longest}"
