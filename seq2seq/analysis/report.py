"""The report of a run on a test set: everything that is measured, as a page and as JSON.

Legend: T target pieces, S source pieces, both with the end of sentence; N source pieces of all
sentences, without the ends.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from seq2seq.analysis import to_json
from seq2seq.analysis.alignment import AlignmentError, forced_alignment_error
from seq2seq.analysis.pages import render
from seq2seq.analysis.plots import fixed_buckets
from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizer import EOS_PIECE, UNK_PIECE, normalize_line
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import Evaluation, references_of
from seq2seq.evaluation.metrics import RESAMPLES, Metric, lengths, score, sentence_chrf
from seq2seq.files import make_folder, write_atomic
from seq2seq.inference.text import Part
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import words

log = logging.getLogger(__name__)

EXTREMES = 10
NEGLECTED = 0.1
REPEATED_NGRAM = 2
_UNKNOWN = re.compile(rf"{UNK_PIECE}|<0x[0-9A-F]{{2}}>")
_LINES = 3


@dataclass(frozen=True)
class LengthScores:
    """Corpus scores in percent of the sentences whose source has so many words."""

    label: str
    shortest: int
    longest: int | None  # None: no upper limit
    sentences: int
    bleu: float
    chrf: float
    length_ratio: float


@dataclass(frozen=True)
class WordError:
    """A word that is often missing or added."""

    word: str
    count: int  # how often it is wrong
    of: int  # how often it occurs at all
    sentences: int  # in how many it is wrong
    lines: tuple[int, ...]  # the first of these, from 1


@dataclass(frozen=True)
class ScoredSentence:
    """A sentence of the test set with its translation."""

    number: int  # in the test set, from 1
    source: str
    references: list[str]
    translation: str
    chrf: float
    score: float  # of the search
    parts: list[Part] = field(metadata={"json": False})


@dataclass(frozen=True)
class Report:
    """All measurements; shares are from 0 to 1, scores in percent. The fields are keys of JSON."""

    sentences: int
    split: int  # of them in several parts
    beam: int
    metrics: dict[str, Metric]
    lengths: dict[str, float]
    by_source_length: list[LengthScores]
    repetition: dict[str, float]  # of translations and of first references
    unknown_pieces: dict[str, float]  # of sources, references and translations
    attention: dict[str, float] | None
    alignment: AlignmentError | None
    missing_words: list[WordError]
    added_words: list[WordError]
    best: list[ScoredSentence]
    worst: list[ScoredSentence]
    tables: dict[str, dict[str, Any]]  # Evaluation.tables


def make_report(translator: Translator, pairs: Sequence[Pair], evaluation: Evaluation) -> Report:
    """Measure translations of a test set that were made with `keep_weights`.

    If the pairs have gold alignments (with punctuation marks as words), the alignment error is
    that of forced decoding with argmax; unusable gold alignments are logged and left out.
    """
    hypotheses, references = evaluation.hypotheses, references_of(pairs)
    sources = [normalize_line(pair.source) for pair in pairs]
    languages = translator.config.data.languages
    parts = [part for translation in evaluation.translations for part in translation.parts]
    chrf = sentence_chrf(hypotheses, references)
    scored = zip(pairs, references, evaluation.translations, chrf, strict=True)
    sentences = [
        ScoredSentence(number, pair.source, list(refs), found.text, value, found.score, found.parts)
        for number, (pair, refs, found, value) in enumerate(scored, start=1)
    ]
    # Of equal scores the longer sentence is more informative.
    best = sorted(sentences, key=lambda s: (-s.chrf, -len(s.source)))
    worst = sorted(sentences, key=lambda s: (s.chrf, -len(s.source)))
    missing, added = word_errors(hypotheses, references)
    alignment = None
    try:
        if any(part.weights is not None for part in parts):
            alignment = forced_alignment_error(translator, pairs)
    except DataError as error:
        log.warning("no alignment error in the report: %s", error)
    target_ids = translator.target.encode_batch([pair.target for pair in pairs])
    return Report(
        sentences=len(pairs),
        split=evaluation.split,
        beam=evaluation.beam,
        metrics=evaluation.metrics,
        lengths=lengths(hypotheses, references, languages[1]),
        by_source_length=scores_by_length(sources, hypotheses, references, languages),
        repetition={
            "translations": repetition(hypotheses),
            "references": repetition(pair.target for pair in pairs),
        },
        unknown_pieces={
            "sources": unknown_share(part.source_pieces for part in parts),
            "references": unknown_share(map(translator.target.pieces, target_ids)),
            "translations": unknown_share(part.target_pieces for part in parts),
        },
        attention=attention_figures(parts),
        alignment=alignment,
        missing_words=missing,
        added_words=added,
        best=best[:EXTREMES],
        worst=worst[:EXTREMES],
        tables={name: table.as_dict() for name, table in evaluation.tables.items()},
    )


def scores_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    languages: tuple[str, str],
) -> list[LengthScores]:
    """Return corpus scores by source length."""
    found = []
    for bucket in fixed_buckets(sources, languages[0]):
        texts, refs = bucket.of(hypotheses), bucket.of(references)
        scores = score(texts, refs, languages[1], metrics=("bleu", "chrf"))
        bleu, chrf = (metric.score for metric in scores.values())
        limits = bucket.label, bucket.shortest, bucket.longest
        ratio = lengths(texts, refs, languages[1])["ratio"]
        found.append(LengthScores(*limits, len(texts), bleu, chrf, ratio))
    return found


def repetition(texts: Iterable[str], size: int = REPEATED_NGRAM) -> float:
    """Return the share of word n-grams that occurred before in the same text.

    It is 1 - unique n-grams / n-grams, counted within each text and summed over all (Welleck et
    al. 2020).
    """
    total = unique = 0
    for text in texts:
        tokens = words(text)
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
        counts = [Counter(words(text)) for text in texts]
        wanted = min(counts, key=lambda ref: ((given - ref) + (ref - given)).total())
        missing.append((wanted, given))
        added.append((given, wanted))
    return _most_frequent(missing, most), _most_frequent(added, most)


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


def write_report(folder: Path, report: Report, *, run: str, test: str) -> Path:
    """Write report.html and report.json into a folder; return the page's path.

    `run` and `test` are the names it shows. Raises DataError if they cannot be written.
    """
    numbers = {"run": run, "test": test, **to_json(report)}
    make_folder(folder)
    path = folder / "report.html"
    page = render("report.html", report=report, run=run, test=test, resamples=RESAMPLES)
    write_atomic(path, page)
    text = json.dumps(numbers, indent=1, ensure_ascii=False)
    write_atomic(folder / "report.json", text + "\n")
    return path
