"""Minimum Bayes risk: choose the translation with the highest expected utility."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

Metric = Literal["chrf", "bleu"]  # of sentences


def minimum_bayes_risk(candidates: Sequence[str], metric: Metric) -> int:
    """Return the index of the candidate with the highest expected utility; of equals the first."""
    expected = expected_utilities(candidates, metric)
    # Utilities that differ by rounding only are equal.
    best = max(expected) - 1e-9 * max(1.0, abs(max(expected)))
    return next(index for index, value in enumerate(expected) if value >= best)


def expected_utilities(candidates: Sequence[str], metric: Metric) -> list[float]:
    """Return for each candidate h the mean of utility(h, r) over all candidates r, itself included.

    The candidates, samples or an n-best list, stand for the model's distribution (Eikema and Aziz
    2020). The utility is sacreBLEU's sentence chrF or sentence BLEU in percent.
    """
    # sacreBLEU is slow to import, and most translations do not need it.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scorer = BLEU(effective_order=True) if metric == "bleu" else CHRF()
    counts = Counter(candidates)
    expected = {
        hypothesis: math.fsum(
            count * scorer.sentence_score(hypothesis, [reference]).score
            for reference, count in counts.items()
        )
        / len(candidates)
        for hypothesis in counts
    }
    return [expected[candidate] for candidate in candidates]
