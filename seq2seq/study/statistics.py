"""Mean and spread over seeds, and whether two cells differ by more than chance.

Legend: K seeds, N test sentences, R resamples; 10 statistics a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from seq2seq.evaluation.by_length import Ints, corpus_bleu

Floats = npt.NDArray[np.float64]
RESAMPLES = 1000
_SEED = 12345  # sacreBLEU's


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
    generator = np.random.default_rng(_SEED)
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
    generator = np.random.default_rng(_SEED)
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
