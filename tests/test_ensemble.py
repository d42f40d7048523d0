"""An ensemble is the average of its members."""

from __future__ import annotations

import pytest
import torch
from prefix_model import prefix_model

from seq2seq.inference.ensemble import Ensemble
from seq2seq.inference.search import SearchOptions, beam_search, greedy

OPTIONS = SearchOptions(beam_size=3, nbest=3, keep_weights=True, coverage_penalty=0.2)


def test_one_member_matches_the_model() -> None:
    model = prefix_model(1, [4, 2, 6])
    for search in (greedy, beam_search):
        pairs = zip(search(model, OPTIONS), search(Ensemble([model]), OPTIONS), strict=True)
        for alone, ensemble in pairs:
            assert [h.tokens for h in alone] == [h.tokens for h in ensemble]
            for one, other in zip(alone, ensemble, strict=True):
                assert one.score == pytest.approx(other.score)
                assert torch.allclose(one.weights, other.weights)


def test_two_members_are_averaged() -> None:
    members = [prefix_model(seed, [4, 2]) for seed in (1, 2)]
    ensemble = Ensemble(members)
    assert ensemble.source_lengths_B.tolist() == [4, 2]
    tokens = torch.tensor([2, 2, 2, 2])
    rows = torch.tensor([0, 0, 1, 1])
    logits, weights, state = ensemble.step(tokens, ensemble.start().select(rows))
    steps = [member.step(tokens, member.start().select(rows)) for member in members]
    mean = sum(step[0].softmax(-1) for step in steps) / 2
    assert torch.allclose(logits.exp(), mean)
    assert torch.allclose(weights, (steps[0][1] + steps[1][1]) / 2)
    logits, _, _ = ensemble.step(torch.tensor([4, 5, 6, 4]), state)
    mean = sum(
        member.step(torch.tensor([4, 5, 6, 4]), step[2])[0].softmax(-1)
        for member, step in zip(members, steps, strict=True)
    )
    assert torch.allclose(logits.exp(), mean / 2)


def test_ensemble_search_does_not_depend_on_batch() -> None:
    ensemble = Ensemble([prefix_model(seed, [4, 2, 6]) for seed in (1, 2)])
    together = beam_search(ensemble, OPTIONS)
    for sentence, found in enumerate(together):
        [alone] = beam_search(ensemble.select(torch.tensor([sentence])), OPTIONS)
        assert [h.tokens for h in found] == [h.tokens for h in alone]


def test_members_without_attention_are_left_out_of_weights() -> None:
    attends, blind = prefix_model(1, [3]), prefix_model(1, [3], attends=False)
    _, expected, _ = attends.step(torch.tensor([2]), attends.start())
    mixed = Ensemble([attends, blind])
    assert torch.equal(mixed.step(torch.tensor([2]), mixed.start())[1], expected)
    none = Ensemble([blind])
    assert none.step(torch.tensor([2]), none.start())[1] is None
