"""What the finished runs of a study say together.

Mean and spread over seeds, and whether two cells differ by more than chance.

Legend: K seeds, N test sentences, R resamples; 10 statistics a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError
from seq2seq.evaluation.by_length import LengthBucket, bleu_by_length, fixed_buckets
from seq2seq.evaluation.evaluate import references_of
from seq2seq.evaluation.metrics import SEED, Ints, corpus_bleu, sentence_statistics
from seq2seq.study.plan import Cell, Measure, Plan, Run, baseline_of
from seq2seq.study.results import Point, Result, digest, status_of

Floats = npt.NDArray[np.float64]
RESAMPLES = 1000


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation (n - 1) over seeds; of one value there is none."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The arithmetic mean."""
        return sum(self.values) / len(self.values)

    @property
    def deviation(self) -> float | None:
        """The standard deviation."""
        if len(self.values) < 2:
            return None
        mean = self.mean
        return math.sqrt(sum((v - mean) ** 2 for v in self.values) / (len(self.values) - 1))


@dataclass(frozen=True)
class Difference:
    """The difference of a cell's mean BLEU to the baseline's.

    `low` and `high` hold the central 95 percent of the resampled differences.
    """

    value: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class Scores:
    """A cell's BLEU by seed, on the test set and on the resampled ones."""

    observed_K: Floats
    resampled_RK: Floats


def score_cell(statistics: Sequence[Ints]) -> Scores:
    """Return the scores of a cell from the statistics of each seed [N, 10].

    Every cell sees the same resampled test sets (Koehn 2004): N sentences, with replacement.
    """
    generator = np.random.default_rng(SEED)
    size = len(statistics[0])
    draws_RN = np.zeros((RESAMPLES, size), np.int64)
    for row in draws_RN:
        row += np.bincount(generator.integers(size, size=size), minlength=size)
    resampled = [[corpus_bleu(sums) for sums in draws_RN @ of_seed] for of_seed in statistics]
    observed = [corpus_bleu(of_seed.sum(0)) for of_seed in statistics]
    return Scores(np.array(observed), np.array(resampled).T)


def compare(cell: Scores, baseline: Scores) -> Difference:
    """Compare two cells by a paired bootstrap over test sentences and seeds.

    The score of a cell is the mean of the BLEU of its seeds. Each resample has the same sentences
    for both cells, and for each cell as many seeds as it has, drawn from its own with replacement:
    so both kinds of chance count. The p-value is the share of resamples, plus one on both sides
    (Davison & Hinkley 1997, sec. 4.2), whose difference is as far from the observed one as that is
    from zero, on either side. With one seed it is the usual paired bootstrap. Of few seeds it sees
    too little of their spread: the variance of a mean that is drawn from K values is (K - 1) / K
    of what it should be. Where all resamples are alike, as with one test sentence, it is 1.
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
    """A cell: its results by seed, BLEU by length, and what tells it from the baseline."""

    cell: Cell
    runs: dict[int, Run]  # by seed, as all that follow
    results: dict[int, Result]
    by_length: tuple[Spread, ...]  # a spread over seeds for each class of lengths
    baseline: str | None  # the cell it is compared with; itself, or None without results
    difference: Difference | None  # from another baseline than itself

    def spread(self, measure: Measure) -> Spread | None:
        """Return a measure's values over seeds; None where it does not apply."""
        values = [getattr(result, measure) for result in self.results.values()]
        known = tuple(float(value) for value in values if value is not None)
        return Spread(known) if known else None

    def curve(self, key: str) -> list[tuple[int, Spread]]:
        """Return a metric of the validations while training: steps, and values over seeds."""
        by_step: dict[int, list[float]] = {}
        for result in self.results.values():
            for point in result.curve:
                if (value := _value(point, key)) is not None:
                    by_step.setdefault(point.step, []).append(value)
        return [(step, Spread(tuple(by_step[step]))) for step in sorted(by_step)]


@dataclass(frozen=True)
class Gathered:
    """A study's summaries, in the order of the grid, of the cells with a finished run."""

    plan: Plan
    sentences: int  # of the test set
    finished: int
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

    Raises DataError where no run is finished.
    """
    test_sha256 = digest(pairs)
    found: dict[str, dict[int, tuple[Run, Result]]] = {}
    for run in plan.runs:
        status = status_of(run, plan.study.measure, test_sha256)
        if status.state == "finished" and status.result:
            found.setdefault(run.cell, {})[run.seed] = (run, status.result)
    if not found:
        raise DataError(f"{plan.out}: no run is finished yet; there is nothing to gather")
    references = references_of(pairs)
    statistics = {
        name: {
            s: sentence_statistics(result.hypotheses, references)
            for s, (_, result) in by_seed.items()
        }
        for name, by_seed in found.items()
    }
    baselines = _baselines(plan, found)
    differences = _differences(statistics, baselines)
    classes = tuple(fixed_buckets([pair.source for pair in pairs], plan.study.lengths))
    summaries = [
        Summary(
            cell,
            {seed: run for seed, (run, _) in found[cell.name].items()},
            {seed: result for seed, (_, result) in found[cell.name].items()},
            _by_length(list(statistics[cell.name].values()), classes),
            baselines.get(cell.name),
            differences.get(cell.name),
        )
        for cell in plan.cells
        if cell.name in found
    ]
    finished = sum(map(len, found.values()))
    return Gathered(plan, len(pairs), finished, classes, tuple(summaries))


def _baselines(plan: Plan, found: Mapping[str, Mapping[int, tuple[Run, Result]]]) -> dict[str, str]:
    """Return what each cell with results is compared with, where that has results too."""
    if plan.study.baseline is None:

        def mean_bleu(name: str) -> float:
            return Spread(tuple(result.bleu for _, result in found[name].values())).mean

        return dict.fromkeys(found, max(found, key=mean_bleu))
    pairs = [(cell, baseline_of(plan.study, cell, plan.cells)) for cell in plan.cells]
    return {
        cell.name: baseline.name
        for cell, baseline in pairs
        if cell.name in found and baseline is not None and baseline.name in found
    }


def _differences(
    statistics: Mapping[str, Mapping[int, Ints]], baselines: Mapping[str, str]
) -> dict[str, Difference]:
    scores = {name: score_cell(list(by_seed.values())) for name, by_seed in statistics.items()}
    return {
        name: compare(scores[name], scores[baseline])
        for name, baseline in baselines.items()
        if name != baseline
    }


def _by_length(by_seed: list[Ints], classes: Sequence[LengthBucket]) -> tuple[Spread, ...]:
    scores = [[found.bleu for found in bleu_by_length(classes, rows)] for rows in by_seed]
    return tuple(Spread(values) for values in zip(*scores, strict=True))


def _value(point: Point, key: str) -> float | None:
    value: float | None = getattr(point, key)
    return value if value is not None and math.isfinite(value) else None
