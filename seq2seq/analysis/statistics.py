"""Figures of a set of translations that no metric shows.

Legend: T target pieces, S source pieces, both with the end of sentence; N source pieces of all
sentences, without the ends.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from seq2seq.data.tokenizer import EOS_PIECE, UNK_PIECE
from seq2seq.inference.text import Part
from seq2seq.inference.words import words

NEGLECTED = 0.1
REPEATED_NGRAM = 2
_UNKNOWN = re.compile(rf"{UNK_PIECE}|<0x[0-9A-F]{{2}}>")
_LINES = 3


def repetition(texts: Iterable[str], size: int = REPEATED_NGRAM) -> float:
    """Return the share of word n-grams that occurred before in the same text.

    It is 1 - unique n-grams / n-grams, counted within each text and summed over all (Welleck et
    al. 2020).
    """
    total = unique = 0
    for text in texts:
        tokens = text.split()
        ngrams = list(zip(*(tokens[start:] for start in range(size)), strict=False))
        total, unique = total + len(ngrams), unique + len(set(ngrams))
    return 1 - unique / total if total else 0.0


def unknown_share(pieces: Iterable[Sequence[str]]) -> float:
    """Return the share of pieces that are <unk> or a byte: text that the vocabulary lacks.

    Ends of sentence are not counted.
    """
    counts = Counter(
        bool(_UNKNOWN.fullmatch(piece)) for line in pieces for piece in line if piece != EOS_PIECE
    )
    return counts[True] / max(1, counts.total())


def attention_figures(parts: Iterable[Part]) -> dict[str, float] | None:
    """Return figures of all attention weights, or None for a model without attention.

    entropy: -sum_s w log2 w of a row of weights in bits, mean over target pieces, the end included.
    relative_entropy: the same divided by log2 S, the entropy of uniform weights (S > 1 only).
    coverage: min(1, sum_t w) of a source piece, as in the coverage penalty of Wu et al. (2016,
    eq. 14), mean over source pieces without the end. neglected: the share of them whose sum is
    below 0.1.
    """
    entropies, relative, sums = [], [], []
    for part in parts:
        if part.weights is None:
            continue
        weights_TS: npt.NDArray[np.float64] = part.weights.astype(np.float64)
        logs_TS = np.log2(weights_TS, out=np.zeros_like(weights_TS), where=weights_TS > 0)
        entropy_T = -(weights_TS * logs_TS).sum(1)
        entropies.append(entropy_T)
        if weights_TS.shape[1] > 1:
            relative.append(entropy_T / np.log2(weights_TS.shape[1]))
        sums.append(weights_TS[:, :-1].sum(0))
    if not entropies:
        return None
    sum_N = np.concatenate(sums)
    return {
        "entropy": _mean(np.concatenate(entropies)),
        "relative_entropy": _mean(np.concatenate(relative)) if relative else 0.0,
        "coverage": _mean(np.minimum(sum_N, 1)),
        "neglected": _mean(sum_N < NEGLECTED),
    }


def _mean(values: npt.NDArray[Any]) -> float:
    return float(values.mean()) if values.size else 0.0


@dataclass(frozen=True)
class WordError:
    """A word that is often missing or added."""

    word: str
    count: int  # how often it is wrong
    of: int  # how often it occurs at all
    sentences: int  # in how many it is wrong
    lines: tuple[int, ...]  # the first of these, from 1


def word_errors(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, most: int = 15
) -> tuple[list[WordError], list[WordError]]:
    """Return the words most often missing, and those most often added.

    Words and punctuation marks of each translation are counted against the closest reference,
    regardless of order: what the reference has more often is missing, what the translation has
    more often is added. `of` counts all occurrences in the references for a missing word, and in
    the translations for an added one. Sorted by count, then alphabetically.
    """
    missing, added = [], []
    for hypothesis, texts in zip(hypotheses, references, strict=True):
        given = Counter(words(hypothesis))
        wanted = min(
            (Counter(words(text)) for text in texts), key=lambda ref: _distance(given, ref)
        )
        missing.append((wanted, given))
        added.append((given, wanted))
    return _most_frequent(missing, most), _most_frequent(added, most)


def _distance(one: Counter[str], other: Counter[str]) -> int:
    return (one - other).total() + (other - one).total()


def _most_frequent(
    sides: Iterable[tuple[Counter[str], Counter[str]]], most: int
) -> list[WordError]:
    """Return the words that one side of the sentences has more often than the other."""
    totals, wrong = Counter[str](), Counter[str]()
    lines: dict[str, list[int]] = defaultdict(list)
    for number, (side, other) in enumerate(sides, start=1):
        surplus = side - other
        totals.update(side)
        wrong.update(surplus)
        for word in surplus:
            lines[word].append(number)
    ordered = sorted(wrong.items(), key=lambda item: (-item[1], item[0]))[:most]
    return [
        WordError(word, count, totals[word], len(lines[word]), tuple(lines[word][:_LINES]))
        for word, count in ordered
    ]
