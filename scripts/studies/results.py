"""The results of a study: its cells compared, as a page of tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal

from documentation.pages import markdown_table
from seq2seq.analysis.pages import ENVIRONMENT
from seq2seq.analysis.plots import LengthBucket, fixed_buckets
from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import references_of
from seq2seq.evaluation.metrics import RESAMPLES
from seq2seq.files import write_atomic
from studies.bootstrap import (
    Difference,
    bleu_by_length,
    compare_seeds,
    score_seeds,
    sentence_statistics,
)
from studies.plan import Cell, Measure, Plan, changes_recipe, label
from studies.runs import RunResult, checksum_of, chosen, finished_result, same_training

TEMPLATE = Path(__file__).with_name("template.md")
Parts = Literal["kinds", "phenomena"]  # of a measure, in a table of their own
_MOST_COLUMNS = 8  # of that table
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
    tuned: str  # the value of the key that the study tunes
    results: dict[int, RunResult]  # by seed, like the values of all spreads
    by_length: list[Spread]  # BLEU of each length bucket
    baseline: str  # the cell it is compared with; maybe itself; empty where that is excluded
    difference: Difference | None  # None for the baseline itself

    def spread(self, measure: Measure) -> Spread | None:
        """Return the values of a measure over seeds; None where it does not apply."""
        values = [getattr(result, measure) for result in self.results.values()]
        known = tuple(float(value) for value in values if value is not None)
        return Spread(known) if known else None

    def part(self, name: Parts, part: str) -> Spread:
        """Return the values over seeds of a kind of text, or of a phenomenon."""
        return Spread(tuple(getattr(result, name)[part] for result in self.results.values()))


@dataclass(frozen=True)
class StudyResults:
    """The cells that have a finished run, in the order of the grid."""

    plan: Plan
    sentences: int  # of the test set
    finished: int  # runs
    runs: int
    buckets: tuple[LengthBucket, ...]
    summaries: tuple[CellSummary, ...]

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
    test_sha256, number = checksum_of(pairs), 0
    results, tuned = dict[str, dict[int, RunResult]](), dict[str, str]()
    for cell in plan.cells:
        runs = chosen(cell)
        number += len(runs or cell.options)
        for run in runs:
            if result := finished_result(run, plan.study, test_sha256):
                results.setdefault(cell.name, {})[run.seed] = result
                tuned[cell.name] = run.tuned
    if not results:
        raise DataError(
            f"{plan.study.directory}: no run is finished with these settings; run the study first"
        )
    references = references_of(pairs)
    statistics = {
        name: [
            sentence_statistics(found.hypotheses, references, found.config.data.target_language)
            for found in by_seed.values()
        ]
        for name, by_seed in results.items()
    }
    scores = {name: score_seeds(by_seed) for name, by_seed in statistics.items()}
    best = max(results, key=lambda name: fmean(run.bleu for run in results[name].values()))
    language = next(iter(results[best].values())).config.data.source_language
    sources = [pair.source for pair in pairs]
    buckets = fixed_buckets(sources, language, sorted(plan.study.lengths))
    summaries = []
    for cell in (cell for cell in plan.cells if cell.name in results):
        name, other = cell.name, plan.baseline_of(cell)
        baseline = (other.name if other else "") if plan.study.baseline else best
        difference = None
        if baseline in results and baseline != name:
            same = _same_models(results[name], results[baseline])
            difference = compare_seeds(scores[name], scores[baseline], same_models=same)
        bleu = [bleu_by_length(buckets, statistics_NC) for statistics_NC in statistics[name]]
        by_length = [Spread(values) for values in zip(*bleu, strict=True)]
        found = CellSummary(cell, tuned[name], results[name], by_length, baseline, difference)
        summaries.append(found)
    finished = sum(map(len, results.values()))
    return StudyResults(plan, len(pairs), finished, number, tuple(buckets), tuple(summaries))


def _same_models(one: Mapping[int, RunResult], other: Mapping[int, RunResult]) -> bool:
    """Tell whether the models of two cells are the same, so that only their search differs."""
    return one.keys() == other.keys() and all(
        same_training(found.config, other[seed].config) for seed, found in one.items()
    )


# --- Tables


def write_results(results: StudyResults) -> Path:
    """Write the page of results, NAME.md; return its path."""
    study = results.plan.study
    page = study.directory / f"{study.name}.md"
    write_atomic(page, as_markdown(results))
    return page


def as_markdown(results: StudyResults) -> str:
    """Return the page of results."""
    plan = results.plan
    changes = [f"`{key}: {json.dumps(value)}`" for key, value in plan.study.overrides.items()]
    changes += [f"`{change}`" for change in plan.changes if changes_recipe(change)]
    keys = {key for cell in plan.cells for key in cell.settings}
    return ENVIRONMENT.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        results=results,
        command=plan.command,
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
    """Return a row for each cell: measures, and the difference from the baseline.

    Measures that have a table of one axis against the other are left out.
    """
    study, shown_before = results.plan.study, matrices(results)
    measures = [m for m in results.measures if TITLES[m] not in shown_before]
    rows = []
    for summary in results.summaries:
        row = [*summary.cell.levels.values(), str(len(summary.results))]
        row += [summary.tuned] if study.tune else []
        row += [shown(summary.spread(m), 0 if m == "parameters" else 1) for m in measures]
        if (found := summary.difference) is not None:
            limits = f"[{_signed(found.low)}, {_signed(found.high)}]"
            row += [f"{_signed(found.value)} {limits}", f"{found.p_value:.3f}"]
        else:
            row += ["baseline" if summary.cell.name == summary.baseline else "", ""]
        rows.append(row)
    names = list(study.titles.values())
    tuned = [study.tuned_title] if study.tune else []
    head = [*names, "n", *tuned, *(TITLES[m] for m in measures), "difference", "p"]
    return markdown_table(head, rows, names=len(names))


def length_table(results: StudyResults) -> str:
    """Return BLEU by source length, a row for each cell."""
    titles = results.plan.study.titles
    head = [*titles.values(), *(f"{b.label} ({len(b.sentences)})" for b in results.buckets)]
    rows = [
        [*s.cell.levels.values(), *(shown(spread, 1) for spread in s.by_length)]
        for s in results.summaries
    ]
    return markdown_table(head, rows, names=len(titles))


def matrices(results: StudyResults) -> dict[str, str]:
    """Return BLEU and AER by title, each as a table of one axis against the other.

    Empty unless there are two axes, and many cells.
    """
    study = results.plan.study
    if len(study.grid) != 2 or len(results.summaries) <= _MOST_COLUMNS:
        return {}
    (_, columns), (axis, rows) = study.axes.items()
    tables = {}
    for measure in (m for m in results.measures if m in ("bleu", "alignment_error")):
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
