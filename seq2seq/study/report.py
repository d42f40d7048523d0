"""The files of a study's results."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.files import write_atomic
from seq2seq.study.comparison import RESAMPLES, Difference, Gathered, Spread, Summary
from seq2seq.study.plan import Measure, is_of_recipe, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


TITLES: dict[Measure, str] = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "alignment_error": "AER %",
    "minutes": "minutes",
    "parameters": "parameters",
}
TEXT_MEASURES: tuple[Measure, ...] = ("bleu", "chrf")
_DIGITS: dict[Measure, int] = {"parameters": 0}

_READING = f"""\
Mean ± sample standard deviation over the seeds (n of them). *Difference* is that of the mean BLEU
to that of {{baseline}}; in brackets, the central 95 % of {RESAMPLES} paired bootstrap resamples.
*p* is the share of resamples whose difference is as far from the observed one as that is from
zero, on either side. Each resample draws as many test sentences as there are, the same for both
cells, and for each cell as many of its seeds as it has, all with replacement. p is not corrected
for the number of comparisons, and with few seeds it is too small rather than too large."""
_ALIGNMENT = """\
AER is the alignment error rate of the attention's links under forced decoding; a cell without
attention has none."""
_LENGTHS = """\
By words of the source sentence, with the number of test sentences of each class in brackets; ± is
the standard deviation over the seeds, as are the bands of the pictures."""


def as_markdown(gathered: Gathered, figures: Sequence[str]) -> str:
    """Return the page of results, with figures by their file names."""
    plan = gathered.plan
    reading = _READING.format(baseline=_baseline(gathered))
    if "alignment_error" in gathered.measures:
        reading += " " + _ALIGNMENT
    parts = [
        f"# Study {plan.study.name}",
        _facts(gathered),
        main_table(gathered),
        reading,
        "## BLEU by length",
        _LENGTHS,
        length_table(gathered),
        *(f"![{name}]({name})" for name in figures),
    ]
    return "\n\n".join(parts) + "\n"


def main_table(gathered: Gathered) -> str:
    """Return a row for each cell: measures, and the difference to the baseline."""
    study = gathered.plan.study
    head = [*study.titles.values(), "n", *(TITLES[m] for m in gathered.measures)]
    rows = []
    for summary in gathered.summaries:
        row = [*summary.cell.levels.values(), str(len(summary.results))]
        row += [_shown(summary.spread(m), _DIGITS.get(m, 1)) for m in gathered.measures]
        difference = summary.difference
        if difference is not None:
            limits = f"[{_signed(difference.low)}, {_signed(difference.high)}]"
            row.append(f"{_signed(difference.value)} {limits}")
            row.append(f"{difference.p_value:.3f}")
        else:
            row += ["baseline" if summary.cell.name == summary.baseline else "", ""]
        rows.append(row)
    return _table([*head, "difference", "p"], rows, names=len(study.grid))


def length_table(gathered: Gathered) -> str:
    """Return BLEU by classes of source lengths, a row for each cell."""
    titles = gathered.plan.study.titles
    head = [*titles.values(), *(f"{c.label} ({len(c.sentences)})" for c in gathered.classes)]
    rows = [
        [*summary.cell.levels.values(), *(_shown(spread, 1) for spread in summary.by_length)]
        for summary in gathered.summaries
    ]
    return _table(head, rows, names=len(titles))


def _facts(gathered: Gathered) -> str:
    """Return what it takes to make these results again."""
    plan = gathered.plan
    study = plan.study
    changes = [f"`{key}: {json.dumps(value)}`" for key, value in study.overrides.items()]
    changes += [f"`{change}`" for change in plan.changes if is_of_recipe(change)]
    result = next(iter(gathered.summaries[0].results.values()))
    search = result.config.inference
    if any(key.partition(".")[0] == "inference" for cell in plan.cells for key in cell.settings):
        searched = "searched as the cell says"
    else:
        searched = f"beam {search.beam_size}, length penalty {search.length_penalty:g}"
    return "\n".join(
        [
            f"- `{shlex.join(['seq2seq', 'study', plan.path, *plan.changes])}`",
            f"- {gathered.finished} of {len(plan.runs)} runs are finished: {len(plan.cells)} "
            f"cells, seeds {', '.join(map(str, study.seeds))}",
            f"- all cells: `{study.base}` with {', '.join(changes) or 'no change'}",
            f"- test set: {gathered.sentences} sentences, {searched}",
            *(f"- {TITLES[name]}: `{result.signatures[name]}`" for name in TEXT_MEASURES),
            f"- torch {result.torch}",
        ]
    )


def _baseline(gathered: Gathered) -> str:
    """Return what the cells are compared with, in words."""
    study = gathered.plan.study
    if study.baseline is None:
        return f"`{gathered.summaries[0].baseline}`, the best of the table"
    levels = ", ".join(
        f"`{study.titles[a]}: {label(level)}`" for a, level in study.baseline.items()
    )
    same = "" if len(study.baseline) == len(study.grid) else " and otherwise its own levels"
    return f"the cell with {levels}{same}"


def _shown(spread: Spread | None, digits: int) -> str:
    if spread is None:
        return ""
    mean = f"{spread.mean:,.{digits}f}"
    if spread.deviation is None or not (digits or spread.deviation):
        return mean
    return f"{mean} ± {spread.deviation:,.{digits}f}"


def _signed(value: float) -> str:
    return f"{round(value, 1) + 0.0:+.1f}"  # without a negative zero


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, names: int) -> str:
    """Return a Markdown table; the columns after the names are numbers."""
    lines = [head, ["---"] * names + ["---:"] * (len(head) - names), *rows]
    shown = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in shown)


def as_csv(gathered: Gathered) -> str:
    """Return a line for each cell, means and deviations in columns of their own."""
    measures = gathered.measures
    columns = ["cell", *gathered.plan.study.titles.values(), "n"]
    columns += [name for measure in measures for name in (measure, f"{measure}_sd")]
    columns += ["baseline", "difference", "difference_low", "difference_high", "p"]
    for of in gathered.classes:
        columns += [f"bleu {of.label}", f"bleu {of.label}_sd"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for summary in gathered.summaries:
        row: list[Any] = [summary.cell.name, *summary.cell.levels.values(), len(summary.results)]
        for measure in measures:
            row += _numbers(summary.spread(measure))
        row += [summary.baseline, *_compared(summary.difference)]
        for spread in summary.by_length:
            row += _numbers(spread)
        writer.writerow(row)
    return text.getvalue()


def _numbers(spread: Spread | None) -> list[float | None]:
    return [spread.mean, spread.deviation] if spread else [None, None]


def _compared(found: Difference | None) -> list[float | None]:
    return [found.value, found.low, found.high, found.p_value] if found else [None] * 4


def as_json(gathered: Gathered) -> str:
    """Return all numbers, of every run; the translations stay in the runs' own results."""
    plan = gathered.plan
    return (
        json.dumps(
            {
                "study": plan.study.model_dump(mode="json"),
                "changes": plan.changes,
                "test": plan.test.model_dump(mode="json", exclude_none=True),
                "sentences": gathered.sentences,
                "lengths": {c.label: len(c.sentences) for c in gathered.classes},
                "resamples": RESAMPLES,
                "finished": gathered.finished,
                "runs": len(plan.runs),
                "cells": [_cell_json(gathered, summary) for summary in gathered.summaries],
            },
            ensure_ascii=False,
            indent=1,
        )
        + "\n"
    )


def _cell_json(gathered: Gathered, summary: Summary) -> dict[str, Any]:
    spreads = {measure: summary.spread(measure) for measure in gathered.measures}
    labels = [of.label for of in gathered.classes]
    by_length = dict(zip(labels, summary.by_length, strict=True))
    runs = [
        {
            "seed": seed,
            "run_dir": str(summary.runs[seed].path),
            **result.model_dump(mode="json", exclude={"config", "hypotheses"}),
            "bleu_by_length": {label: s.values[n] for label, s in by_length.items()},
        }
        for n, (seed, result) in enumerate(summary.results.items())
    ]
    return {
        "name": summary.cell.name,
        "levels": summary.cell.levels,
        "settings": summary.cell.settings,
        "measures": {measure: _spread_json(spread) for measure, spread in spreads.items()},
        "bleu_by_length": {label: _spread_json(spread) for label, spread in by_length.items()},
        "baseline": summary.baseline,
        "difference": vars(summary.difference) if summary.difference else None,
        "runs": runs,
    }


def _spread_json(spread: Spread | None) -> dict[str, float | None] | None:
    return {"mean": spread.mean, "deviation": spread.deviation} if spread else None


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


def write_results(gathered: Gathered) -> Path:
    """Write results.json, results.csv, the pictures and results.md; return the last one's path."""
    directory = gathered.plan.out
    write_atomic(directory / "results.json", as_json(gathered))
    write_atomic(directory / "results.csv", as_csv(gathered))
    figures = draw(gathered, directory)
    page = directory / "results.md"
    write_atomic(page, as_markdown(gathered, figures))
    return page
