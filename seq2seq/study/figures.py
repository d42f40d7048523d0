"""Pictures of a study: scores with their spread, BLEU by length, learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.study.gathering import Gathered, Summary
from seq2seq.study.statistics import Spread
from seq2seq.study.tables import TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCORES, BY_LENGTH, CURVES = "scores.png", "by-length.png", "learning-curves.png"
_TOGETHER = 6  # cells that are drawn into one panel; more have one for each level of an axis
_COLORS = [f"C{number}" for number in range(10)]
_VALIDATED = {"bleu": "BLEU", "loss": "loss"}
_MARKERS = "osD^vP*Xdh"


def draw(gathered: Gathered, directory: Path) -> list[str]:
    """Write all pictures into a directory; return their file names."""
    pictures = {
        SCORES: _scores(gathered),
        BY_LENGTH: _by_length(gathered),
        CURVES: _curves(gathered),
    }
    for name, figure in pictures.items():
        figure.savefig(directory / name, dpi=130)
    return list(pictures)


def _figure(width: float, height: float) -> Figure:
    # A canvas of its own: nothing here needs a display or pyplot's list of open figures.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _scores(gathered: Gathered) -> Figure:
    """Draw a row for each cell: a small mark for each seed, mean and deviation."""
    measures = [m for m in gathered.measures if m not in ("minutes", "parameters")]
    measures = measures or gathered.measures
    rows, labels, place = [], [], 0.0
    for _, group in groupby(gathered.summaries, lambda s: next(iter(s.cell.levels.values()))):
        for summary in group:
            rows.append((place, summary))
            labels.append(" / ".join(gathered.plan.study.shown(summary.cell.levels)))
            place += 1
        place += 0.6  # between the levels of the first axis
    figure = _figure(2.5 + 3.2 * len(measures), 1.4 + 0.26 * place)
    panels = figure.subplots(1, len(measures), squeeze=False, sharey=True)[0]
    last = list(dict.fromkeys(list(s.cell.levels.values())[-1] for s in gathered.summaries))
    for axes, measure in zip(panels, measures, strict=True):
        for y, summary in rows:
            color = _COLORS[last.index(list(summary.cell.levels.values())[-1]) % len(_COLORS)]
            if (spread := summary.spread(measure)) is not None:
                _spread_mark(axes, y, spread, color)
        axes.set_xlabel(TITLES[measure])
        axes.grid(axis="x", alpha=0.3)
        axes.set_axisbelow(True)
    panels[0].set_yticks([y for y, _ in rows], labels)
    panels[0].invert_yaxis()
    figure.suptitle(f"{gathered.plan.study.name}: mean ± standard deviation, a ring a seed")
    return figure


def _spread_mark(axes: Axes, y: float, spread: Spread, color: str) -> None:
    axes.plot(spread.values, [y] * len(spread.values), "o", mfc="none", mec=color, ms=4, alpha=0.6)
    axes.errorbar(spread.mean, y, xerr=spread.deviation or 0, fmt="o", color=color, ms=6, lw=1.5)


def _by_length(gathered: Gathered) -> Figure:
    groups = _panels(gathered)
    names = _names(groups)
    figure = _figure(2.6 + 3.2 * len(groups), 4.2)
    panels = figure.subplots(1, len(groups), squeeze=False, sharey=True)[0]
    places = list(range(len(gathered.classes)))
    for axes, (title, summaries) in zip(panels, groups.items(), strict=True):
        for name, summary in summaries.items():
            _band(axes, places, summary.by_length, name, names.index(name))
        axes.set_xticks(places, [f"{c.label}\n({len(c.sentences)})" for c in gathered.classes])
        axes.set_xlabel("source words (sentences)")
        _dress(axes, title)
    panels[0].set_ylabel("BLEU")
    _legend(figure, panels)
    return figure


def _curves(gathered: Gathered) -> Figure:
    groups = _panels(gathered)
    names = _names(groups)
    figure = _figure(2.6 + 3.2 * len(groups), 6.6)
    rows = figure.subplots(2, len(groups), squeeze=False, sharex=True, sharey="row")
    for panels, (key, metric) in zip(rows, _VALIDATED.items(), strict=True):
        for axes, (title, summaries) in zip(panels, groups.items(), strict=True):
            for name, summary in summaries.items():
                curve = summary.curve(key)
                steps, spreads = [step for step, _ in curve], [spread for _, spread in curve]
                _band(axes, steps, spreads, name, names.index(name))
            _dress(axes, title if key == "bleu" else "")
        panels[0].set_ylabel(f"validation {metric}")
    for axes in rows[-1]:
        axes.set_xlabel("updates")
    _legend(figure, rows[0])
    return figure


def _panels(gathered: Gathered) -> dict[str, dict[str, Summary]]:
    """Return the cells that are drawn together: by the title of their panel, then by their name.

    Few cells are one panel; of more, each level of the first axis has its own.
    """
    study, panels = gathered.plan.study, dict[str, dict[str, Summary]]()
    together = len(gathered.summaries) <= _TOGETHER or len(study.grid) == 1
    for summary in gathered.summaries:
        words = study.shown(summary.cell.levels)
        title = "" if together else words.pop(0)
        panels.setdefault(title, {})[" / ".join(words)] = summary
    return panels


def _names(panels: dict[str, dict[str, Summary]]) -> list[str]:
    """Return the names of all lines, once each: a line has one colour in all panels."""
    return list(dict.fromkeys(name for group in panels.values() for name in group))


def _band(
    axes: Axes, x: Sequence[float], spreads: Sequence[Spread], name: str, number: int
) -> None:
    """Draw means as a line, with a band of one standard deviation."""
    color = _COLORS[number % len(_COLORS)]
    means = [spread.mean for spread in spreads]
    half = [spread.deviation or 0.0 for spread in spreads]
    marker = _MARKERS[number % len(_MARKERS)]
    axes.plot(x, means, marker=marker, ms=4, color=color, label=name)
    low, high = ([m + sign * h for m, h in zip(means, half, strict=True)] for sign in (-1, 1))
    axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)


def _dress(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """Write one legend for all panels beside them."""
    lines: dict[str, Any] = {}
    for axes in panels:
        handles, names = axes.get_legend_handles_labels()
        lines = dict(zip(names, handles, strict=True)) | lines
    figure.legend(lines.values(), lines.keys(), loc="outside right upper", fontsize=8)
