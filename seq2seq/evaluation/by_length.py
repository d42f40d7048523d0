"""BLEU of long and short sentences, with bootstrap intervals.

Legend: N sentences, C numbers that BLEU is made of (n-gram matches and counts, two lengths),
R resamples.

Figures of a set of translations that no metric shows.

Legend: T target pieces, S source pieces, both with the end of sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from seq2seq.errors import DataError
from seq2seq.evaluation.alignment import END
from seq2seq.evaluation.metrics import References, lengths, score
from seq2seq.inference.text import Part

Floats = npt.NDArray[np.float64]

BOUNDS = (5, 10, 15, 20, 30, 40)  # last source length, in words, of each bucket; then all longer
NEGLECTED = 0.1
REPEATED_NGRAM = 2
_SPELLED = re.compile(r"<unk>|<0x[0-9A-F]{2}>")


@dataclass(frozen=True)
class LengthBucket:
    """Scores of the sentences whose source has so many words."""

    shortest: int
    longest: int | None
    sentences: int
    bleu: float
    chrf: float
    length_ratio: float

    @property
    def name(self) -> str:
        """The lengths as text."""
        return f"{self.shortest}-{self.longest}" if self.longest else f"{self.shortest} and more"


def by_length(
    sources: Sequence[str], hypotheses: Sequence[str], references: References
) -> list[LengthBucket]:
    """Return corpus scores by source length; a bucket without sentences is left out."""
    sizes = np.array([len(source.split()) for source in sources])
    found, shortest = [], 0
    for longest in (*BOUNDS, None):
        inside = (sizes >= shortest) & (sizes <= (np.inf if longest is None else longest))
        numbers = np.flatnonzero(inside).tolist()
        if numbers:
            texts, refs = [hypotheses[n] for n in numbers], [references[n] for n in numbers]
            metrics = score(texts, refs, metrics=("bleu", "chrf"))
            scores = metrics["bleu"].score, metrics["chrf"].score, lengths(texts, refs).ratio
            found.append(LengthBucket(max(1, shortest), longest, len(numbers), *scores))
        shortest = (longest or 0) + 1
    return found


def repetition(texts: Iterable[str], size: int = REPEATED_NGRAM) -> float:
    """Return the share of word n-grams that their own text had before (Welleck et al. 2020).

    It is 1 - unique n-grams / n-grams, counted within each text and summed over all.
    """
    total = unique = 0
    for text in texts:
        words = text.split()
        ngrams = list(zip(*(words[start:] for start in range(size)), strict=False))
        total, unique = total + len(ngrams), unique + len(set(ngrams))
    return 1 - unique / total if total else 0.0


def spelled_share(pieces: Iterable[Sequence[str]]) -> float:
    """Return the share of pieces that are <unk> or a byte: text that the vocabulary lacks.

    Ends of sentence are not counted.
    """
    counts = Counter(
        bool(_SPELLED.fullmatch(piece)) for line in pieces for piece in line if piece != END
    )
    return counts[True] / max(1, counts.total())


@dataclass(frozen=True)
class AttentionFigures:
    """How the weights are spread; shares are from 0 to 1."""

    entropy: float  # bits
    relative_entropy: float
    coverage: float
    neglected: float


def attention_figures(parts: Iterable[Part]) -> AttentionFigures | None:
    """Return figures of all weights, or None where the model has none.

    entropy: of a row of weights, -sum_s w log2 w, mean over target pieces, the end included;
    relative_entropy: the same over log2 S, the entropy of uniform weights (S > 1 only). coverage:
    of a source piece, min(1, sum_t w) as in the coverage penalty of Wu et al. (2016, eq. 14), mean
    over source pieces without the end; neglected: the share of them with a sum below 0.1.
    """
    entropies, shares, sums = [], [], []
    for part in parts:
        if part.weights is None:
            continue
        weights_TS: Floats = part.weights.double().numpy()
        logs_TS = np.log2(weights_TS, out=np.zeros_like(weights_TS), where=weights_TS > 0)
        entropy_T = -(weights_TS * logs_TS).sum(1)
        entropies.append(entropy_T)
        if weights_TS.shape[1] > 1:
            shares.append(entropy_T / np.log2(weights_TS.shape[1]))
        sums.append(weights_TS[:, :-1].sum(0))
    if not entropies:
        return None
    sum_N = np.concatenate(sums)
    return AttentionFigures(
        entropy=_mean(np.concatenate(entropies)),
        relative_entropy=_mean(np.concatenate(shares)) if shares else 0.0,
        coverage=_mean(np.minimum(sum_N, 1)),
        neglected=_mean(sum_N < NEGLECTED),
    )


def _mean(values: npt.NDArray[Any]) -> float:
    return float(values.mean()) if values.size else 0.0


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
