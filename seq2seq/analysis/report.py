"""The report of a run on a test set: everything that is measured, as a page and as JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seq2seq.analysis.alignment import (
    AlignmentError,
    align,
    alignment_error,
    gold_of,
)
from seq2seq.analysis.by_length import LengthBucket, bleu_by_length, fixed_buckets
from seq2seq.analysis.pages import render
from seq2seq.analysis.statistics import (
    WordError,
    attention_figures,
    repetition,
    unknown_share,
    word_errors,
)
from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizer import normalize_line
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import Evaluation, references_of
from seq2seq.evaluation.metrics import (
    RESAMPLES,
    Ints,
    Metric,
    References,
    lengths,
    score,
    sentence_chrf,
    sentence_statistics,
)
from seq2seq.files import make_folder, write_atomic
from seq2seq.inference.text import Translation
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import WORDS

log = logging.getLogger(__name__)

EXTREMES = 10
BOUNDS = (5, 10, 15, 20, 30, 40)  # longest source, in words, of each length bucket
DEFINITIONS = {
    "bleu": "n-gram precision up to 4 words, times a penalty for brevity (Papineni et al. 2002)",
    "chrf": "F2 of character n-grams up to 6 (Popovic 2015)",
    "ter": "edits over reference words (Snover et al. 2006); lower is better",
}


@dataclass(frozen=True)
class LengthScores:
    """Corpus scores of the sentences in a length bucket, in percent."""

    bucket: LengthBucket
    bleu: float
    chrf: float
    length_ratio: float

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as JSON can hold them."""
        return {
            "shortest": self.bucket.shortest,
            "longest": self.bucket.longest,
            "sentences": len(self.bucket.sentences),
            "bleu": self.bleu,
            "chrf": self.chrf,
            "length_ratio": self.length_ratio,
        }


@dataclass(frozen=True)
class Sentence:
    """A sentence of the test set with its translation."""

    number: int  # in the test set, from 1
    pair: Pair
    translation: Translation
    chrf: float

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the attention weights as JSON can hold it."""
        return {
            "number": self.number,
            "source": self.pair.source,
            "references": [self.pair.target, *self.pair.references],
            "translation": self.translation.text,
            "chrf": self.chrf,
            "score": self.translation.score,
        }


@dataclass(frozen=True)
class Report:
    """All measurements; shares are from 0 to 1, scores in percent. The fields are keys of JSON."""

    sentences: int
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
    best: list[Sentence]
    worst: list[Sentence]

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the attention weights as JSON can hold it."""
        return {
            **vars(self),
            "metrics": {name: metric.as_dict() for name, metric in self.metrics.items()},
            "by_source_length": [scores.as_dict() for scores in self.by_source_length],
            "alignment": None if self.alignment is None else asdict(self.alignment),
            "missing_words": [asdict(error) for error in self.missing_words],
            "added_words": [asdict(error) for error in self.added_words],
            "best": [sentence.as_dict() for sentence in self.best],
            "worst": [sentence.as_dict() for sentence in self.worst],
        }


def make_report(translator: Translator, pairs: Sequence[Pair], evaluation: Evaluation) -> Report:
    """Measure translations of a test set that were made with `keep_weights`.

    If the pairs have gold alignments (with punctuation marks as words), the alignment error is
    that of forced decoding with argmax; unusable gold alignments are logged and left out.
    """
    hypotheses, references = evaluation.hypotheses, references_of(pairs)
    parts = [part for translation in evaluation.translations for part in translation.parts]
    chrf = sentence_chrf(hypotheses, references)
    scored = zip(pairs, evaluation.translations, chrf, strict=True)
    sentences = [Sentence(number, *fields) for number, fields in enumerate(scored, start=1)]
    # Of equal scores the longer sentence is more informative.
    best = sorted(sentences, key=lambda s: (-s.chrf, -len(s.pair.source)))
    worst = sorted(sentences, key=lambda s: (s.chrf, -len(s.pair.source)))
    missing, added = word_errors(hypotheses, references)
    target_ids = translator.target.encode_batch([pair.target for pair in pairs])
    statistics_NC = sentence_statistics(hypotheses, references)
    return Report(
        sentences=len(pairs),
        beam=evaluation.beam,
        metrics=evaluation.metrics,
        lengths=lengths(statistics_NC),
        by_source_length=scores_by_length(
            [normalize_line(pair.source) for pair in pairs], hypotheses, references, statistics_NC
        ),
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
        alignment=_alignment(translator, pairs, attends=any(p.weights is not None for p in parts)),
        missing_words=missing,
        added_words=added,
        best=best[:EXTREMES],
        worst=worst[:EXTREMES],
    )


def scores_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: References,
    statistics_NC: Ints,
) -> list[LengthScores]:
    """Return corpus scores by source length; the statistics are metrics.sentence_statistics."""
    buckets = fixed_buckets(sources, BOUNDS)
    found = []
    for bucket, scores in zip(buckets, bleu_by_length(buckets, statistics_NC), strict=True):
        inside = list(bucket.sentences)
        texts, refs = [hypotheses[n] for n in inside], [references[n] for n in inside]
        chrf = score(texts, refs, metrics=("chrf",))["chrf"].score
        ratio = lengths(statistics_NC[inside])["ratio"]
        found.append(LengthScores(bucket, scores.bleu, chrf, ratio))
    return found


def _alignment(
    translator: Translator, pairs: Sequence[Pair], *, attends: bool
) -> AlignmentError | None:
    split = WORDS["marks"]
    try:
        gold = gold_of(pairs, split=split) if attends else None
    except DataError as error:
        log.warning("no alignment error in the report: %s", error)
        return None
    return None if gold is None else alignment_error(align(translator, pairs, split=split), gold)


def write_report(folder: Path, report: Report, *, run: str, test: str) -> Path:
    """Write report.html and report.json into a folder; return the page's path.

    Raises DataError if they cannot be written.
    """
    about = {"run": run, "test": test}
    numbers = json.dumps({**about, **report.as_dict()}, indent=1, ensure_ascii=False)
    make_folder(folder)
    path = folder / "report.html"
    write_atomic(path, report_page(report, run=run, test=test))
    write_atomic(folder / "report.json", numbers + "\n")
    return path


def report_page(report: Report, *, run: str, test: str) -> str:
    """Return the page; `run` and `test` are the names it shows."""
    return render(
        "report.html",
        report=report,
        run=run,
        test=test,
        definitions=DEFINITIONS,
        resamples=RESAMPLES,
    )
