"""Minimum Bayes risk: the consensus wins; ties go to the first candidate."""

from __future__ import annotations

import math

import pytest
from sacrebleu.metrics import BLEU, CHRF

from seq2seq.inference import sampling
from seq2seq.inference.sampling import Metric, expected_utilities, minimum_bayes_risk

CANDIDATES = [
    "a dog ran over a road",
    "the cat sat on the mat",
    "the cat sat on a mat",
    "the cat is sitting on the mat",
    "perhaps never",
]


@pytest.mark.parametrize("metric", ["chrf", "bleu"])
def test_consensus_wins(metric: Metric) -> None:
    assert minimum_bayes_risk(CANDIDATES, metric, "en") == 1


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
    assert expected_utilities(candidates, metric, "en") == pytest.approx(expected)


def test_repeated_candidates_count_more() -> None:
    assert minimum_bayes_risk([*CANDIDATES, *[CANDIDATES[4]] * 9], "chrf", "en") == 4


@pytest.mark.parametrize("metric", ["chrf", "bleu"])
def test_an_nbest_list_is_weighted_by_its_probabilities(metric: Metric) -> None:
    log_probs = [-3000.0, -3001.5, -3002.0, -3001.0, -3000.7]
    weights = [math.exp(value + 3000) for value in log_probs]
    plain = [expected_utilities([h, r], metric, "en")[0] for h in CANDIDATES for r in CANDIDATES]
    rows = [plain[n : n + 5] for n in range(0, 25, 5)]  # utility(h, r) / 2 + 100 / 2
    means = [
        sum(w * (2 * u - 100) for w, u in zip(weights, row, strict=True)) / sum(weights)
        for row in rows
    ]
    assert expected_utilities(CANDIDATES, metric, "en", log_probs) == pytest.approx(means)
    # The consensus of equal weights is given up for what is as good as certain.
    assert minimum_bayes_risk(CANDIDATES, metric, "en", [-9.0, -9.0, -9.0, -9.0, -0.001]) == 4
    assert minimum_bayes_risk(CANDIDATES, metric, "en", [-1.6] * 5) == 1


def test_ties_go_to_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert minimum_bayes_risk(["xy", "xy", "xy"], "chrf", "en") == 0
    assert minimum_bayes_risk(["abc def", "ghi jkl", "mno pqr"], "chrf", "en") == 0
    monkeypatch.setattr(sampling, "expected_utilities", lambda *_: [0.3, 0.1 + 0.2])
    assert minimum_bayes_risk(["b", "a"], "chrf", "en") == 0


def test_single_and_empty_candidates() -> None:
    assert minimum_bayes_risk(["one"], "chrf", "en") == 0
    assert minimum_bayes_risk(["", "one two", "one two"], "chrf", "en") == 1
