"""Runs against each other on one test set: is the difference more than chance, and where is it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seq2seq.data.corpus import Pair
from seq2seq.evaluation.evaluate import references_of
from seq2seq.evaluation.metrics import Comparison, Test, paired_test, sentence_chrf

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
class Contest:
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
) -> Contest:
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
    return Contest(tuple(systems), test, count, len(pairs), metrics, balances, differing[:MOST])


def _balance(differences: Sequence[Difference], first: str, other: str) -> Balance:
    gains = [each.chrf[other] - each.chrf[first] for each in differences]
    return Balance(
        better=sum(gain > _EQUAL for gain in gains),
        equal=sum(abs(gain) <= _EQUAL for gain in gains),
        worse=sum(gain < -_EQUAL for gain in gains),
        same_text=sum(each.texts[other] == each.texts[first] for each in differences),
    )
