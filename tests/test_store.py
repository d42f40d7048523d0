from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.data.store import PairStore


class Pair(NamedTuple):
    source: str
    target: str


@given(st.lists(st.tuples(st.text(), st.text()), max_size=20))
def test_the_store_gives_back_its_texts(pairs):
    store = PairStore(Pair(*pair) for pair in pairs)
    assert len(store) == len(pairs)
    assert [store[i] for i in range(len(store))] == pairs
    assert list(zip(*store.texts(range(len(store))), strict=True)) == pairs
    lengths = [max(len(text.encode()) for text in pair) for pair in pairs]
    assert store.num_bytes().tolist() == lengths
    with pytest.raises(IndexError):
        store[len(pairs)]


def test_the_fingerprint_sees_texts_their_borders_and_their_order():
    variants = [[("ab", "c")], [("a", "bc")], [("ab", "d")], [("ab", "c"), ("x", "y")]]
    variants.append(variants[-1][::-1])
    prints = [PairStore(Pair(*pair) for pair in variant).fingerprint() for variant in variants]
    assert len(set(prints)) == len(variants)
