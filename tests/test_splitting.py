"""No sentence is on two sides of a split, and rows hold all that is known of their source."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.tatoeba.prepare import MAX_GROUP, Split, group_pairs, split_pairs
from seq2seq.data.cleaning import fold
from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError


def folded(pairs: Sequence[Pair]) -> tuple[set[str], set[str]]:
    targets = {fold(text) for pair in pairs for text in (pair.target, *pair.references)}
    return {fold(pair.source) for pair in pairs}, targets


def assert_no_leak(split: Split) -> None:
    sides = [folded(side) for side in (split.train, split.valid, split.test)]
    for index, (sources, targets) in enumerate(sides):
        for other_sources, other_targets in sides[index + 1 :]:
            assert not sources & other_sources
            assert not targets & other_targets


NAME = st.sampled_from([f"{word}{mark}" for word in "abcdefghijklmnopqrstuv" for mark in ("", "!")])


@given(st.lists(st.builds(Pair, NAME, NAME), unique=True), st.integers(1, 3), st.integers(1, 3))
def test_split_never_leaks(pairs: list[Pair], valid: int, test: int) -> None:
    try:
        split = split_pairs(pairs, valid=valid, test=test, seed=1)
    except DataError:
        groups = group_pairs(pairs)
        eligible = sum(len(group) <= MAX_GROUP for group in groups)
        assert eligible < valid + test or len(groups) == valid + test
        return
    assert_no_leak(split)
    assert (len(split.valid), len(split.test)) == (valid, test)
    assert split.train
    assert split.train == [pair for pair in pairs if pair in split.train]
    assert len(split.train) + split.held_out_pairs == len(pairs)
    for row in split.valid + split.test:
        for target in (row.target, *row.references):
            assert Pair(row.source, target) in pairs
        assert len({row.target, *row.references}) == 1 + len(row.references)


@given(st.lists(st.builds(Pair, NAME, NAME), min_size=1))
def test_groups_are_the_connected_parts(pairs: list[Pair]) -> None:
    groups = group_pairs(pairs)
    assert sorted(index for group in groups for index in group) == list(range(len(pairs)))
    sides = [folded([pairs[index] for index in group]) for group in groups]
    for index, (sources, targets) in enumerate(sides):
        for other_sources, other_targets in sides[index + 1 :]:
            assert not sources & other_sources
            assert not targets & other_targets
    for group in groups:  # linked: growing from one pair reaches all
        reached, rest = [pairs[group[0]]], [pairs[index] for index in group[1:]]
        while linked := [pair for pair in rest if _links(pair, reached)]:
            reached += linked
            rest = [pair for pair in rest if pair not in linked]
        assert not rest


def _links(pair: Pair, pairs: Sequence[Pair]) -> bool:
    sources, targets = folded(pairs)
    return fold(pair.source) in sources or fold(pair.target) in targets


def test_rows_hold_all_targets_of_one_source() -> None:
    group = [Pair("Ve.", "Go."), Pair("Ve.", "Go!"), Pair("Vete.", "Go."), Pair("Ve.", "Walk.")]
    rest = [Pair(f"Frase {n}.", f"Sentence {n}.") for n in range(3)]
    rows = set()
    for seed in range(60):
        split = split_pairs(group + rest, valid=1, test=2, seed=seed)
        rows |= {row for row in split.valid + split.test if row.source.startswith("V")}
    assert rows == {Pair("Ve.", "Go.", ("Go!", "Walk.")), Pair("Vete.", "Go.")}


def test_giant_groups_stay_in_train() -> None:
    giant = [Pair("Ve.", f"Go {n}.") for n in range(MAX_GROUP + 1)]
    rest = [Pair(f"Frase {n}.", f"Sentence {n}.") for n in range(4)]
    split = split_pairs(giant + rest, valid=2, test=2, seed=1)
    assert split.train == giant
    assert split.largest_group == MAX_GROUP + 1
    with pytest.raises(DataError, match="form 5 groups that share no sentence, 4 of them"):
        split_pairs(giant + rest, valid=3, test=2, seed=1)


def test_groups_of_the_limit_are_drawn() -> None:
    pairs = [Pair("Ve.", f"Go {n}.") for n in range(MAX_GROUP)] + [Pair("Hola.", "Hello.")]
    sources = {split_pairs(pairs, valid=1, test=0, seed=seed).valid[0].source for seed in range(20)}
    assert sources == {"Ve.", "Hola."}


def test_seeds_draw_differently_and_again() -> None:
    pairs = [Pair(f"Frase {n}.", f"Sentence {n}.") for n in range(50)]
    one, same, other = (split_pairs(pairs, valid=5, test=5, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one.valid != other.valid
