from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from seq2seq.data.corpus import Pair
from seq2seq.evaluation.metrics import RESAMPLES, paired_test
from studies.bootstrap import SeedScores, compare_seeds, score_seeds, sentence_statistics
from studies.results import Spread

TARGETS = [f"the {noun} of my {thing} {verb} it today ." for noun, thing, verb in itertools.product(
    ("dog", "cat", "sun"), ("aunt", "son", "house", "car"), ("sees", "wants", "has")
)]  # fmt: skip
PAIRS = [Pair("x", target) for target in TARGETS]


def worsened(seed: int, share: float) -> list[str]:
    """Return the targets with a share of their words replaced."""
    generator = np.random.default_rng(seed)
    return [
        " ".join(w if generator.random() >= share else "so" for w in target.split())
        for target in TARGETS
    ]


def scores(*systems: Sequence[str], pairs: Sequence[Pair] = PAIRS) -> SeedScores:
    return score_seeds(
        [
            sentence_statistics(system, [(p.target, *p.references) for p in pairs], "en")
            for system in systems
        ]
    )


def test_mean_and_standard_deviation() -> None:
    spread = Spread((1.0, 2.0, 6.0))
    assert spread.mean == 3
    assert spread.deviation == pytest.approx(((4 + 1 + 9) / 2) ** 0.5)
    assert Spread((4.0,)).deviation is None
    assert Spread((4.0, 4.0)).deviation == 0


def test_resampled_scores_match_sacrebleu() -> None:
    one, other = worsened(1, 0.3), worsened(2, 0.4)
    expected = paired_test({"base": other, "one": one}, TARGETS, "en", metrics=["bleu"])
    for name, hypotheses in {"one": one, "base": other}.items():
        metric = expected[name]["bleu"]
        found = scores(hypotheses)
        assert found.observed_K.tolist() == [pytest.approx(metric.score)]
        assert found.resampled_RK.mean() == pytest.approx(metric.mean, abs=0.5)
        low, high = np.quantile(found.resampled_RK, (0.025, 0.975))
        assert (high - low) / 2 == pytest.approx(metric.interval, abs=0.6)


def test_sentence_resampling_matches_enumeration() -> None:
    pairs = [Pair("x", "a b c d e"), Pair("x", "f g h i j k")]
    one, other = ["a b c d e", "f g h x j k"], ["a b c x e", "f g h i j k"]

    def bleu(system: list[str], drawn: tuple[int, ...]) -> float:
        chosen = [[pairs[n].target for n in drawn]]
        return float(BLEU().corpus_score([system[n] for n in drawn], chosen).score)

    observed = bleu(one, (0, 1)) - bleu(other, (0, 1))
    outcomes = [
        bleu(one, drawn) - bleu(other, drawn) for drawn in itertools.product((0, 1), (0, 1))
    ]
    exact = np.mean([abs(outcome - observed) >= abs(observed) for outcome in outcomes])
    assert 0 < exact < 1
    found = compare_seeds(scores(one, pairs=pairs), scores(other, pairs=pairs))
    assert found.value == pytest.approx(observed)
    assert found.p_value == pytest.approx(exact, abs=0.05)
    assert (found.low, found.high) == (
        pytest.approx(min(outcomes)), pytest.approx(max(outcomes)),
    )  # fmt: skip


def constant(values: tuple[float, ...]) -> SeedScores:  # every test set gives the same BLEU
    return SeedScores(np.array(values), np.tile(values, (RESAMPLES, 1)))


def test_seed_resampling_matches_enumeration() -> None:
    cell, baseline = (20.0, 26.0, 29.0), (18.0, 24.0)
    observed = 25 - 21
    outcomes = [
        sum(one) / 3 - sum(other) / 2
        for one in itertools.product(cell, repeat=3)
        for other in itertools.product(baseline, repeat=2)
    ]
    exact = np.mean([abs(outcome - observed) >= abs(observed) - 1e-9 for outcome in outcomes])
    found = compare_seeds(constant(cell), constant(baseline))
    assert found.value == pytest.approx(observed)
    assert found.p_value == pytest.approx(exact, abs=0.04)
    assert found.low == pytest.approx(np.quantile(outcomes, 0.025), abs=1)
    assert found.high == pytest.approx(np.quantile(outcomes, 0.975), abs=1)


def test_cells_with_the_same_models_are_compared_model_by_model() -> None:
    cell, baseline = (20.0, 26.0, 29.0), (19.0, 25.0, 26.0)
    found = compare_seeds(constant(cell), constant(baseline), same_models=True)
    outcomes = [sum(drawn) / 3 for drawn in itertools.product((1.0, 1.0, 3.0), repeat=3)]
    assert found.value == pytest.approx(5 / 3)
    assert (found.low, found.high) == (min(outcomes), max(outcomes)) == (1, 3)
    apart = compare_seeds(constant(cell), constant(baseline))
    assert apart.value == found.value
    assert apart.low < -3 < 6 < apart.high


def test_sign_and_limits_of_difference() -> None:
    good, bad = scores(worsened(1, 0.1), worsened(2, 0.1)), scores(worsened(3, 0.7))
    better, worse = compare_seeds(good, bad), compare_seeds(bad, good)
    assert better.value == -worse.value > 20
    assert better.low > 0 > worse.high
    assert better.p_value == worse.p_value == pytest.approx(1 / (RESAMPLES + 1))
    same = compare_seeds(good, good)
    assert (same.value, same.p_value) == (0, 1)


def test_lucky_seed_is_not_significant() -> None:
    # One lucky seed makes a clear difference on this test set, but not when seeds are resampled.
    lucky = scores(worsened(1, 0.05), worsened(2, 0.6))
    usual = scores(worsened(3, 0.4), worsened(4, 0.45))
    assert compare_seeds(lucky, usual).value > 10
    assert compare_seeds(lucky, usual).p_value > 0.2
    alone = scores(worsened(1, 0.05))
    assert compare_seeds(alone, usual).p_value < 0.01


def test_equal_systems_are_rarely_significant() -> None:
    pairs = [(scores(worsened(n, 0.4)), scores(worsened(n + 50, 0.4))) for n in range(40)]
    p_values = [compare_seeds(one, other).p_value for one, other in pairs]
    assert sum(p < 0.05 for p in p_values) <= 6  # 2 expected; more than 6 have a chance of 0.003
    assert np.mean(p_values) == pytest.approx(0.5, abs=0.2)
