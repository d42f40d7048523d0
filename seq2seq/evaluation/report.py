"""Everything that is measured of a run on a test set, in one object."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError
from seq2seq.evaluation.align import WORDS, align, gold_of
from seq2seq.evaluation.alignment_error import AlignmentError, alignment_error
from seq2seq.evaluation.evaluate import Evaluation, references_of
from seq2seq.evaluation.metrics import Lengths, Metric, lengths, sentence_chrf
from seq2seq.evaluation.statistics import (
    AttentionFigures,
    Bucket,
    attention_figures,
    by_length,
    repetition,
    spelled_share,
)
from seq2seq.evaluation.word_errors import WordError, word_errors
from seq2seq.inference.lines import normalize_line
from seq2seq.inference.translation import Translation
from seq2seq.inference.translator import Translator

log = logging.getLogger(__name__)

RESAMPLES = 1000
EXTREMES = 10


@dataclass(frozen=True)
class Sentence:
    """A sentence of the test set with its translation."""

    number: int  # in the test set, from 1
    pair: Pair
    translation: Translation
    chrf: float

    def as_dict(self) -> dict[str, Any]:
        """Return all but the weights as JSON can hold it."""
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
    """What is measured; shares are from 0 to 1, scores in percent."""

    metrics: dict[str, Metric]
    beam: int
    sentences: int
    lengths: Lengths
    buckets: list[Bucket]
    repetition: dict[str, float]  # of translations and of first references
    unknown: dict[str, float]  # of sources, references and translations
    attention: AttentionFigures | None
    alignment: AlignmentError | None
    missing: list[WordError]
    added: list[WordError]
    best: list[Sentence]
    worst: list[Sentence]

    def as_dict(self) -> dict[str, Any]:
        """Return all but the weights as JSON can hold it."""
        return {
            "sentences": self.sentences,
            "beam": self.beam,
            "metrics": {name: metric.as_dict() for name, metric in self.metrics.items()},
            "lengths": {**asdict(self.lengths), "ratio": self.lengths.ratio},
            "by_source_length": [asdict(bucket) for bucket in self.buckets],
            "repetition": self.repetition,
            "unknown_pieces": self.unknown,
            "attention": None if self.attention is None else asdict(self.attention),
            "alignment": None if self.alignment is None else self.alignment.as_dict(),
            "missing_words": [asdict(error) for error in self.missing],
            "added_words": [asdict(error) for error in self.added],
            "best": [sentence.as_dict() for sentence in self.best],
            "worst": [sentence.as_dict() for sentence in self.worst],
        }


def make_report(translator: Translator, pairs: Sequence[Pair], evaluation: Evaluation) -> Report:
    """Measure the translations of a test set, made with their weights.

    Where the pairs have gold links (of words with marks apart), their alignment error is that of
    forced decoding by argmax; gold links that cannot be used are reported and left out.
    """
    hypotheses, references = evaluation.hypotheses, references_of(pairs)
    sources = [normalize_line(pair.source) for pair in pairs]
    parts = [part for translation in evaluation.translations for part in translation.parts]
    sentences = [
        Sentence(number, *rest)
        for number, rest in enumerate(
            zip(pairs, evaluation.translations, sentence_chrf(hypotheses, references), strict=True),
            start=1,
        )
    ]
    # Of equal scores the longer sentence says more.
    best = sorted(sentences, key=lambda s: (-s.chrf, -len(s.pair.source)))
    worst = sorted(sentences, key=lambda s: (s.chrf, -len(s.pair.source)))
    missing, added = word_errors(hypotheses, references)
    target_ids = translator.target.encode_batch([pair.target for pair in pairs])
    return Report(
        metrics=evaluation.metrics,
        beam=evaluation.beam,
        sentences=len(pairs),
        lengths=lengths(hypotheses, references),
        buckets=by_length(sources, hypotheses, references),
        repetition={
            "translations": repetition(hypotheses),
            "references": repetition(pair.target for pair in pairs),
        },
        unknown={
            "sources": spelled_share(part.source_pieces for part in parts),
            "references": spelled_share(map(translator.target.pieces, target_ids)),
            "translations": spelled_share(part.target_pieces for part in parts),
        },
        attention=attention_figures(parts),
        alignment=_alignment(translator, pairs, attends=any(p.weights is not None for p in parts)),
        missing=missing,
        added=added,
        best=best[:EXTREMES],
        worst=worst[:EXTREMES],
    )


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
