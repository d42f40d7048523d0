"""Sampling: frequencies, truncation, and independence of the batch."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_search import log_prob
from prefix_model import EOS, prefix_model
from properties import examples

from seq2seq.errors import ConfigError
from seq2seq.inference.sampling import Sampling, draw, sample
from seq2seq.inference.search import Hypothesis, SearchOptions, search

SHORT = SearchOptions(max_length_factor=0.01, max_length_offset=2)


def outputs(found: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[h.tokens for h in samples] for samples in found]


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_frequencies_match_distribution(temperature: float) -> None:
    model = prefix_model(11, [4])
    num_samples = 5000
    [samples] = sample(model, SHORT, Sampling(num_samples, temperature, seed=3))
    counts = Counter(tuple(h.tokens) for h in samples)

    def share(prefix: tuple[int, ...], piece: int) -> float:
        logits = model.logits(0, (2, *prefix))
        masses = {p: math.exp(logits[p] / temperature) for p in (EOS, 4, 5, 6)}
        return masses[piece] / sum(masses.values())

    words = (4, 5, 6)
    expected = {(): share((), EOS)}
    expected |= {(a,): share((), a) * share((a,), EOS) for a in words}
    expected |= {(a, b): share((), a) * share((a,), b) for a in words for b in words}
    assert sum(expected.values()) == pytest.approx(1)
    assert counts.keys() <= expected.keys()
    chi_square = sum(
        (counts[tokens] - num_samples * p) ** 2 / (num_samples * p)
        for tokens, p in expected.items()
    )
    freedom = len(expected) - 1
    assert chi_square < freedom + 4 * math.sqrt(2 * freedom)


def test_log_probs_are_those_of_the_model() -> None:
    model = prefix_model(11, [4])
    [samples] = sample(model, SHORT, Sampling(20, temperature=0.3, top_k=2, seed=3))
    for h in samples:
        pieces = [*h.tokens, EOS]
        total = sum(log_prob(model, 0, tuple(pieces[:i]), pieces[i]) for i in range(len(pieces)))
        assert h.log_prob == pytest.approx(total)
        assert h.score == pytest.approx(total / ((5 + len(pieces)) / 6))


def test_one_candidate_matches_greedy() -> None:
    model = prefix_model(12, [4, 2, 7])
    options = SearchOptions()
    for one in ({"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-3}):
        found = sample(model, options, Sampling(2, **one))  # type: ignore[arg-type]
        best = search(model, SearchOptions(beam_size=1))
        assert outputs(found) == [[h.tokens] * 2 for [h] in best]


def test_seed_determines_samples() -> None:
    model = prefix_model(13, [4, 2, 7])
    options = SearchOptions()
    first = outputs(sample(model, options, Sampling(8, seed=1)))
    assert first == outputs(sample(model, options, Sampling(8, seed=1)))
    assert first != outputs(sample(model, options, Sampling(8, seed=2)))
    assert len({tuple(tokens) for tokens in first[0]}) > 1


def test_samples_do_not_depend_on_batch_or_number() -> None:
    model = prefix_model(13, [4, 2, 7, 1])
    options = SearchOptions(keep_weights=True, no_repeat_ngram=2, coverage_penalty=0.1)
    keys = [50, 7, 9, 3]
    together = sample(model, options, Sampling(6, seed=1), keys=keys)
    for order in ([2, 0, 3], [1]):
        part = model.select(np.array(order))
        some = sample(part, options, Sampling(3, seed=1), keys=[keys[s] for s in order])
        for sentence, found in zip(order, some, strict=True):
            assert [h.tokens for h in found] == [h.tokens for h in together[sentence][:3]]
            for one, other in zip(found, together[sentence], strict=False):
                assert one.score == pytest.approx(other.score, abs=1e-12)
                np.testing.assert_array_equal(one.weights, other.weights)


@examples(40)
@given(
    st.integers(0, 1000),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.sampled_from([0.3, 1.0, 5.0]),
    st.integers(0, 8),
    st.sampled_from([1e-6, 0.4, 1.0]),
    st.integers(1, 4),
    st.booleans(),
)
def test_samples_are_legal_with_the_models_probability(
    seed: int,
    lengths: list[int],
    temperature: float,
    top_k: int,
    top_p: float,
    number: int,
    allow_unk: bool,
) -> None:
    model = prefix_model(seed, lengths)
    options = SearchOptions(
        max_length_factor=1.0, max_length_offset=2, no_repeat_ngram=2, allow_unk=allow_unk
    )
    drawing = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    found = sample(model, options, Sampling(number, seed=seed, **drawing))  # type: ignore[arg-type]
    for sentence, (length, samples) in enumerate(zip(lengths, found, strict=True)):
        assert len(samples) == number
        for h in samples:
            assert set(h.tokens) <= ({1, 4, 5, 6} if allow_unk else {4, 5, 6})
            assert len(h.tokens) <= length + 2
            pairs = list(itertools.pairwise(h.tokens))
            assert len(set(pairs)) == len(pairs)
            ended = (*h.tokens, EOS)
            total = sum(
                log_prob(model, sentence, ended[:n], piece) for n, piece in enumerate(ended)
            )
            assert h.log_prob == pytest.approx(total, abs=1e-9)


def test_finished_rows_and_sentences_leave_the_batch() -> None:
    model = prefix_model(13, [4, 2, 7, 1])
    sample(model, SearchOptions(), Sampling(6, seed=1))
    assert model.log[0] == (4, 24)
    rows = [rows for _, rows in model.log]
    assert rows == sorted(rows, reverse=True)
    assert rows[-1] < 6


@pytest.mark.parametrize(
    ("cut", "shares"),
    [
        ({}, [0.15, 0.5, 0.0, 0.05, 0.3]),
        ({"top_k": 2}, [0, 0.625, 0, 0, 0.375]),
        ({"top_p": 0.79}, [0, 0.625, 0, 0, 0.375]),
        ({"top_p": 0.81}, [0.15 / 0.95, 0.5 / 0.95, 0, 0, 0.3 / 0.95]),
        ({"top_p": 0.3}, [0, 1, 0, 0, 0]),
        ({"top_k": 3, "top_p": 0.6}, [0, 0.625, 0, 0, 0.375]),
    ],
)
def test_draw_follows_probabilities(cut: dict[str, float], shares: list[float]) -> None:
    with np.errstate(divide="ignore"):
        logits = np.log([0.15, 0.5, 0.0, 0.05, 0.3]) + 2
    uniforms = np.arange(10_000) / 10_000
    drawn = draw(np.tile(logits, (10_000, 1)), uniforms, **cut)  # type: ignore[arg-type]
    assert np.bincount(drawn, minlength=5) / 10_000 == pytest.approx(shares, abs=2e-4)


@pytest.mark.parametrize("top_p", [0.3, 0.9, 0.999])
def test_nucleus_of_many_pieces(top_p: float) -> None:
    logits = np.random.default_rng(1).normal(size=600)
    probs = np.exp(logits) / np.exp(logits).sum()
    order = np.argsort(-probs)
    size = int((probs[order].cumsum() < top_p).sum()) + 1
    uniforms = np.arange(4_000) / 4_000
    drawn = draw(np.tile(logits, (4_000, 1)), uniforms, top_p=top_p)
    counts = np.bincount(drawn, minlength=600)[order]
    shares = probs[order][:size] / probs[order][:size].sum()
    assert counts[:size] / 4_000 == pytest.approx(shares, abs=1.01 / 4_000)
    assert counts[size:].sum() == 0


def test_draw_never_returns_impossible_piece() -> None:
    logits = np.tile([-math.inf, 0.0, -math.inf, 1.0, -math.inf], (3, 1))
    uniforms = np.array([0.0, 1 - 2**-53, 1.0])
    for cut in ({}, {"top_k": 4}, {"top_p": 0.999}):
        assert set(draw(logits, uniforms, **cut).tolist()) <= {1, 3}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", 0.0), ("temperature", 1e-9), ("temperature", 1e9), ("top_k", -1),
     ("top_p", 0.0), ("num_samples", 0), ("seed", -1)],
)  # fmt: skip
def test_values_out_of_range_raise(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{name}: expected .*, found {value}"):
        Sampling(**{name: value})  # type: ignore[arg-type]


def test_nonfinite_logits_raise() -> None:
    model = prefix_model(5, [3, 2], sharpness=math.nan)
    for top_k in (0, 2):
        with pytest.raises(FloatingPointError, match="not finite"):
            sample(model, SHORT, Sampling(top_k=top_k))


def test_blocked_pieces_leave_the_end() -> None:
    """Copies that have ended hold EOS, which must not be blocked for them at the limit."""
    model = prefix_model(3, [2, 2], eos_bias=1.0)
    options = SearchOptions(max_length_factor=0.01, max_length_offset=2, no_repeat_ngram=1)
    with np.errstate(all="raise", under="ignore"):
        found = sample(model, options, Sampling(40, temperature=3.0))
    assert all(len(samples) == 40 for samples in found)
