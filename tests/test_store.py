from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.config import TokenizerConfig
from seq2seq.data.blocks import BLOCK_ROWS, Blocks, shuffle, write_blocks
from seq2seq.data.cache import Cache, open_cache
from seq2seq.data.store import PairStore, pair_batch, write_pairs
from seq2seq.data.tokenizer import train_tokenizer


class Pair(NamedTuple):
    source: str
    target: str


def store_of(pairs: Sequence[tuple[str, str]], folder: Path | None = None) -> PairStore:
    """Return pairs as the store of a cache in a folder, or in a temporary one."""
    cache = Cache(folder) if folder else open_cache(None)
    batches = (
        pair_batch(*zip(*pairs[start : start + 100], strict=True))
        for start in range(0, len(pairs), 100)
    )
    entry = cache.entry("pairs", {"pairs": pairs}, lambda path: write_pairs(path, batches))
    return PairStore(entry, cache)


def all_pairs(store: PairStore) -> list[tuple[str, str]]:
    """Return the pairs in the order of the store."""
    return [pair for sides in store.texts() for pair in zip(*sides, strict=True)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.text(), st.text()), max_size=20))
def test_the_store_gives_back_its_texts(tmp_path_factory, pairs):
    store = store_of(pairs, tmp_path_factory.mktemp("store"))
    assert len(store) == len(pairs)
    assert sorted(all_pairs(store)) == sorted(pairs)
    again = store_of(pairs, tmp_path_factory.mktemp("store"))
    assert again.fingerprint() == store.fingerprint()
    assert all_pairs(again) == all_pairs(store)


def test_the_fingerprint_sees_texts_their_borders_and_their_order(tmp_path):
    variants = [[("ab", "c")], [("a", "bc")], [("ab", "d")], [("ab", "c"), ("x", "y")]]
    variants.append(variants[-1][::-1])
    prints = [
        store_of(variant, tmp_path / str(n)).fingerprint() for n, variant in enumerate(variants)
    ]
    assert len(set(prints)) == len(variants)


@pytest.mark.parametrize("rows", [1, 8, 512, BLOCK_ROWS])
def test_stretches_are_those_rows_as_texts_and_as_ids(tmp_path, rows):
    generator = random.Random(3)
    words = [f"pal{n}" for n in range(50)]
    texts = [" ".join(generator.choices(words, k=generator.randint(0, 9))) for _ in range(5000)]
    store = store_of(list(zip(texts[:2500], texts[2500:], strict=True)), tmp_path)
    tokenizer = train_tokenizer(texts, config=TokenizerConfig(), vocab_size=320, name="source")
    ids = store.encode((tokenizer, tokenizer), processes=2)
    pairs = all_pairs(store)
    starts = [0, 2 * rows, 2500 // rows * rows, rows, (2499 // rows) * rows]
    expected = [pair for start in starts for pair in pairs[start : start + rows]]
    sources, targets = store.read(starts, rows)
    assert list(zip(sources, targets, strict=True)) == expected
    for side, found in zip((sources, targets), ids.read(starts, rows), strict=True):
        bounds = itertools.pairwise(found.offsets.tolist())
        assert [found.flat[a:b].tolist() for a, b in bounds] == tokenizer.encode_batch(side)
    lengths = [max(len(tokenizer.encode(side)) for side in pair) for pair in pairs]
    for most in (0, 3, 7, 100):
        assert ids.count_fitting(most) == sum(length <= most for length in lengths)


def numbers(count: int, size: int) -> Iterable:
    texts = [str(n) for n in range(count)]
    return (
        pair_batch(texts[start : start + size], texts[start : start + size])
        for start in range(0, count, size)
    )


def test_shuffling_in_many_runs_gives_every_row_once_and_each_order_a_chance(tmp_path, monkeypatch):
    monkeypatch.setattr("seq2seq.data.blocks._RUN_ROWS", 1000)

    def shuffled(seed: int, count: int = 5000) -> list[int]:
        schema = pair_batch([], []).schema
        blocks = shuffle(numbers(count, 300), schema, tmp_path / "aside", seed=seed)
        write_blocks(tmp_path / "rows", schema, blocks)
        found = Blocks(tmp_path / "rows")
        sizes = [len(block) for block in found.read(range(found.number))]
        assert sizes[:-1] == [BLOCK_ROWS] * (len(sizes) - 1)
        assert found.num_rows == count
        assert not (tmp_path / "aside").exists()
        rows = found.read(range(found.number))
        return [int(text) for block in rows for text in block.column(0).to_pylist()]

    first = shuffled(1)
    assert sorted(first) == list(range(5000))
    assert shuffled(1) == first != shuffled(2)
    # Mean places of the first and the last run: each is uniform, with a deviation of 46.
    for run in (range(1000), range(4000, 5000)):
        mean = sum(place for place, row in enumerate(first) if row in run) / 1000
        assert abs(mean - 2500) < 4 * 46
    # Neighbours do not stay together: of 4999, two are expected to follow each other.
    assert sum(b - a == 1 for a, b in itertools.pairwise(first)) < 10
    assert shuffled(1, 0) == []
