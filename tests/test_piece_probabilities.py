"""Log probabilities of single pieces, against the definition and against forced decoding."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest
from conftest import toy_pairs
from hypothesis import given
from hypothesis import strategies as st
from plain_search import log_prob
from prefix_model import prefix_model
from properties import examples

from seq2seq.inference.protocol import SearchOptions
from seq2seq.inference.sampling import Sampling, sample
from seq2seq.inference.search import EOS, search
from seq2seq.inference.translator import Translator


@examples(40)
@given(
    st.integers(0, 1000),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
)
def test_each_piece_has_its_own_probability(
    seed: int, lengths: list[int], beam_size: int, shortens: bool, samples: bool
) -> None:
    model = prefix_model(seed, lengths, shortens=shortens)
    options = SearchOptions(beam_size=beam_size, nbest=beam_size, max_length_offset=6)
    drawn = Sampling(3, seed=seed)
    found = sample(model, options, drawn) if samples else search(model, options)
    for sentence, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            pieces = (*hypothesis.tokens, EOS)
            assert hypothesis.log_probs == pytest.approx(
                [log_prob(model, sentence, pieces[:i], p) for i, p in enumerate(pieces)], abs=1e-5
            )
            assert sum(hypothesis.log_probs) == pytest.approx(hypothesis.log_prob, abs=1e-12)


def test_found_and_forced_probabilities_agree(trained: Path) -> None:
    translator = Translator.load(trained)
    sources = [source for source, _ in toy_pairs(6, 5)]
    options = dataclasses.replace(translator.options(nbest=3), length_penalty=0)
    found = [t.parts[0] for each in translator.translate(sources, options) for t in each]
    forced = translator.force_decode([part.source for part in found], [part.text for part in found])
    pairs = zip(found, forced, strict=True)
    same = [(one, other) for one, other in pairs if one.target_pieces == other.target_pieces]
    assert len(same) > 9
    for one, other in same:
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)
        assert len(one.log_probs) == len(one.target_pieces)
        assert one.score == pytest.approx(sum(one.log_probs), abs=1e-5)
        assert one.as_json(attention=False)["log_probs"] == one.log_probs
    assert all(a <= 0 for a in itertools.chain.from_iterable(part.log_probs for part in found))
