"""BLEU of long and short sentences, with bootstrap intervals.

Legend: N sentences, C numbers that BLEU is made of (n-gram matches and counts, two lengths),
R resamples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from seq2seq.errors import DataError
from seq2seq.evaluation.metrics import References

Ints = npt.NDArray[np.int64]

RESAMPLES = 1000
SEED = 12345  # sacreBLEU's own
_ORDERS = 4


@dataclass(frozen=True)
class Bucket:
    """The sentences of some lengths, and the corpus BLEU of their translations."""

    shortest: int  # source words
    longest: int
    sentences: int
    bleu: float
    low: float  # the central 95 percent of the resamples
    high: float


def bleu_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: References,
    *,
    buckets: int = 6,
    resamples: int = RESAMPLES,
) -> list[Bucket]:
    """Return corpus BLEU (sacreBLEU's) of buckets of similar source length, in words.

    The buckets hold about equally many sentences; sentences of one length are never parted, so
    there can be fewer. The intervals are of bootstrap resampling (Koehn 2004) of the sentences
    within a bucket; the same test set draws the same sentences for every system. Raises DataError
    for no sentences and unequal counts.
    """
    if not len(sources) == len(hypotheses) == len(references):
        raise DataError(
            f"{len(sources)} sources, {len(hypotheses)} translations and {len(references)} lines "
            "of references: their numbers must be equal"
        )
    if not sources:
        raise DataError("0 sentences: an empty test set has no score")
    statistics_NC = sentence_statistics(hypotheses, references)
    lengths_N = np.array([len(source.split()) for source in sources])
    shares = np.arange(1, buckets + 1) / buckets
    bounds = np.unique(np.quantile(lengths_N, shares, method="inverted_cdf"))
    found = []
    for number, bound in enumerate(bounds):
        below = bounds[number - 1] if number else -1
        inside_N = (below < lengths_N) & (lengths_N <= bound)
        generator = np.random.default_rng([SEED, number])
        found.append(_bucket(lengths_N[inside_N], statistics_NC[inside_N], resamples, generator))
    return found


def sentence_statistics(hypotheses: Sequence[str], references: References) -> Ints:
    """Return what BLEU needs of each sentence [N, C]; the sums of rows give a corpus's BLEU.

    C: matches of 1- to 4-grams, their counts, the length of the hypothesis and of the reference.
    """
    from sacrebleu.metrics.bleu import BLEU

    scorer, rows = BLEU(), []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        streams = [[reference]] if isinstance(reference, str) else [[r] for r in reference]
        one: Any = scorer.corpus_score([hypothesis], streams)
        rows.append([*one.counts, *one.totals, one.sys_len, one.ref_len])
    return np.array(rows, dtype=np.int64)


def corpus_bleu(sums_C: Ints) -> float:
    """Return BLEU of sums of statistics, smoothed as sacreBLEU's corpus BLEU is."""
    from sacrebleu.metrics.bleu import BLEU

    numbers = sums_C.tolist()
    matches, counts = numbers[:_ORDERS], numbers[_ORDERS : 2 * _ORDERS]
    hypothesis, reference = numbers[2 * _ORDERS :]
    result = BLEU.compute_bleu(matches, counts, hypothesis, reference, smooth_method="exp")
    return float(result.score)


def _bucket(
    lengths_N: Ints, statistics_NC: Ints, resamples: int, generator: np.random.Generator
) -> Bucket:
    count = len(lengths_N)
    shares_N = np.full(count, 1 / count)
    drawn = [
        corpus_bleu(generator.multinomial(count, shares_N) @ statistics_NC)
        for _ in range(resamples)
    ]
    low, high = np.percentile(drawn, (2.5, 97.5))
    return Bucket(
        shortest=int(lengths_N.min()),
        longest=int(lengths_N.max()),
        sentences=count,
        bleu=corpus_bleu(statistics_NC.sum(0)),
        low=float(low),
        high=float(high),
    )
