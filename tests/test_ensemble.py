"""An ensemble is the average of its members."""

from __future__ import annotations

import numpy as np
import pytest
from prefix_model import greedy, prefix_model

from seq2seq.inference.protocol import Ensemble, EnsembleState, Step
from seq2seq.inference.search import SearchOptions, beam_search

OPTIONS = SearchOptions(beam_size=3, nbest=3, keep_weights=True, coverage_penalty=0.2)


def test_one_member_matches_the_model() -> None:
    model = prefix_model(1, [4, 2, 6])
    for search in (greedy, beam_search):
        pairs = zip(search(model, OPTIONS), search(Ensemble([model]), OPTIONS), strict=True)
        for alone, ensemble in pairs:
            assert [h.tokens for h in alone] == [h.tokens for h in ensemble]
            for one, other in zip(alone, ensemble, strict=True):
                assert one.score == pytest.approx(other.score)
                assert np.allclose(one.weights, other.weights)


def test_two_members_are_averaged() -> None:
    members = [prefix_model(seed, [4, 2]) for seed in (1, 2)]
    ensemble = Ensemble(members)
    assert ensemble.source_lengths_B.tolist() == [4, 2]
    tokens = np.array([2, 2, 2, 2])
    rows = np.array([0, 0, 1, 1])
    found = ensemble.step(tokens, ensemble.start().select(rows), weights=True)
    steps = [m.step(tokens, m.start().select(rows), weights=True) for m in members]
    mean = sum(np.exp(step.log_probs_RC) for step in steps) / 2
    assert np.allclose(np.exp(found.log_probs_RC), mean)
    assert np.allclose(found.weights_RS, sum(step.weights_RS for step in steps) / 2)
    tokens = np.array([4, 5, 6, 4])
    mean = sum(
        np.exp(member.step(tokens, step.state).log_probs_RC)
        for member, step in zip(members, steps, strict=True)
    )
    assert np.allclose(np.exp(ensemble.step(tokens, found.state).log_probs_RC), mean / 2)


def test_ensemble_search_does_not_depend_on_batch() -> None:
    ensemble = Ensemble([prefix_model(seed, [4, 2, 6]) for seed in (1, 2)])
    together = beam_search(ensemble, OPTIONS)
    for sentence, found in enumerate(together):
        [alone] = beam_search(ensemble.select(np.array([sentence])), OPTIONS)
        assert [h.tokens for h in found] == [h.tokens for h in alone]


def test_members_without_attention_are_left_out_of_weights() -> None:
    attends, blind = prefix_model(1, [3]), prefix_model(1, [3], attends=False)
    tokens = np.array([2])
    expected = attends.step(tokens, attends.start(), weights=True).weights_RS
    mixed = Ensemble([attends, blind])
    found = mixed.step(tokens, mixed.start(), weights=True).weights_RS
    np.testing.assert_array_equal(found, expected)
    none = Ensemble([blind])
    assert none.step(tokens, none.start(), weights=True).weights_RS is None


def test_what_no_member_finds_likely_stays_possible() -> None:
    """Probabilities below the smallest number of single precision do not become 0."""

    class Certain:
        def step(self, tokens_R: np.ndarray, *_: object, **__: object) -> Step:
            return Step(np.array([[0, -80, -500]], dtype=np.float32), None)

    found = Ensemble([Certain(), Certain()]).step(np.array([2]), EnsembleState([None, None]))
    assert np.allclose(found.log_probs_RC[0, :2], [0, -80])
    assert -100 < found.log_probs_RC[0, 2] < -80
