"""Learning curves of one or several runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seq2seq.errors import DataError
from seq2seq.evaluation.curves import Curve, Curves, Unit, read_curves
from seq2seq.evaluation.plots.figure import check_picture, new_figure, plain, run_names, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
