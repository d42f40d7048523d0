"""A comparison of runs as text for a terminal, and as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from seq2seq.evaluation.compare import Contest
from seq2seq.evaluation.metrics import LABELS, Comparison
from seq2seq.evaluation.page import details, marked, note, page, section, table, texts

_SHOWN = 5

_TESTS = {
    "bootstrap": "paired bootstrap resampling (Koehn 2004)",
    "randomization": "approximate randomization (Riezler & Maxwell 2005)",
}


def contest_text(contest: Contest) -> str:
    """Return the scores, and the sentences that differ most, as lines of text."""
    width = max(map(len, contest.systems))
    lines = []
    for system, by_metric in contest.metrics.items():
        scores = "  ".join(
            f"{LABELS[name]} {_score(found):<22}" for name, found in by_metric.items()
        )
        lines.append(f"{system:{width}}  {scores}".rstrip())
    lines += [*_balances(contest), _test(contest), *_signatures(contest)]
    for each in contest.differences[:_SHOWN]:
        lines += ["", f"{each.number}: {each.pair.source}", f"{'':8}{each.pair.target}"]
        lines += [f"  {each.chrf[system]:5.1f} {text}   ({system})"
                  for system, text in each.texts.items()]  # fmt: skip
    return "\n".join(lines)


def contest_page(contest: Contest, *, test: str) -> str:
    """Return the comparison as a page; `test` is the name of the test set."""
    names = next(iter(contest.metrics.values()))
    rows = [
        [system, *(_score(found) for found in by_metric.values())]
        for system, by_metric in contest.metrics.items()
    ]
    scores = [
        table(["run", *(LABELS[name] for name in names)], rows),
        note(
            "After ±: half the width of the central 95 % of the resampled scores. p: the "
            "probability of so large a difference to the first run if chance alone made it; below "
            f"0.05 it is usually called significant. The test: {_test(contest)}."
        ),
        *map(note, _signatures(contest)),
    ]
    differences = [
        note(
            f"The {len(contest.differences)} sentences whose chrF differs most between runs. "
            "Marked words are not, or not there, in the first reference."
        ),
        *_differences(contest),
    ]
    return page(
        "Comparison of runs",
        "\n".join(
            [
                f"<p>{escape(f'{test}: {contest.sentences} sentences, all references.')}</p>",
                section("Scores", *scores),
                section("Sentence by sentence", *map(note, _balances(contest))),
                section("Where they differ most", *differences),
            ]
        ),
    )


def _differences(contest: Contest) -> Iterator[str]:
    for each in contest.differences:
        references = [("reference", escape(r)) for r in (each.pair.target, *each.pair.references)]
        yield details(
            f"{each.spread:.1f}  {each.pair.source}",
            texts(
                [
                    (f"source, sentence {each.number}", escape(each.pair.source)),
                    *references,
                    *(
                        (f"{system}, chrF {each.chrf[system]:.1f}", marked(text, each.pair.target))
                        for system, text in each.texts.items()
                    ),
                ]
            ),
            shown=True,
        )


def _score(found: Comparison) -> str:
    if found.p_value is None:
        return found.metric.shown
    small = found.p_value < 0.0005
    return f"{found.metric.shown} (p {'< 0.001' if small else f'= {found.p_value:.3f}'})"


def _balances(contest: Contest) -> list[str]:
    return [
        f"{system} against {contest.systems[0]}, by sentence chrF: {found.better} better, "
        f"{found.equal} equal, {found.worse} worse; {found.same_text} of {contest.sentences} "
        "translations are the same"
        for system, found in contest.balances.items()
    ]


def _test(contest: Contest) -> str:
    return f"{_TESTS[contest.test]}, {contest.resamples} resamples, against {contest.systems[0]}"


def _signatures(contest: Contest) -> list[str]:
    first = next(iter(contest.metrics.values()))
    return [f"{LABELS[name]}: {found.metric.signature}" for name, found in first.items()]
