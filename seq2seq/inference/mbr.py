"""Minimum Bayes risk: choose the translation with the highest expected utility."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

Metric = Literal["chrf", "bleu"]  # of sentences


def minimum_bayes_risk(
    candidates: Sequence[str], metric: Metric, log_probs: Sequence[float] | None = None
) -> int:
    """Return the index of the candidate with the highest expected utility; of equals the first."""
    expected = expected_utilities(candidates, metric, log_probs)
    # Utilities that differ by rounding only are equal.
    best = max(expected) - 1e-9 * max(1.0, abs(max(expected)))
    return next(index for index, value in enumerate(expected) if value >= best)


def expected_utilities(
    candidates: Sequence[str], metric: Metric, log_probs: Sequence[float] | None = None
) -> list[float]:
    """Return for each candidate h the mean of utility(h, r) over all candidates r, itself included.

    The candidates stand for the model's distribution (Eikema and Aziz 2020): samples with equal
    weights; an n-best list with weights in proportion to its probabilities, which are given by
    their logarithms. The utility is sacreBLEU's sentence chrF or sentence BLEU in percent.
    """
    # sacreBLEU is slow to import, and most translations do not need it.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scorer = BLEU(effective_order=True) if metric == "bleu" else CHRF()
    if log_probs is None:
        log_probs = [0.0] * len(candidates)
    highest = max(log_probs, default=0.0)
    weights: dict[str, float] = defaultdict(float)
    for candidate, log_prob in zip(candidates, log_probs, strict=True):
        weights[candidate] += math.exp(log_prob - highest)
    total = math.fsum(weights.values())
    expected = {
        hypothesis: math.fsum(
            weight * scorer.sentence_score(hypothesis, [reference]).score
            for reference, weight in weights.items()
        )
        / total
        for hypothesis in weights
    }
    return [expected[candidate] for candidate in candidates]
