"""Compare the cells of a study: mean and spread over seeds, and whether differences are chance.

Legend: K seeds, N test sentences, R resamples; BLEU needs 10 statistics of a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
import numpy.typing as npt

from seq2seq.analysis.by_length import LengthBucket, bleu_by_length, fixed_buckets
from seq2seq.analysis.study.plan import Cell, Measure, Plan, baseline_of
from seq2seq.analysis.study.results import Result, statuses
from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import references_of
from seq2seq.evaluation.metrics import SEED, Ints, corpus_bleu, sentence_statistics

Floats = npt.NDArray[np.float64]
RESAMPLES = 1000


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
class Difference:
    """The mean BLEU of a cell minus that of its baseline.

    `low` and `high` are the limits of the central 95 percent of the resampled differences.
    """

    value: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class Scores:
    """The BLEU of a cell by seed, on the test set and on resampled test sets."""

    observed_K: Floats
    resampled_RK: Floats


def score_cell(statistics: Sequence[Ints]) -> Scores:
    """Return the scores of a cell from the statistics [N, 10] of each seed.

    Every cell gets the same resampled test sets: N sentences, drawn with replacement (Koehn 2004).
    """
    generator = np.random.default_rng(SEED)
    size = len(statistics[0])
    draws_RN = np.stack(
        [np.bincount(generator.integers(size, size=size), minlength=size) for _ in range(RESAMPLES)]
    )
    resampled = [[corpus_bleu(sums) for sums in draws_RN @ of_seed] for of_seed in statistics]
    observed = [corpus_bleu(of_seed.sum(0)) for of_seed in statistics]
    return Scores(np.array(observed), np.array(resampled).T)


def compare(cell: Scores, baseline: Scores) -> Difference:
    """Compare two cells by a paired bootstrap over test sentences and seeds.

    The score of a cell is the mean BLEU over its seeds. Each resample has the same sentences for
    both cells and, for each cell, as many of its seeds as it has, drawn with replacement, so that
    it varies by both sources of chance. The two-sided p-value is the share of resamples, with one
    added above and below (Davison & Hinkley 1997, sec. 4.2), whose difference is at least as far
    from the observed one as that is from zero. With one seed this is the usual paired bootstrap.
    With few seeds it underestimates their spread: the variance of a mean of K values that are
    drawn from K is (K - 1) / K of the true one. If all resamples are equal, as with one test
    sentence, p is 1.
    """
    generator = np.random.default_rng(SEED)
    means = []
    for scores in (cell, baseline):
        shape = scores.resampled_RK.shape
        seeds_RK = generator.integers(shape[1], size=shape)
        means.append(np.take_along_axis(scores.resampled_RK, seeds_RK, 1).mean(1))
    differences_R = means[0] - means[1]
    observed = float(cell.observed_K.mean() - baseline.observed_K.mean())
    alike = np.ptp(differences_R) == 0
    extreme = int((alike | (np.abs(differences_R - observed) >= abs(observed))).sum())
    low, high = np.quantile(differences_R, (0.025, 0.975))
    return Difference(observed, float(low), float(high), (extreme + 1) / (len(differences_R) + 1))


@dataclass(frozen=True)
class Summary:
    """A cell: its results by seed, BLEU by length, and its difference from the baseline."""

    cell: Cell
    results: dict[int, Result]  # by seed, like the values of all spreads
    by_length: dict[str, Spread]  # BLEU by the label of each class of lengths
    baseline: str | None  # the cell it is compared with; maybe itself; None without results
    difference: Difference | None  # None for the baseline itself

    def spread(self, measure: Measure) -> Spread | None:
        """Return the values of a measure over seeds; None where it does not apply."""
        values = [getattr(result, measure) for result in self.results.values()]
        known = tuple(float(value) for value in values if value is not None)
        return Spread(known) if known else None

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
class Gathered:
    """The summaries of the cells that have a finished run, in the order of the grid."""

    plan: Plan
    sentences: int  # of the test set
    finished: int  # runs
    classes: tuple[LengthBucket, ...]
    summaries: tuple[Summary, ...]

    @property
    def measures(self) -> list[Measure]:
        """The measures that the study asks for and some cell has."""
        return [
            measure
            for measure in self.plan.study.measure
            if any(summary.spread(measure) for summary in self.summaries)
        ]


def gather(plan: Plan, pairs: Sequence[Pair]) -> Gathered:
    """Read the results of all finished runs and compare the cells.

    Raises DataError if no run is finished.
    """
    results: dict[str, dict[int, Result]] = {}
    for run, status in zip(plan.runs, statuses(plan, pairs).values(), strict=True):
        if status.state == "finished" and status.result:
            results.setdefault(run.cell, {})[run.seed] = status.result
    if not results:
        raise DataError(f"{plan.study.directory}: no run is finished yet; run the study first")
    references = references_of(pairs)
    statistics = {
        name: [sentence_statistics(found.hypotheses, references) for found in by_seed.values()]
        for name, by_seed in results.items()
    }
    scores = {name: score_cell(by_seed) for name, by_seed in statistics.items()}
    baselines = _baselines(plan, results)
    classes = fixed_buckets([pair.source for pair in pairs], plan.study.lengths)
    summaries = []
    for cell in plan.cells:
        name = cell.name
        if name not in results:
            continue
        baseline = baselines.get(name)
        bleu = [[b.bleu for b in bleu_by_length(classes, rows)] for rows in statistics[name]]
        spreads = map(Spread, zip(*bleu, strict=True))
        by_length = dict(zip([each.label for each in classes], spreads, strict=True))
        difference = None
        if baseline is not None and baseline != name:
            difference = compare(scores[name], scores[baseline])
        summaries.append(Summary(cell, results[name], by_length, baseline, difference))
    finished = sum(map(len, results.values()))
    return Gathered(plan, len(pairs), finished, tuple(classes), tuple(summaries))


def _baselines(plan: Plan, results: Mapping[str, Mapping[int, Result]]) -> dict[str, str]:
    """Return which cell each cell with results is compared with, if that has results too."""
    if plan.study.baseline is None:
        means = {name: fmean(r.bleu for r in found.values()) for name, found in results.items()}
        return dict.fromkeys(results, max(means, key=lambda name: means[name]))
    found = {cell.name: baseline_of(plan.study, cell, plan.cells) for cell in plan.cells}
    return {
        name: baseline.name
        for name, baseline in found.items()
        if baseline is not None and {name, baseline.name} <= results.keys()
    }
