from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data.tokenizer import EOS
from seq2seq.inference.protocol import Floats
from seq2seq.inference.search import top
from seq2seq.inference.torch_backend import top_with_eos


def drawn(*shape: int, seed: int, levels: int | None = None) -> Floats:
    """Return random numbers; few levels make many of them equal."""
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return values if levels is None else np.round(values * levels) / levels


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 1000),
    columns=st.sampled_from([5, 100, 1000]),
    rows=st.integers(1, 6),
    count=st.sampled_from([1, 2, 5, 40]),
    levels=st.sampled_from([None, 1, 8]),
)
def test_top_matches_sorting(
    seed: int, columns: int, rows: int, count: int, levels: int | None
) -> None:
    scores = drawn(rows, columns, seed=seed, levels=levels)
    scores[drawn(rows, seed=seed + 2) > 1.2] = -math.inf  # unused rows
    found, places = top(scores.copy(), count)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    possible = np.isfinite(found)  # places of others mean nothing
    assert np.array_equal(found, np.take_along_axis(scores, order, 1))
    assert np.array_equal(np.take_along_axis(scores, places, 1)[possible], found[possible])
    if count <= 16:  # of equal ones the first
        assert np.array_equal(places[possible], order[possible])
    assert all(len({*row[ok]}) == ok.sum() for row, ok in zip(places, possible, strict=True))


def test_top_takes_the_largest_and_the_first_of_equals() -> None:
    scores = np.array([[1, 3, 2, 3], [0, 0, 0, 0], [-math.inf, 5, 5, 1]])
    assert top(scores.copy(), 1)[1].tolist() == [[1], [0], [1]]
    assert top(scores.copy(), 3)[1].tolist() == [[1, 3, 2], [0, 1, 2], [1, 2, 3]]
    assert top(np.zeros((2, 3)), 9)[1].tolist() == [[0, 1, 2]] * 2
    many = drawn(5, 300, seed=1)
    found, columns = top(many.copy(), 40)
    assert np.array_equal(found, -np.sort(-many, axis=1)[:, :40])
    assert np.array_equal(np.take_along_axis(many, columns, 1), found)


def test_top_pieces_of_a_gpu_include_the_end() -> None:
    scores = drawn(40, 50, seed=4)
    scores[::2, EOS] = 9.0  # the most likely of every other row
    found, pieces = (t.numpy() for t in top_with_eos(torch.from_numpy(scores.copy()), 6))
    assert pieces.shape == (40, 7)
    assert (np.diff(pieces) > 0).all()  # by id, each once
    assert (pieces == EOS).any(1).all()
    assert np.array_equal(found, np.take_along_axis(scores, pieces, 1))
    for row, ids in zip(scores, pieces, strict=True):
        others = np.argsort(-np.where(np.arange(50) == EOS, -np.inf, row))[:6]
        assert {*ids.tolist()} == {*others.tolist(), EOS}


@pytest.mark.parametrize("value", [0.0, math.nan, -math.inf])
def test_top_of_equal_pieces_are_different_ones(value: float) -> None:
    """Even of logits that are not finite, so that search can say so."""
    scores = torch.full((3, 20), value)
    scores[1, 7:9] = 1.0
    found, pieces = top_with_eos(scores, 4)
    assert found.shape == pieces.shape == (3, 5)
    assert (pieces.diff() > 0).all()
    assert (pieces == EOS).any(1).all()
    assert {7, 8} <= {*pieces[1].tolist()} or math.isnan(value)
