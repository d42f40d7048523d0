"""Minimum Bayes risk: choose the translation with the highest expected utility."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from seq2seq.errors import ConfigError

Metric = Literal["chrf", "bleu"]  # of sentences
Utility = Callable[[str, str], float]  # of a hypothesis and a reference


def minimum_bayes_risk(
    candidates: Sequence[str],
    *,
    utility: Metric | Utility = "chrf",
    weights: Sequence[float] | None = None,
) -> int:
    """Return the index of the candidate with the highest expected utility; of equals the first.

    Arguments and errors are those of `expected_utilities`.
    """
    expected = expected_utilities(candidates, utility=utility, weights=weights)
    # Utilities that differ by rounding only are equal.
    best = max(expected) - 1e-9 * max(1.0, abs(max(expected)))
    return next(index for index, value in enumerate(expected) if value >= best)


def expected_utilities(
    candidates: Sequence[str],
    *,
    utility: Metric | Utility = "chrf",
    weights: Sequence[float] | None = None,
) -> list[float]:
    """Return for each candidate h the mean of utility(h, r) over all candidates r, itself included.

    The candidates, samples or an n-best list, stand for the model's distribution (Eikema and Aziz
    2020); `weights` are the weights of the mean, by default equal. `utility` is sacreBLEU's
    sentence chrF or sentence BLEU in percent, or a function.

    Raises ConfigError without candidates, if there is not one weight for each candidate, and for
    weights that are negative or do not have a positive sum.
    """
    if not candidates:
        raise ConfigError("minimum Bayes risk needs a candidate, found 0")
    if weights is None:
        weights = [1.0] * len(candidates)
    if len(weights) != len(candidates):
        raise ConfigError(f"{len(weights)} weights for {len(candidates)} candidates")
    total = math.fsum(weights)
    if not (min(weights) >= 0 and 0 < total < math.inf):
        raise ConfigError("the weights of the candidates must not be negative, nor all 0")
    shares = dict.fromkeys(candidates, 0.0)
    for candidate, weight in zip(candidates, weights, strict=True):
        shares[candidate] += weight / total
    score = _sentence_utility(utility) if isinstance(utility, str) else utility
    expected = {
        candidate: math.fsum(
            share * score(candidate, reference) for reference, share in shares.items() if share
        )
        for candidate in shares
    }
    return [expected[candidate] for candidate in candidates]


def _sentence_utility(metric: Metric) -> Utility:
    # sacreBLEU is slow to import, and most translations do not need it.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scorer = BLEU(effective_order=True) if metric == "bleu" else CHRF()

    def utility(hypothesis: str, reference: str) -> float:
        return float(scorer.sentence_score(hypothesis, [reference]).score)

    return utility
