"""Minimum Bayes risk: of several translations take the one that the others agree with most."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from seq2seq.errors import ConfigError

Utility = Callable[[str, str], float]


def minimum_bayes_risk(
    candidates: Sequence[str],
    *,
    utility: Literal["chrf", "bleu"] | Utility = "chrf",
    weights: Sequence[float] | None = None,
) -> int:
    """Return the number of the candidate with the highest expected utility; of equals the first.

    See `expected_utilities` for the arguments and for what is raised.
    """
    expected = expected_utilities(candidates, utility=utility, weights=weights)
    # Sums in another order differ by rounding: such candidates are equals.
    best = max(expected) - 1e-9 * max(1.0, abs(max(expected)))
    return next(number for number, value in enumerate(expected) if value >= best)


def expected_utilities(
    candidates: Sequence[str],
    *,
    utility: Literal["chrf", "bleu"] | Utility = "chrf",
    weights: Sequence[float] | None = None,
) -> list[float]:
    """Return for each candidate h the mean of utility(h, r) over all candidates r.

    The candidates, samples or an n-best list, stand for the model's distribution (Eikema and Aziz
    2020), the candidate itself included; `weights` say how much each counts as r, by default all
    the same. `utility` is sacreBLEU's sentence chrF or sentence BLEU in percent, or a function
    of a hypothesis and a reference.

    Raises ConfigError for no candidates, for as many weights as there are not candidates, and for
    weights that are negative or not positive in sum.
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


def _sentence_utility(name: Literal["chrf", "bleu"]) -> Utility:
    # sacreBLEU is slow to import, and only this kind of decision needs it.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    metric = BLEU(effective_order=True) if name == "bleu" else CHRF()

    def utility(hypothesis: str, reference: str) -> float:
        return float(metric.sentence_score(hypothesis, [reference]).score)

    return utility
