from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from seq2seq.inference.beam_state import argmax, top, top_extensions


def drawn(*shape: int, seed: int, levels: int | None = None) -> Tensor:
    """Return random numbers; few levels make many of them equal."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return values if levels is None else (values * levels).round() / levels


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 1000),
    vocab=st.sampled_from([5, 100, 256, 257, 300, 320, 321, 1000]),  # 64 is a block
    sentences=st.integers(1, 4),
    hypotheses=st.integers(1, 6),
    count=st.sampled_from([1, 2, 5, 40]),
    levels=st.sampled_from([None, 1, 8]),
)
def test_top_extensions_match_sorting(
    seed: int, vocab: int, sentences: int, hypotheses: int, count: int, levels: int | None
) -> None:
    log_probs = drawn(sentences * hypotheses, vocab, seed=seed, levels=levels)
    totals = drawn(sentences * hypotheses, seed=seed + 1, levels=levels)
    totals[drawn(len(totals), seed=seed + 2) > 1.2] = -math.inf  # unused rows
    found, places = top_extensions(log_probs, totals, sentences, count)
    every = (log_probs + totals[:, None]).view(sentences, -1)
    expected, order = every.sort(dim=1, descending=True, stable=True)
    assert torch.equal(found, expected[:, :count])
    assert torch.equal(every.gather(1, places), found)
    assert all(len(set(row)) == len(row) for row in places.tolist())
    if levels is None and found.isfinite().all():
        assert torch.equal(places, order[:, :count])
    # Equal totals are ordered by place.
    assert ((found[:, :-1] > found[:, 1:]) | (places[:, :-1] < places[:, 1:])).all()


def test_nan_is_not_hidden() -> None:
    log_probs, totals = drawn(4, 500, seed=1), torch.zeros(4)
    log_probs[1, 499] = math.nan
    found, _ = top_extensions(log_probs, totals, 2, 3)
    assert found[0].isnan().any()
    assert found[1].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_argmax_prefers_the_first_of_equal_scores(dtype: torch.dtype) -> None:
    scores = torch.tensor([[1, 3, 2, 3], [0, 0, 0, 0], [-math.inf, 5, 5, 1]], dtype=dtype)
    assert argmax(scores).tolist() == [1, 0, 1]
    assert top(scores, 1)[1].tolist() == [[1], [0], [1]]
    many = drawn(50, 333, seed=3, levels=2)
    assert torch.equal(argmax(many), many.argmax(1))


def test_top_is_ordered_by_index() -> None:
    scores, places = top(torch.tensor([[1.0, 7.0, 3.0, 5.0]]), 3)
    assert (scores.tolist(), places.tolist()) == ([[7.0, 3.0, 5.0]], [[1, 2, 3]])
    assert top(torch.zeros(2, 3), 9)[1].tolist() == [[0, 1, 2]] * 2
