"""BLEU of short and long sentences, with bootstrap intervals.

Legend: N sentences, C numbers that BLEU is computed from (metrics.sentence_statistics).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from seq2seq.errors import DataError
from seq2seq.evaluation.metrics import SEED, Ints, corpus_bleu


@dataclass(frozen=True)
class LengthBucket:
    """Sentences of a test set whose source has from `shortest` to `longest` words."""

    shortest: int
    longest: int | None  # None: no upper limit
    sentences: tuple[int, ...]  # their indices in the test set, from 0

    @property
    def label(self) -> str:
        """The lengths as text."""
        if self.longest is None:
            return f"over {self.shortest - 1}"
        if self.longest == self.shortest:
            return str(self.shortest)
        return f"{self.shortest}-{self.longest}"


@dataclass(frozen=True)
class BucketBleu:
    """Corpus BLEU of a bucket; `low` and `high` bound the central 95 percent of the resamples.

    Without resamples they are nan.
    """

    bleu: float
    low: float = math.nan
    high: float = math.nan


def fixed_buckets(sources: Sequence[str], bounds: Sequence[int]) -> list[LengthBucket]:
    """Return buckets that end at each bound, and one of all longer sentences; none is empty.

    Words are separated by white space. An empty source is in the first bucket.
    """
    lengths = _lengths(sources)
    ends = [-1, *bounds, np.inf]
    return [
        LengthBucket(max(1, int(low) + 1), None if np.isinf(high) else int(high), inside)
        for low, high in pairwise(ends)
        if (inside := _inside(lengths, low, high))
    ]


def quantile_buckets(sources: Sequence[str], count: int) -> list[LengthBucket]:
    """Return at most `count` buckets with about equally many sentences.

    Sentences of the same length are always in the same bucket. Raises DataError for no sentences.
    """
    if not sources:
        raise DataError("0 sentences: an empty test set has no score")
    lengths = _lengths(sources)
    shares = np.arange(1, count + 1) / count
    bounds = np.unique(np.quantile(lengths, shares, method="inverted_cdf"))
    buckets = [_inside(lengths, low, high) for low, high in pairwise([-1, *bounds])]
    return [
        LengthBucket(int(lengths[list(inside)].min()), int(lengths[list(inside)].max()), inside)
        for inside in buckets
    ]


def _lengths(sources: Sequence[str]) -> Ints:
    return np.array([len(source.split()) for source in sources], dtype=np.int64)


def _inside(lengths: Ints, low: float, high: float) -> tuple[int, ...]:
    return tuple(np.flatnonzero((low < lengths) & (lengths <= high)).tolist())


def bleu_by_length(
    buckets: Sequence[LengthBucket], statistics_NC: Ints, *, resamples: int = 0
) -> list[BucketBleu]:
    """Return the corpus BLEU of each bucket, from the statistics of all sentences.

    With `resamples`, intervals come from bootstrap resampling (Koehn 2004) of the sentences within
    a bucket; every system is resampled with the same sentences.
    """
    found = []
    for number, bucket in enumerate(buckets):
        inside_NC = statistics_NC[list(bucket.sentences)]
        low = high = math.nan
        if resamples:
            generator, size = np.random.default_rng([SEED, number]), len(inside_NC)
            shares_N = np.full(size, 1 / size)
            drawn = [
                corpus_bleu(generator.multinomial(size, shares_N) @ inside_NC)
                for _ in range(resamples)
            ]
            low, high = map(float, np.percentile(drawn, (2.5, 97.5)))
        found.append(BucketBleu(corpus_bleu(inside_NC.sum(0)), low, high))
    return found
