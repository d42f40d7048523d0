"""Minimum Bayes risk: the consensus wins; ties go to the first candidate."""

from __future__ import annotations

import pytest
from sacrebleu.metrics import BLEU, CHRF

from seq2seq.inference import mbr
from seq2seq.inference.mbr import Metric, expected_utilities, minimum_bayes_risk

CANDIDATES = [
    "a dog ran over a road",
    "the cat sat on the mat",
    "the cat sat on a mat",
    "the cat is sitting on the mat",
    "perhaps never",
]


@pytest.mark.parametrize("metric", ["chrf", "bleu"])
def test_consensus_wins(metric: Metric) -> None:
    assert minimum_bayes_risk(CANDIDATES, metric) == 1


@pytest.mark.parametrize(
    ("metric", "scorer"), [("chrf", CHRF()), ("bleu", BLEU(effective_order=True))]
)
def test_expected_utilities_are_means_of_sentence_scores(
    metric: Metric, scorer: BLEU | CHRF
) -> None:
    candidates = [*CANDIDATES, CANDIDATES[0]]
    expected = [
        sum(scorer.sentence_score(h, [r]).score for r in candidates) / len(candidates)
        for h in candidates
    ]
    assert expected_utilities(candidates, metric) == pytest.approx(expected)


def test_repeated_candidates_count_more() -> None:
    assert minimum_bayes_risk([*CANDIDATES, *[CANDIDATES[4]] * 9], "chrf") == 4


def test_ties_go_to_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert minimum_bayes_risk(["xy", "xy", "xy"], "chrf") == 0
    assert minimum_bayes_risk(["abc def", "ghi jkl", "mno pqr"], "chrf") == 0
    monkeypatch.setattr(mbr, "expected_utilities", lambda *_: [0.3, 0.1 + 0.2])
    assert minimum_bayes_risk(["b", "a"], "chrf") == 0


def test_single_and_empty_candidates() -> None:
    assert minimum_bayes_risk(["one"], "chrf") == 0
    assert minimum_bayes_risk(["", "one two", "one two"], "chrf") == 1
