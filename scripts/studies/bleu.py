"""BLEU of many subsets of a test set, from statistics that are computed once.

Legend: N test sentences, R resamples, C numbers that BLEU is computed from (sentence_statistics).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU

from seq2seq.analysis.plots import LengthBucket
from seq2seq.evaluation.metrics import RESAMPLES, SEED
from seq2seq.inference.protocol import Floats

Ints = npt.NDArray[np.int64]
_ORDERS = 4


def sentence_statistics(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Ints:
    """Return what BLEU needs of each sentence [N, C]; the sums of rows give a corpus's BLEU.

    C: matches of 1- to 4-grams, their counts, the length of the hypothesis and of the reference.
    Raises ValueError for unequal counts.
    """
    scorer, rows = BLEU(), []
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
