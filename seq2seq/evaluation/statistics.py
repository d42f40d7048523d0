"""Figures of a set of translations that no metric shows.

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

from seq2seq.evaluation.alignment import END
from seq2seq.evaluation.metrics import References, lengths, score
from seq2seq.inference.translation import Part

Floats = npt.NDArray[np.float64]

BOUNDS = (5, 10, 15, 20, 30, 40)  # last source length, in words, of each bucket; then all longer
NEGLECTED = 0.1
REPEATED_NGRAM = 2
_SPELLED = re.compile(r"<unk>|<0x[0-9A-F]{2}>")


@dataclass(frozen=True)
class Bucket:
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
) -> list[Bucket]:
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
            found.append(Bucket(max(1, shortest), longest, len(numbers), *scores))
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
