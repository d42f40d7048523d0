"""Prepared pairs made from a list, without cleaning and shuffling."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq.data import corpus
from seq2seq.data.arrow import write_pairs
from seq2seq.data.cache import open_cache
from seq2seq.data.dataset import PreparedPairs


class Pair(NamedTuple):
    source: str
    target: str


def prepared(pairs: Sequence[tuple[str, str]], corpora: Sequence[int] = ()) -> PreparedPairs:
    """Return pairs, in their order, in a temporary cache; perhaps with each one's corpus."""
    numbers = corpora or [0] * len(pairs)

    def make(folder: Path) -> dict[str, Any]:
        numbered = zip(pairs, numbers, strict=True)
        rows = (corpus.Pair(*pair, corpus=number) for pair, number in numbered)
        write_pairs(rows, folder / "pairs.arrow")
        fingerprint = hashlib.sha256(repr(pairs).encode()).hexdigest()
        return {"fingerprint": fingerprint, "pairs": len(pairs)}

    cache = open_cache(None)
    return cache.entry("pairs", {}, make, lambda entry: PreparedPairs(entry, cache))


def all_pairs(pairs: PreparedPairs) -> list[tuple[str, str]]:
    """Return the pairs in their order."""
    return [pair for sides in pairs.texts() for pair in zip(*sides, strict=True)]
