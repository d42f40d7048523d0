"""Everything that is measured of a run on a test set, in one object."""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError
from seq2seq.evaluation.alignment import (
    WORDS,
    AlignmentError,
    align,
    alignment_error,
    gold_of,
    words,
)
from seq2seq.evaluation.by_length import (
    AttentionFigures,
    LengthBucket,
    attention_figures,
    by_length,
    repetition,
    spelled_share,
)
from seq2seq.evaluation.evaluate import Evaluation, references_of
from seq2seq.evaluation.heatmaps import heatmap
from seq2seq.evaluation.metrics import LABELS, Lengths, Metric, lengths, sentence_chrf
from seq2seq.evaluation.pages import (
    Bar,
    card,
    cards,
    details,
    marked,
    note,
    page,
    section,
    table,
    texts,
)
from seq2seq.files import write_atomic
from seq2seq.inference.text import Translation, normalize_line
from seq2seq.inference.translator import Translator

_LINES = 3


@dataclass(frozen=True)
class WordError:
    """A word, how often it is wrong, of how many times, in how many sentences, and the first."""

    word: str
    count: int
    of: int
    sentences: int
    lines: tuple[int, ...]  # from 1


def word_errors(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, most: int = 15
) -> tuple[list[WordError], list[WordError]]:
    """Return the words most often missing, and most often added.

    Words and punctuation marks of each translation are counted against those of the reference that
    it differs least from, without regard to their order: what the reference has more often is
    missing, what the translation has more often is added. A missing word is one of all times that
    the references have it, an added one of all times that the translations have it. The most
    frequent come first, of equals by the alphabet.
    """
    totals = Counter[str](), Counter[str]()
    wrong = Counter[str](), Counter[str]()
    lines: tuple[dict[str, list[int]], ...] = defaultdict(list), defaultdict(list)
    for number, (hypothesis, wordings) in enumerate(zip(hypotheses, references, strict=True), 1):
        given = Counter(words(hypothesis))
        wanted = min((Counter(words(text)) for text in wordings), key=lambda r: _distance(given, r))
        for side, (mine, other) in enumerate(((wanted, given), (given, wanted))):
            totals[side].update(mine)
            differing = mine - other
            wrong[side].update(differing)
            for word in differing:
                lines[side][word].append(number)
    missing, added = (
        [
            WordError(
                word,
                count,
                totals[side][word],
                len(lines[side][word]),
                tuple(lines[side][word][:_LINES]),
            )
            for word, count in sorted(wrong[side].items(), key=lambda item: (-item[1], item[0]))
        ][:most]
        for side in (0, 1)
    )
    return missing, added


def _distance(one: Counter[str], other: Counter[str]) -> int:
    return (one - other).total() + (other - one).total()


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
    buckets: list[LengthBucket]
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


_METRICS = {
    "bleu": "n-gram precision up to 4 words, times a penalty for brevity (Papineni et al. 2002)",
    "chrf": "F2 of character n-grams up to 6 (Popovic 2015)",
    "ter": "edits over reference words (Snover et al. 2006); lower is better",
}


def write_report(folder: Path, report: Report, *, run: str, test: str) -> Path:
    """Write report.html and report.json into a folder; return the page's path.

    Raises DataError where that cannot be.
    """
    about = {"run": run, "test": test}
    numbers = json.dumps({**about, **report.as_dict()}, indent=1, ensure_ascii=False)
    path = folder / "report.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, report_page(report, run=run, test=test))
        write_atomic(folder / "report.json", numbers + "\n")
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror})") from None
    return path


def report_page(report: Report, *, run: str, test: str) -> str:
    """Return the page; `run` and `test` are the names of what was measured."""
    head = f"{run} on {test}: {report.sentences} sentences, beam {report.beam}."
    body = [
        f"<p>{escape(head)}</p>",
        section("Scores", *_scores(report)),
        section("By source length", *_by_length(report)),
        section("Figures", cards(_figures(report))),
        section("Frequent errors", *_word_errors(report)),
        section("Worst sentences", _legend(), *_sentences(report.worst)),
        section("Best sentences", *_sentences(report.best)),
    ]
    return page("Translation report", "\n".join(body))


def _scores(report: Report) -> Iterator[str]:
    yield cards(
        card(metric.shown, LABELS[name], _METRICS[name]) for name, metric in report.metrics.items()
    )
    yield note(
        "After ±: half the width of the central 95 % of the score over "
        f"{RESAMPLES} test sets drawn with replacement from this one (bootstrap, Koehn 2004)."
    )
    rows = [(LABELS[name], metric.signature) for name, metric in report.metrics.items()]
    yield table(["metric", "sacreBLEU signature"], rows)


def _by_length(report: Report) -> Iterator[str]:
    yield table(
        ["source words", "sentences", "BLEU", "chrF", "length ratio %"],
        [
            (b.name, b.sentences, Bar(b.bleu), Bar(b.chrf), 100 * b.length_ratio)
            for b in report.buckets
        ],
    )
    yield note(
        "Corpus scores of the sentences whose source has so many words (by white space). Few "
        "sentences make a score of little weight."
    )


def _figures(report: Report) -> Iterator[str]:
    def share(value: float) -> str:
        return f"{100 * value:.1f} %"

    sizes = report.lengths
    yield card(
        f"{sizes.ratio:.3f}", "length ratio",
        f"{sizes.hypotheses} translated words over {sizes.references} of the references closest in "
        "length; below 1 BLEU has a penalty",
    )  # fmt: skip
    yield card(
        share(report.repetition["translations"]), "repetition",
        "of the pairs of neighbouring words were in their own sentence before; of the references: "
        + share(report.repetition["references"]),
    )  # fmt: skip
    yield card(
        share(report.unknown["sources"]), "unknown pieces",
        "of the source pieces are <unk> or single bytes: text that the vocabulary lacks; of the "
        f"references {share(report.unknown['references'])}, of the translations "
        + share(report.unknown["translations"]),
    )  # fmt: skip
    if report.attention is not None:
        found = report.attention
        yield card(
            f"{found.entropy:.2f} bits", "entropy of the weights",
            "of a row of attention weights, mean over target pieces; 0 looks at one source piece; "
            f"{share(found.relative_entropy)} of what uniform weights have",
        )  # fmt: skip
        yield card(
            share(found.coverage), "coverage",
            "mean over source pieces of the weight they get in all, counted up to 1; "
            f"{share(found.neglected)} of them get less than 0.1",
        )  # fmt: skip
    if report.alignment is not None and report.alignment.rate is not None:
        error = report.alignment
        yield card(
            share(error.rate or 0), "alignment error rate",
            "of each reference word's heaviest source word, by forced decoding, against "
            f"{error.sure} gold links (Och & Ney 2003): precision {share(error.precision or 0)}, "
            f"recall {share(error.recall or 0)}",
        )  # fmt: skip


def _word_errors(report: Report) -> Iterator[str]:
    yield note(
        "Words and marks counted against the closest reference, whatever their order. Missing: the "
        "reference has more of them; added: the translation has more."
    )
    for title, of, errors in (
        ("Missing", "in references", report.missing),
        ("Added", "in translations", report.added),
    ):
        yield f"<h3>{title}</h3>"
        yield table(["word", "times", of, "%", "sentences"], map(_word_error, errors))


def _word_error(error: WordError) -> tuple[str, int, int, Bar, str]:
    lines = ", ".join(map(str, error.lines))
    if error.sentences > len(error.lines):
        lines += ", ..."
    return error.word, error.count, error.of, Bar(100 * error.count / error.of), lines


def _legend() -> str:
    return note(
        "By sentence chrF; of equals the longer one. Marked words are not, or not there, in the "
        "first reference. Heat maps: source pieces across, target pieces down; the stronger the "
        "colour, the more of its row's attention; each row sums to 1."
    )


def _sentences(sentences: Sequence[Sentence]) -> Iterator[str]:
    for place, sentence in enumerate(sentences):
        pair, text = sentence.pair, sentence.translation.text
        references = [("reference", escape(each)) for each in (pair.target, *pair.references)]
        yield details(
            f"{sentence.chrf:.1f}  {pair.source}",
            texts(
                [
                    (f"source, sentence {sentence.number}", escape(pair.source)),
                    ("translation", marked(text, pair.target) or "(nothing)"),
                    *references,
                ]
            ),
            *map(heatmap, sentence.translation.parts),
            shown=place == 0,
        )
