"""The results of a study: its cells compared, as a page with tables, CSV, JSON and figures."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from documentation.pages import markdown_table
from seq2seq.analysis import to_json
from seq2seq.analysis.pages import ENVIRONMENT
from seq2seq.analysis.plots import LengthBucket, fixed_buckets, new_figure, write_figure
from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import references_of
from seq2seq.evaluation.metrics import RESAMPLES
from seq2seq.files import write_atomic
from studies.bleu import bleu_by_length, sentence_statistics
from studies.differences import Difference, compare_seeds, score_seeds
from studies.plan import Cell, Measure, Plan, baseline_of, changes_recipe, label
from studies.runs import RunResult, decide, same_training, statuses

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPLATE = Path(__file__).with_name("template.md")
Parts = Literal["kinds", "phenomena"]  # of a measure, in a table of their own
_MOST_COLUMNS = 8  # of that table; with more cells, results.csv has the parts
TITLES: dict[Measure, str] = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "alignment_error": "AER %",
    "lost": "BLEU lost",
    "copied": "copied %",
    "challenge": "right %",
    "minutes": "minutes",
    "parameters": "parameters",
}


@dataclass(frozen=True)
class Spread:
    """The values of a measure over seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The arithmetic mean."""
        return fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation (n - 1); None for a single value."""
        return stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class CellSummary:
    """A cell: its results by seed, BLEU by length, and its difference from the baseline."""

    cell: Cell
    results: dict[int, RunResult]  # by seed, like the values of all spreads
    by_length: dict[str, Spread]  # BLEU by the label of each length bucket
    baseline: str | None  # the cell it is compared with; maybe itself; None without results
    difference: Difference | None  # None for the baseline itself

    def spread(self, measure: Measure) -> Spread | None:
        """Return the values of a measure over seeds; None where it does not apply."""
        values = [getattr(result, measure) for result in self.results.values()]
        known = tuple(float(value) for value in values if value is not None)
        return Spread(known) if known else None

    def part(self, name: Parts, part: str) -> Spread:
        """Return the values over seeds of a kind of text, or of a phenomenon."""
        return Spread(tuple(getattr(result, name)[part] for result in self.results.values()))

    def curve(self, metric: str) -> list[tuple[int, Spread]]:
        """Return a metric of the validations during training: step, and values over seeds."""
        by_step: dict[int, list[float]] = {}
        for result in self.results.values():
            for point in result.curve:
                value = getattr(point, metric)
                if value is not None and math.isfinite(value):
                    by_step.setdefault(point.step, []).append(value)
        return [(step, Spread(tuple(by_step[step]))) for step in sorted(by_step)]


@dataclass(frozen=True)
class StudyResults:
    """The cells that have a finished run, in the order of the grid."""

    plan: Plan
    sentences: int  # of the test set
    finished: int  # runs
    buckets: tuple[LengthBucket, ...]
    summaries: tuple[CellSummary, ...]

    @property
    def qualities(self) -> list[Measure]:
        """The measures of translations, not of what a model costs."""
        return [measure for measure in self.measures if measure not in ("minutes", "parameters")]

    def parts(self, name: Parts) -> list[str]:
        """Return the kinds of text, or the phenomena, that all runs were measured on."""
        found = [getattr(run, name) for each in self.summaries for run in each.results.values()]
        return [part for part in found[0] if all(part in each for each in found)]

    @property
    def measures(self) -> list[Measure]:
        """The measures that the study asks for and some cell has."""
        return [
            measure
            for measure in self.plan.study.measure
            if any(summary.spread(measure) for summary in self.summaries)
        ]


def gather(plan: Plan, pairs: Sequence[Pair]) -> StudyResults:
    """Read the results of all finished runs and compare the cells.

    Raises DataError if no run is finished.
    """
    plan = decide(plan, pairs)
    results: dict[str, dict[int, RunResult]] = {}
    for run, status in zip(plan.runs, statuses(plan, pairs).values(), strict=True):
        if status.state == "finished" and status.result and run.cell not in plan.undecided:
            results.setdefault(run.cell, {})[run.seed] = status.result
    if not results:
        raise DataError(
            f"{plan.study.directory}: no run is finished with these settings; run the study first, "
            "or see --list"
        )
    references = references_of(pairs)
    statistics = {
        name: [sentence_statistics(found.hypotheses, references) for found in by_seed.values()]
        for name, by_seed in results.items()
    }
    scores = {name: score_seeds(by_seed) for name, by_seed in statistics.items()}
    best = max(results, key=lambda name: fmean(run.bleu for run in results[name].values()))
    buckets = fixed_buckets([pair.source for pair in pairs], plan.study.lengths)
    summaries = []
    for cell in plan.cells:
        name = cell.name
        if name not in results:
            continue
        baseline: str | None = best
        if plan.study.baseline is not None:
            other = baseline_of(plan.study, cell, plan.cells)
            baseline = other.name if other is not None and other.name in results else None
        bleu = [bleu_by_length(buckets, statistics_NC) for statistics_NC in statistics[name]]
        spreads = map(Spread, zip(*bleu, strict=True))
        by_length = dict(zip([each.label for each in buckets], spreads, strict=True))
        difference = None
        if baseline is not None and baseline != name:
            difference = compare_seeds(
                scores[name],
                scores[baseline],
                same_models=_same_models(results[name], results[baseline]),
            )
        summaries.append(CellSummary(cell, results[name], by_length, baseline, difference))
    finished = sum(map(len, results.values()))
    return StudyResults(plan, len(pairs), finished, tuple(buckets), tuple(summaries))


def _same_models(one: Mapping[int, RunResult], other: Mapping[int, RunResult]) -> bool:
    """Tell whether the models of two cells are the same, so that only their search differs."""
    return one.keys() == other.keys() and all(
        same_training(found.config, other[seed].config) for seed, found in one.items()
    )


# --- Tables and files


def write_results(results: StudyResults) -> Path:
    """Write results.json, results.csv, the figures and results.md; return the path of the last."""
    directory = results.plan.study.directory
    write_atomic(directory / "results.json", as_json(results))
    write_atomic(directory / "results.csv", as_csv(results))
    figures = {
        "scores.png": _plot_scores(results),
        "by-length.png": _plot_by_length(results),
        "learning-curves.png": _plot_curves(results),
    }
    for name, figure in figures.items():
        write_figure(figure, directory / name, dots=130)
    page = directory / "results.md"
    write_atomic(page, as_markdown(results, list(figures)))
    return page


def as_markdown(results: StudyResults, figures: Sequence[str]) -> str:
    """Return the page of results, with figures by their file names."""
    plan = results.plan
    changes = [f"`{key}: {json.dumps(value)}`" for key, value in plan.study.overrides.items()]
    changes += [f"`{change}`" for change in plan.changes if changes_recipe(change)]
    keys = {key for cell in plan.cells for key in cell.settings}
    return ENVIRONMENT.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        results=results,
        command=plan.command(),
        changes=changes,
        result=next(iter(results.summaries[0].results.values())),
        own_search=any(key.partition(".")[0] == "inference" for key in keys),
        baseline=_baseline(results),
        resamples=RESAMPLES,
        main_table=main_table(results),
        length_table=length_table(results),
        matrices=matrices(results),
        kinds_table=parts_table(results, "kinds"),
        phenomena_table=parts_table(results, "phenomena"),
        figures=figures,
    )


def _baseline(results: StudyResults) -> str:
    """Return what the cells are compared with, in words."""
    study = results.plan.study
    if study.baseline is None:
        return f"`{results.summaries[0].baseline}`, the best of the table"
    levels = ", ".join(
        f"`{study.titles[a]}: {label(level)}`" for a, level in study.baseline.items()
    )
    same = "" if len(study.baseline) == len(study.grid) else " and otherwise its own levels"
    return f"the cell with {levels}{same}"


def main_table(results: StudyResults) -> str:
    """Return a row for each cell: measures, and the difference from the baseline."""
    titles, measures = results.plan.study.titles, results.measures
    tuned = [results.plan.study.tuned_title] if results.plan.study.tune else []
    rows = []
    for summary in results.summaries:
        row = [*summary.cell.levels.values(), str(len(summary.results))]
        row += [results.plan.best[summary.cell.name][0].tuned] if tuned else []
        row += [shown(summary.spread(m), 0 if m == "parameters" else 1) for m in measures]
        if (found := summary.difference) is not None:
            limits = f"[{_signed(found.low)}, {_signed(found.high)}]"
            row += [f"{_signed(found.value)} {limits}", f"{found.p_value:.3f}"]
        else:
            row += ["baseline" if summary.cell.name == summary.baseline else "", ""]
        rows.append(row)
    head = [*titles.values(), "n", *tuned, *(TITLES[m] for m in measures), "difference", "p"]
    return markdown_table(head, rows, names=len(titles))


def length_table(results: StudyResults) -> str:
    """Return BLEU by source length, a row for each cell."""
    titles = results.plan.study.titles
    head = [*titles.values(), *(f"{b.label} ({len(b.sentences)})" for b in results.buckets)]
    rows = [
        [*s.cell.levels.values(), *(shown(spread, 1) for spread in s.by_length.values())]
        for s in results.summaries
    ]
    return markdown_table(head, rows, names=len(titles))


def matrices(results: StudyResults) -> dict[str, str]:
    """Return measures of quality by title, each as a table of one axis against the other.

    Empty unless there are two axes, and many cells.
    """
    study = results.plan.study
    if len(study.grid) != 2 or len(results.summaries) <= _MOST_COLUMNS:
        return {}
    (_, columns), (axis, rows) = study.axes.items()
    tables = {}
    for measure in results.qualities:
        spreads = {tuple(s.cell.levels.values()): s.spread(measure) for s in results.summaries}
        body = [
            [row, *(shown(spreads.get((column, row)), 1) for column in columns)] for row in rows
        ]
        tables[TITLES[measure]] = markdown_table([study.titles[axis], *columns], body, names=1)
    return tables


def parts_table(results: StudyResults, name: Parts) -> str:
    """Return a row for each part of a measure, a column for each cell; empty for many cells."""
    parts = results.parts(name)
    if not parts or len(results.summaries) > _MOST_COLUMNS:
        return ""
    study = results.plan.study
    cells = [" / ".join(study.describe(summary.cell.levels)) for summary in results.summaries]
    rows = [[part, *(shown(s.part(name, part), 1) for s in results.summaries)] for part in parts]
    return markdown_table(["", *cells], rows, names=1)


def shown(spread: Spread | None, digits: int) -> str:
    """Return mean ± deviation as text; empty for None."""
    if spread is None:
        return ""
    mean = f"{spread.mean:,.{digits}f}"
    if spread.deviation is None or not (digits or spread.deviation):
        return mean
    return f"{mean} ± {spread.deviation:,.{digits}f}"


def _signed(value: float) -> str:
    return f"{round(value, 1) + 0.0:+.1f}"  # without a negative zero


def as_csv(results: StudyResults) -> str:
    """Return a line for each cell, with means and deviations in columns of their own."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rows = [_csv_row(results, summary) for summary in results.summaries]
    writer.writerow([column for column, _ in rows[0]])
    writer.writerows([value for _, value in row] for row in rows)
    return text.getvalue()


def _csv_row(results: StudyResults, summary: CellSummary) -> list[tuple[str, Any]]:
    """Return columns and values, as a list: an axis may have the name of another column."""
    levels = zip(results.plan.study.titles.values(), summary.cell.levels.values(), strict=True)
    row = [("cell", summary.cell.name), *levels, ("n", len(summary.results))]
    if results.plan.study.tune:
        row.append((results.plan.study.tuned_title, results.plan.best[summary.cell.name][0].tuned))
    for measure in results.measures:
        row += _csv_spread(measure, summary.spread(measure))
    row.append(("baseline", summary.baseline))
    columns = ("difference", "difference_low", "difference_high", "p")
    found = vars(summary.difference).values() if summary.difference else [None] * len(columns)
    row += zip(columns, found, strict=True)
    for length, spread in summary.by_length.items():
        row += _csv_spread(f"bleu {length}", spread)
    for name in get_args(Parts):
        for part in results.parts(name):
            row += _csv_spread(part, summary.part(name, part))
    return row


def _csv_spread(column: str, spread: Spread | None) -> list[tuple[str, Any]]:
    mean, deviation = (spread.mean, spread.deviation) if spread else (None, None)
    return [(column, mean), (f"{column}_sd", deviation)]


def as_json(results: StudyResults) -> str:
    """Return all numbers of every run; the translations are in the results of the runs."""
    plan = results.plan
    found = {
        "study": plan.study.model_dump(mode="json"),
        "changes": plan.changes,
        "test": plan.test.model_dump(mode="json", exclude_none=True),
        "sentences": results.sentences,
        "lengths": {b.label: len(b.sentences) for b in results.buckets},
        "resamples": RESAMPLES,
        "finished": results.finished,
        "runs": len(plan.runs),
        "cells": [_cell_json(results, summary) for summary in results.summaries],
    }
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def _cell_json(results: StudyResults, summary: CellSummary) -> dict[str, Any]:
    cell, by_length = summary.cell, summary.by_length
    runs = {run.seed: run for run in results.plan.best[cell.name]}
    return {
        "name": cell.name,
        "levels": cell.levels,
        "settings": cell.settings,
        "tuned": results.plan.best[cell.name][0].tuned or None,
        "measures": {m: _spread_json(summary.spread(m)) for m in results.measures},
        "bleu_by_length": {label: _spread_json(spread) for label, spread in by_length.items()},
        "baseline": summary.baseline,
        "difference": to_json(summary.difference),
        "runs": [
            {
                "seed": seed,
                "run_dir": str(runs[seed].path),
                **result.model_dump(mode="json", exclude={"config", "hypotheses"}),
                "bleu_by_length": {label: s.values[n] for label, s in by_length.items()},
            }
            for n, (seed, result) in enumerate(summary.results.items())
        ],
    }


def _spread_json(spread: Spread | None) -> dict[str, float | None] | None:
    return {"mean": spread.mean, "deviation": spread.deviation} if spread else None


# --- Figures


_MOST_LINES = 6  # in one panel; more cells have a panel for each level of the first axis
_MARKERS = "osD^vP*Xdh"

Points = Sequence[tuple[float, Spread]]


def _plot_scores(results: StudyResults) -> Figure:
    """Draw a row for each cell: a ring for each seed, mean and standard deviation."""
    study = results.plan.study
    measures = results.qualities or results.measures
    levels = [list(summary.cell.levels.values()) for summary in results.summaries]
    firsts, lasts = (list(dict.fromkeys(each[n] for each in levels)) for n in (0, -1))
    # A gap between the levels of the first axis.
    places = [n + 0.6 * firsts.index(each[0]) for n, each in enumerate(levels)]
    figure = new_figure(2.5 + 3.2 * len(measures), 1.816 + 0.26 * places[-1])
    panels = figure.subplots(1, len(measures), squeeze=False, sharey=True)[0]
    for axes, measure in zip(panels, measures, strict=True):
        for y, summary, each in zip(places, results.summaries, levels, strict=True):
            if (spread := summary.spread(measure)) is None:
                continue
            color, error = f"C{lasts.index(each[-1])}", spread.deviation or 0
            seeds = [y] * len(spread.values)
            axes.plot(spread.values, seeds, "o", mfc="none", mec=color, ms=4, alpha=0.6)
            axes.errorbar(spread.mean, y, xerr=error, fmt="o", color=color, ms=6, lw=1.5)
        axes.set_xlabel(TITLES[measure])
        axes.grid(axis="x", alpha=0.3)
        axes.set_axisbelow(True)
    labels = [" / ".join(study.describe(s.cell.levels)) for s in results.summaries]
    panels[0].set_yticks(places, labels)
    panels[0].invert_yaxis()
    figure.suptitle(f"{study.name}: mean ± standard deviation, one ring per seed")
    return figure


def _plot_by_length(results: StudyResults) -> Figure:
    """Draw BLEU by source length."""
    points = {"BLEU": lambda summary: list(enumerate(summary.by_length.values()))}
    figure, [panels] = _plot_lines(results, 4.2, points)
    for axes in panels:
        labels = [f"{b.label}\n({len(b.sentences)})" for b in results.buckets]
        axes.set_xticks(range(len(labels)), labels)
        axes.set_xlabel("source words (sentences)")
    return figure


def _plot_curves(results: StudyResults) -> Figure:
    """Draw BLEU and loss of the validations during training."""
    metrics: dict[str, Callable[[CellSummary], Points]] = {
        "validation BLEU": lambda summary: summary.curve("bleu"),
        "validation loss": lambda summary: summary.curve("loss"),
    }
    figure, rows = _plot_lines(results, 6.6, metrics)
    for axes in rows[-1]:
        axes.set_xlabel("updates")
    return figure


def _plot_lines(
    results: StudyResults, height: float, metrics: Mapping[str, Callable[[CellSummary], Points]]
) -> tuple[Figure, Any]:
    """Draw means with bands of one standard deviation; return the figure and its rows of axes.

    There is a row for each metric. A few cells share a panel; of many, each level of the first
    axis has its own. A line has the same color in all panels.
    """
    study, groups = results.plan.study, dict[str, dict[str, CellSummary]]()
    together = len(results.summaries) <= _MOST_LINES or len(study.grid) == 1
    for summary in results.summaries:
        words = study.describe(summary.cell.levels)
        title = "" if together else words.pop(0)
        groups.setdefault(title, {})[" / ".join(words)] = summary
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    figure = new_figure(2.6 + 3.2 * len(groups), height)
    rows = figure.subplots(len(metrics), len(groups), squeeze=False, sharex=True, sharey="row")
    lines: dict[str, Any] = {}
    for row, (metric, points_of) in zip(rows, metrics.items(), strict=True):
        for axes, group in zip(row, groups.values(), strict=True):
            for name, summary in group.items():
                points = points_of(summary)
                x, means = [x for x, _ in points], np.array([s.mean for _, s in points])
                half = np.array([spread.deviation or 0.0 for _, spread in points])
                number = names.index(name)
                color, marker = f"C{number}", _MARKERS[number % len(_MARKERS)]
                [line] = axes.plot(x, means, marker=marker, ms=4, color=color)
                band = (means - half, means + half)
                axes.fill_between(x, *band, color=color, alpha=0.15, linewidth=0)
                lines.setdefault(name, line)
            axes.grid(alpha=0.3)
        row[0].set_ylabel(metric)
    for axes, title in zip(rows[0], groups, strict=True):
        axes.set_title(title, fontsize=10)
    figure.legend(lines.values(), lines.keys(), loc="outside right upper", fontsize=8)
    return figure, rows
