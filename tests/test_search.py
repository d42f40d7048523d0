"""Greedy and beam search against enumeration and a plain beam search, both without tensors."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_search import enumerate_all, plain_beam
from prefix_model import BOS, EOS, PIECES, PrefixModel, greedy, prefix_model
from properties import examples

from seq2seq.errors import ConfigError
from seq2seq.inference.search import Hypothesis, SearchOptions, beam_search

WIDE = 700  # more than there are sequences of four pieces and fewer

any_options = st.builds(
    SearchOptions,
    length_penalty=st.sampled_from([0.0, 0.6, 1.0, 1.7]),
    coverage_penalty=st.sampled_from([0.0, 0.2, 1.0]),
    max_length_factor=st.sampled_from([0.01, 0.5]),
    max_length_offset=st.integers(1, 2),
    no_repeat_ngram=st.integers(0, 3),
    allow_unk=st.booleans(),
)
any_model = st.builds(
    prefix_model,
    st.integers(0, 1000),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    sharpness=st.sampled_from([0.5, 2.0]),
    eos_bias=st.sampled_from([-2.0, 0.0, 1.0]),
    shortens=st.booleans(),
)


def same(found: list[Hypothesis], expected: list[tuple[float, tuple[int, ...]]]) -> None:
    assert [tuple(h.tokens) for h in found] == [tokens for _, tokens in expected]
    assert [h.score for h in found] == pytest.approx([score for score, _ in expected], abs=1e-9)


@examples(60)
@given(any_model, any_options, st.sampled_from([1, 3, 20]))
def test_wide_beam_matches_enumeration(
    model: PrefixModel, options: SearchOptions, nbest: int
) -> None:
    wide = dataclasses.replace(options, beam_size=WIDE, nbest=nbest)
    for sentence, found in enumerate(beam_search(model, wide)):
        length = int(model.source_lengths_B[sentence])
        same(found, enumerate_all(model, sentence, length, options)[:nbest])


@examples(60)
@given(any_model, any_options, st.integers(1, 6), st.data())
def test_narrow_beam_matches_plain_beam(
    model: PrefixModel, options: SearchOptions, beam_size: int, data: st.DataObject
) -> None:
    """The plain beam never stops early, so this shows that stopping early loses nothing."""
    nbest = data.draw(st.integers(1, beam_size))
    options = dataclasses.replace(
        options, beam_size=beam_size, nbest=nbest, max_length_factor=1.0, max_length_offset=4
    )
    for sentence, found in enumerate(beam_search(model, options)):
        length = int(model.source_lengths_B[sentence])
        same(found, plain_beam(model, sentence, length, options)[:nbest])


@examples(40)
@given(any_model, any_options)
def test_greedy_matches_beam_of_one(model: PrefixModel, options: SearchOptions) -> None:
    options = dataclasses.replace(options, beam_size=1, max_length_offset=8, keep_weights=True)
    for one, other in zip(greedy(model, options), beam_search(model, options), strict=True):
        assert len(one) == len(other) == 1
        assert one[0].tokens == other[0].tokens
        assert one[0].score == other[0].score
        assert one[0].finished == other[0].finished
        np.testing.assert_array_equal(one[0].weights, other[0].weights)


@examples(30)
@given(st.integers(0, 100), st.permutations([1, 2, 3, 4, 5]), st.integers(1, 4), st.booleans())
def test_results_do_not_depend_on_batch_or_order(
    seed: int, order: list[int], beam_size: int, tied: bool
) -> None:
    options = SearchOptions(
        beam_size=beam_size, nbest=beam_size, coverage_penalty=0.2, no_repeat_ngram=3
    )
    model = prefix_model(seed, [1, 9, 2, 4, 4, 7], sharpness=0.0 if tied else 1.0)
    for search in (greedy, beam_search):
        together = search(model.select(np.array(order)), options)
        for sentence, found in zip(order, together, strict=True):
            [alone] = search(model.select(np.array([sentence])), options)
            assert [h.tokens for h in found] == [h.tokens for h in alone]
            assert [h.score for h in found] == pytest.approx([h.score for h in alone], abs=1e-12)


@examples(40)
@given(any_model, any_options, st.integers(1, 8))
def test_hypotheses_are_sorted_distinct_and_legal(
    model: PrefixModel, options: SearchOptions, beam_size: int
) -> None:
    options = dataclasses.replace(
        options, beam_size=beam_size, nbest=beam_size, max_length_offset=7
    )
    for length, found in zip(
        model.source_lengths_B.tolist(), beam_search(model, options), strict=True
    ):
        limit = math.floor(options.max_length_factor * length) + 7
        scores = [h.score for h in found]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(h.tokens) for h in found}) == len(found) == beam_size
        for h in found:
            assert set(h.tokens) <= ({1, 4, 5, 6} if options.allow_unk else {4, 5, 6})
            assert len(h.tokens) <= limit
            if size := options.no_repeat_ngram:
                ngrams = [tuple(h.tokens[i : i + size]) for i in range(len(h.tokens) - size + 1)]
                assert len(set(ngrams)) == len(ngrams)


@pytest.mark.parametrize("search", [greedy, beam_search])
def test_length_limit_marks_hypothesis_unfinished(search) -> None:  # type: ignore[no-untyped-def]
    options = SearchOptions(max_length_factor=1.5, max_length_offset=2)
    endless = prefix_model(1, [1, 2, 5], eos_bias=-100.0)
    for limit, [found] in zip([3, 5, 9], search(endless, options), strict=True):
        assert len(found.tokens) == limit
        assert not found.finished
        assert found.log_prob < -90  # EOS is forced, at its own probability
    brief = prefix_model(1, [1, 2, 5], eos_bias=100.0)
    for [found] in search(brief, options):
        assert found.tokens == []
        assert found.finished


def test_eos_preferred_at_the_limit_is_finished() -> None:
    model = prefix_model(1, [1])
    real = model.logits

    def logits(sentence: int, prefix: tuple[int, ...]):  # type: ignore[no-untyped-def]
        return real(sentence, prefix) + (100 if len(prefix) == 3 else -100) * (
            np.arange(PIECES) == EOS
        )

    model.logits = logits  # type: ignore[method-assign]
    [[found]] = greedy(model, SearchOptions(max_length_factor=0.01, max_length_offset=2))
    assert len(found.tokens) == 2
    assert found.finished


@pytest.mark.parametrize(("search", "rows"), [(greedy, 1), (beam_search, 3)])
def test_finished_sentences_leave_the_batch(search, rows) -> None:  # type: ignore[no-untyped-def]
    endless = prefix_model(1, [2, 6, 4], eos_bias=-100.0)
    options = SearchOptions(beam_size=3, max_length_factor=1.0, max_length_offset=1)
    search(endless, options)
    sentences = [3, 3, 3, 3, 2, 2, 1, 1]
    assert endless.log == [(3, 3), *((n, n * rows) for n in sentences[1:])]


def test_finished_hypotheses_leave_their_sentence() -> None:
    model = prefix_model(3, [6])
    beam_search(model, SearchOptions(beam_size=20, nbest=20))
    rows = [rows for _, rows in model.log]
    assert rows[:2] == [1, 3]
    assert max(rows) < 20
    assert rows[-1] < max(rows)


def test_search_stops_when_the_best_is_certain() -> None:
    certain = prefix_model(1, [5], eos_bias=8.0)
    beam_search(certain, SearchOptions(beam_size=5))
    assert len(certain.log) == 1


@pytest.mark.parametrize("search", [greedy, beam_search])
def test_weights_match_each_step(search) -> None:  # type: ignore[no-untyped-def]
    model = prefix_model(5, [3, 1, 6, 4])
    found = search(model, SearchOptions(beam_size=4, nbest=4, keep_weights=True))
    for sentence, length in enumerate([3, 1, 6, 4]):
        for h in found[sentence]:
            prefixes = [(BOS, *h.tokens[:i]) for i in range(len(h.tokens) + 1)]
            rows = [model.weights(sentence, prefix, length) for prefix in prefixes]
            assert h.weights is not None
            np.testing.assert_array_equal(h.weights, np.array(rows))
    assert search(model, SearchOptions(beam_size=4))[0][0].weights is None


def test_model_without_attention() -> None:
    model = prefix_model(5, [3, 1], attends=False)
    for h in itertools.chain(*beam_search(model, SearchOptions(keep_weights=True))):
        assert h.weights is None
    with pytest.raises(ConfigError, match="coverage_penalty=0"):
        beam_search(model, SearchOptions(coverage_penalty=0.1))


def test_impossible_pieces_are_never_chosen() -> None:
    model = prefix_model(5, [3], sharpness=1.0)
    model.logits = lambda *_: [0, 0, 0, 2.0, -math.inf, -math.inf, 0]  # type: ignore
    found = beam_search(model, SearchOptions(beam_size=5, nbest=5))[0]
    assert sorted(h.tokens for h in found) == [[6] * n for n in range(5)]


@pytest.mark.parametrize("search", [greedy, beam_search])
def test_nonfinite_logits_raise(search) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FloatingPointError, match="not finite"):
        search(prefix_model(5, [3, 2], sharpness=math.nan), SearchOptions())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"beam_size": 0}, "beam_size: expected 1 or more, found 0"),
        ({"length_penalty": -0.5}, "length_penalty: expected 0.0 or more, found -0.5"),
        ({"coverage_penalty": math.nan}, "coverage_penalty: expected a finite number, found NaN"),
        ({"nbest": 6}, "nbest: 6 is more than beam_size 5"),
    ],
)
def test_options_out_of_range_raise(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SearchOptions(**wrong)  # type: ignore[arg-type]
