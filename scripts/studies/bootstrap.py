"""Whether recipes, each trained with several seeds, differ by more than chance.

BLEU of many subsets of a test set comes from statistics that are computed once.

Legend: K seeds, N test sentences, R resamples, C numbers that BLEU is computed from
(sentence_statistics).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU

from seq2seq.analysis.plots import LengthBucket
from seq2seq.evaluation.metrics import RESAMPLES, SEED
from seq2seq.inference.protocol import Floats
from seq2seq.languages import bleu_tokenizer

Ints = npt.NDArray[np.int64]
_ORDERS = 4


def sentence_statistics(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], language: str
) -> Ints:
    """Return what BLEU needs of each sentence [N, C]; the sums of rows give a corpus's BLEU.

    C: matches of 1- to 4-grams, their counts, the length of the hypothesis and of the reference.
    Raises ValueError for unequal counts.
    """
    scorer, rows = BLEU(tokenize=bleu_tokenizer(language)), []
    for hypothesis, refs in zip(hypotheses, references, strict=True):
        one = scorer.corpus_score([hypothesis], [[text] for text in refs])
        rows.append([*one.counts, *one.totals, one.sys_len, one.ref_len])
    return np.array(rows, dtype=np.int64)


def corpus_bleu(sums_C: Ints) -> float:
    """Return BLEU from sums of statistics, smoothed like sacreBLEU's corpus BLEU."""
    numbers = sums_C.tolist()
    matches, counts = numbers[:_ORDERS], numbers[_ORDERS : 2 * _ORDERS]
    hypothesis, reference = numbers[2 * _ORDERS :]
    result = BLEU.compute_bleu(matches, counts, hypothesis, reference, smooth_method="exp")
    return float(result.score)


def bleu_by_length(buckets: Sequence[LengthBucket], statistics_NC: Ints) -> list[float]:
    """Return the corpus BLEU of each bucket, from the statistics of all sentences."""
    return [corpus_bleu(statistics_NC[list(bucket.sentences)].sum(0)) for bucket in buckets]


def resampled_bleu(statistics_NC: Ints, resamples: int = RESAMPLES) -> Floats:
    """Return the corpus BLEU of each of R test sets: N sentences, drawn with replacement.

    Of test sets of the same size the same sentences are drawn (Koehn 2004).
    """
    generator, size = np.random.default_rng(SEED), len(statistics_NC)
    draws = (generator.integers(size, size=size) for _ in range(resamples))
    counts_RN = np.stack([np.bincount(drawn, minlength=size) for drawn in draws])
    return np.array([corpus_bleu(sums_C) for sums_C in counts_RN @ statistics_NC])


@dataclass(frozen=True)
class SeedScores:
    """The BLEU of a recipe by seed, on the test set and on resampled test sets."""

    observed_K: Floats
    resampled_RK: Floats


@dataclass(frozen=True)
class Difference:
    """The mean BLEU of a recipe minus that of another one, its baseline.

    `low` and `high` are the limits of the central 95 percent of the resampled differences.
    """

    value: float
    low: float
    high: float
    p_value: float


def score_seeds(statistics: Sequence[Ints]) -> SeedScores:
    """Return the scores of a recipe from the statistics [N, C] of each seed."""
    observed = [corpus_bleu(statistics_NC.sum(0)) for statistics_NC in statistics]
    return SeedScores(np.array(observed), np.stack(list(map(resampled_bleu, statistics)), 1))


def compare_seeds(
    recipe: SeedScores, baseline: SeedScores, *, same_models: bool = False
) -> Difference:
    """Compare two recipes by a paired bootstrap over test sentences and seeds.

    The score of a recipe is the mean BLEU over its seeds. Each resample has the same sentences for
    both recipes and, for each one, as many of its seeds as it has, drawn with replacement, so that
    it varies by both sources of chance. With `same_models`, both recipes have the same trained
    models, in the same order, and a resample has the same ones for both. The two-sided p-value is
    the share of resamples, with one added above and below (Davison & Hinkley 1997, sec. 4.2), whose
    difference is at least as far from the observed one as that is from zero. With one seed this is
    the usual paired bootstrap. With few seeds it underestimates their spread: the variance of a
    mean of K values that are drawn from K is (K - 1) / K of the true one. If all resamples are
    equal, as with one test sentence, p is 1.
    """
    generator = np.random.default_rng(SEED)
    draws = [
        generator.integers(scores.resampled_RK.shape[1], size=scores.resampled_RK.shape)
        for scores in (recipe, baseline)
    ]
    if same_models:
        draws[1] = draws[0]
    means = [
        np.take_along_axis(scores.resampled_RK, seeds_RK, 1).mean(1)
        for scores, seeds_RK in zip((recipe, baseline), draws, strict=True)
    ]
    differences_R = means[0] - means[1]
    observed = float(recipe.observed_K.mean() - baseline.observed_K.mean())
    constant = np.ptp(differences_R) == 0
    extreme = int((constant | (np.abs(differences_R - observed) >= abs(observed))).sum())
    low, high = np.quantile(differences_R, (0.025, 0.975))
    return Difference(observed, float(low), float(high), (extreme + 1) / (len(differences_R) + 1))
