"""Runs against each other on one test set: is the difference more than chance, and where is it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from seq2seq.data.corpus import Pair
from seq2seq.evaluation.evaluate import references_of
from seq2seq.evaluation.metrics import LABELS, Comparison, Test, paired_test, sentence_chrf
from seq2seq.evaluation.pages import details, marked, note, page, section, table, texts

RESAMPLES: dict[Test, int] = {"bootstrap": 1000, "randomization": 10_000}
MOST = 20
_EQUAL = 1e-6  # of sentence chrF


@dataclass(frozen=True)
class Difference:
    """A sentence with each system's translation and its chrF."""

    number: int  # in the test set, from 1
    pair: Pair
    texts: dict[str, str]
    chrf: dict[str, float]

    @property
    def spread(self) -> float:
        """The best chrF minus the worst."""
        return max(self.chrf.values()) - min(self.chrf.values())


@dataclass(frozen=True)
class Balance:
    """Sentences in which a system beats the first one by chrF, equals it, or loses."""

    better: int
    equal: int
    worse: int
    same_text: int


@dataclass(frozen=True)
class SystemComparison:
    """What the comparison of several systems with the first of them finds."""

    systems: tuple[str, ...]
    test: Test
    resamples: int
    sentences: int
    metrics: dict[str, dict[str, Comparison]]  # by system, then by metric
    balances: dict[str, Balance]  # by system but the first
    differences: list[Difference]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it."""
        return {
            "systems": list(self.systems),
            "test": self.test,
            "resamples": self.resamples,
            "sentences": self.sentences,
            "metrics": {
                system: {
                    name: {**found.metric.as_dict(), "p_value": found.p_value}
                    for name, found in by_metric.items()
                }
                for system, by_metric in self.metrics.items()
            },
            "against_the_first": {name: vars(found) for name, found in self.balances.items()},
            "differences": [
                {
                    "number": each.number,
                    "source": each.pair.source,
                    "references": [each.pair.target, *each.pair.references],
                    "translations": each.texts,
                    "chrf": each.chrf,
                }
                for each in self.differences
            ],
        }


def compare(
    systems: Mapping[str, Sequence[str]],
    pairs: Sequence[Pair],
    *,
    test: Test = "bootstrap",
    resamples: int | None = None,
) -> SystemComparison:
    """Compare systems' translations of a test set with those of the first, by all references.

    The differences are the sentences whose chrF differs most between any two systems, at most 20.
    Raises DataError for fewer than two systems and for an empty test set.
    """
    references = references_of(pairs)
    count = resamples or RESAMPLES[test]
    metrics = paired_test(systems, references, test=test, resamples=count)
    chrf = {name: sentence_chrf(texts, references) for name, texts in systems.items()}
    first, *others = systems
    differences = [
        Difference(
            number + 1,
            pair,
            {name: texts[number] for name, texts in systems.items()},
            {name: scores[number] for name, scores in chrf.items()},
        )
        for number, pair in enumerate(pairs)
    ]
    differing = sorted((d for d in differences if d.spread > _EQUAL), key=lambda d: -d.spread)
    balances = {name: _balance(differences, first, name) for name in others}
    return SystemComparison(
        tuple(systems), test, count, len(pairs), metrics, balances, differing[:MOST]
    )


def _balance(differences: Sequence[Difference], first: str, other: str) -> Balance:
    gains = [each.chrf[other] - each.chrf[first] for each in differences]
    return Balance(
        better=sum(gain > _EQUAL for gain in gains),
        equal=sum(abs(gain) <= _EQUAL for gain in gains),
        worse=sum(gain < -_EQUAL for gain in gains),
        same_text=sum(each.texts[other] == each.texts[first] for each in differences),
    )


_SHOWN = 5

_TESTS = {
    "bootstrap": "paired bootstrap resampling (Koehn 2004)",
    "randomization": "approximate randomization (Riezler & Maxwell 2005)",
}


def contest_text(contest: SystemComparison) -> str:
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


def contest_page(contest: SystemComparison, *, test: str) -> str:
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


def _differences(contest: SystemComparison) -> Iterator[str]:
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


def _balances(contest: SystemComparison) -> list[str]:
    return [
        f"{system} against {contest.systems[0]}, by sentence chrF: {found.better} better, "
        f"{found.equal} equal, {found.worse} worse; {found.same_text} of {contest.sentences} "
        "translations are the same"
        for system, found in contest.balances.items()
    ]


def _test(contest: SystemComparison) -> str:
    return f"{_TESTS[contest.test]}, {contest.resamples} resamples, against {contest.systems[0]}"


def _signatures(contest: SystemComparison) -> list[str]:
    first = next(iter(contest.metrics.values()))
    return [f"{LABELS[name]}: {found.metric.signature}" for name, found in first.items()]
