"""Minimum Bayes risk: the consensus wins; ties go to the first candidate."""

from __future__ import annotations

import pytest
from sacrebleu.metrics import BLEU, CHRF

from seq2seq.errors import ConfigError
from seq2seq.inference.mbr import expected_utilities, minimum_bayes_risk

CANDIDATES = [
    "a dog ran over a road",
    "the cat sat on the mat",
    "the cat sat on a mat",
    "the cat is sitting on the mat",
    "perhaps never",
]


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
def test_consensus_wins(utility: str) -> None:
    assert minimum_bayes_risk(CANDIDATES, utility=utility) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("utility", "metric"), [("chrf", CHRF()), ("bleu", BLEU(effective_order=True))]
)
def test_expected_utilities_are_means_of_sentence_scores(utility, metric) -> None:  # type: ignore[no-untyped-def]
    candidates = [*CANDIDATES, CANDIDATES[0]]
    expected = [
        sum(metric.sentence_score(h, [r]).score for r in candidates) / len(candidates)
        for h in candidates
    ]
    assert expected_utilities(candidates, utility=utility) == pytest.approx(expected)


def test_weights_change_the_choice() -> None:
    assert minimum_bayes_risk(CANDIDATES, weights=[10, 1, 1, 1, 1]) == 0
    assert minimum_bayes_risk(CANDIDATES, weights=[0, 0, 0, 0, 1]) == 4
    repeated = minimum_bayes_risk([*CANDIDATES, *[CANDIDATES[4]] * 9])
    assert repeated == minimum_bayes_risk(CANDIDATES, weights=[1, 1, 1, 1, 10]) == 4


def test_ties_go_to_the_first() -> None:
    assert minimum_bayes_risk(["xy", "xy", "xy"]) == 0
    assert minimum_bayes_risk(["abc def", "ghi jkl", "mno pqr"]) == 0
    assert minimum_bayes_risk(["b", "a"], utility=lambda h, r: 0.1 + 0.2 if h == "a" else 0.3) == 0


def test_single_and_empty_candidates() -> None:
    assert minimum_bayes_risk(["one"]) == 0
    assert minimum_bayes_risk(["", "one two", "one two"]) == 1


def test_custom_utility() -> None:
    assert expected_utilities(
        ["a", "bb"], utility=lambda h, r: len(h) - len(r) / 2, weights=[1, 3]
    ) == pytest.approx([1 - 0.875, 2 - 0.875])


@pytest.mark.parametrize(
    ("candidates", "weights", "message"),
    [
        ([], None, "needs a candidate"),
        (["a", "b"], [1.0], "1 weights for 2 candidates"),
        (["a", "b"], [1.0, -1.0], "not be negative"),
        (["a", "b"], [0.0, 0.0], "all 0"),
        (["a", "b"], [float("nan"), 1.0], "not be negative"),
    ],
)
def test_invalid_candidates_and_weights_raise(candidates, weights, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match=message):
        minimum_bayes_risk(candidates, weights=weights)
