"""Whether systems differ on one test set by more than chance, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seq2seq.data.corpus import Pair
from seq2seq.evaluation.evaluate import references_of
from seq2seq.evaluation.metrics import LABELS, RESAMPLES, Metric, Test, paired_test, sentence_chrf

RANDOMIZATIONS = 10_000
TESTS = {
    "bootstrap": "paired bootstrap resampling (Koehn 2004)",
    "randomization": "approximate randomization (Riezler & Maxwell 2005)",
}
MOST = 20
_SHOWN = 5  # sentences in the text
_EQUAL = 1e-6  # difference in sentence chrF


@dataclass(frozen=True)
class DifferingSentence:
    """A sentence of the test set with each system's translation and its chrF."""

    number: int  # in the test set, from 1
    source: str
    references: list[str]
    translations: dict[str, str]
    chrf: dict[str, float]

    @property
    def spread(self) -> float:
        """The best chrF minus the worst."""
        return max(self.chrf.values()) - min(self.chrf.values())


@dataclass(frozen=True)
class SystemComparison:
    """Systems compared with the first of them. The fields are the keys of its JSON."""

    systems: list[str]
    test: Test
    resamples: int
    sentences: int
    metrics: dict[str, dict[str, Metric]]  # by system, then by metric
    against_the_first: dict[str, dict[str, int]]  # by system but the first
    differences: list[DifferingSentence]

    @property
    def balance_lines(self) -> list[str]:
        """A line for each system but the first: in how many sentences it is better or worse."""
        return [
            f"{system} against {self.systems[0]}, by sentence chrF: {found['better']} better, "
            f"{found['equal']} equal, {found['worse']} worse; {found['same_text']} of "
            f"{self.sentences} translations are identical"
            for system, found in self.against_the_first.items()
        ]

    @property
    def test_line(self) -> str:
        """The significance test as text."""
        return f"{TESTS[self.test]}, {self.resamples} resamples, against {self.systems[0]}"

    @property
    def signature_lines(self) -> list[str]:
        """A line for each metric: sacreBLEU's signature."""
        first = self.metrics[self.systems[0]]
        return [f"{LABELS[name]}: {found.signature}" for name, found in first.items()]


def compare(
    systems: Mapping[str, Sequence[str]],
    pairs: Sequence[Pair],
    language: str,
    *,
    test: Test = "bootstrap",
    resamples: int | None = None,
) -> SystemComparison:
    """Compare systems' translations of a test set with those of the first, on all references.

    `differences` are the sentences whose chrF differs most between any two systems, at most 20.
    Raises DataError for fewer than two systems and for an empty test set.
    """
    references = references_of(pairs)
    count = resamples or (RESAMPLES if test == "bootstrap" else RANDOMIZATIONS)
    metrics = paired_test(systems, references, language, test=test, resamples=count)
    chrf = {name: sentence_chrf(texts, references) for name, texts in systems.items()}
    sentences = [
        DifferingSentence(
            number + 1,
            pair.source,
            list(references[number]),
            {name: texts[number] for name, texts in systems.items()},
            {name: scores[number] for name, scores in chrf.items()},
        )
        for number, pair in enumerate(pairs)
    ]
    first, *others = systems
    balances = {name: _balance(sentences, first, name) for name in others}
    differing = sorted((s for s in sentences if s.spread > _EQUAL), key=lambda s: -s.spread)
    return SystemComparison(
        list(systems), test, count, len(pairs), metrics, balances, differing[:MOST]
    )


def _balance(sentences: Sequence[DifferingSentence], first: str, other: str) -> dict[str, int]:
    """Return in how many sentences the other system's chrF is better, equal or worse."""
    gains = [each.chrf[other] - each.chrf[first] for each in sentences]
    return {
        "better": sum(gain > _EQUAL for gain in gains),
        "equal": sum(abs(gain) <= _EQUAL for gain in gains),
        "worse": sum(gain < -_EQUAL for gain in gains),
        "same_text": sum(s.translations[other] == s.translations[first] for s in sentences),
    }


def comparison_text(comparison: SystemComparison) -> str:
    """Return the scores, and the sentences that differ most, as lines of text."""
    width = max(map(len, comparison.systems))
    lines = []
    for system, by_metric in comparison.metrics.items():
        scores = "  ".join(f"{LABELS[name]} {found.shown:<22}" for name, found in by_metric.items())
        lines.append(f"{system:{width}}  {scores}".rstrip())
    lines += [*comparison.balance_lines, comparison.test_line, *comparison.signature_lines]
    for each in comparison.differences[:_SHOWN]:
        lines += ["", f"{each.number}: {each.source}", f"{'':8}{each.references[0]}"]
        lines += [f"  {each.chrf[system]:5.1f} {text}   ({system})"
                  for system, text in each.translations.items()]  # fmt: skip
    return "\n".join(lines)
