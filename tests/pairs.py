"""Prepared pairs made from a list, without cleaning and shuffling."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seq2seq.data.cache import open_cache
from seq2seq.data.dataset import PreparedPairs
from seq2seq.data.ragged import TEXT, Ragged, write_pairs


class Pair(NamedTuple):
    source: str
    target: str


def prepared(pairs: Sequence[tuple[str, str]], corpora: Sequence[int] = ()) -> PreparedPairs:
    """Return pairs, in their order, in a temporary cache; perhaps with each one's corpus."""
    sources, targets = zip(*pairs, strict=True)

    def make(folder: Path) -> dict[str, Any]:
        write_pairs(folder, [(Ragged.from_texts(sources), Ragged.from_texts(targets))], TEXT)
        np.array(corpora or [0] * len(pairs), np.uint8).tofile(folder / "corpora")
        return {"fingerprint": hashlib.sha256(repr(pairs).encode()).hexdigest()}

    cache = open_cache(None)
    return cache.entry("pairs", {}, make, lambda entry: PreparedPairs(entry, cache))


def all_pairs(pairs: PreparedPairs) -> list[tuple[str, str]]:
    """Return the pairs in their order."""
    return [pair for sides in pairs.texts() for pair in zip(*sides, strict=True)]
