"""A report as one HTML page, with the definition of each figure beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from seq2seq.errors import DataError
from seq2seq.evaluation.heatmap import heatmap
from seq2seq.evaluation.metrics import LABELS
from seq2seq.evaluation.page import (
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
from seq2seq.evaluation.report import RESAMPLES, Report, Sentence
from seq2seq.evaluation.word_errors import WordError
from seq2seq.files import write_atomic

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
