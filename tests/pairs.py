"""Prepared pairs made from a list, without cleaning and shuffling."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq.data.cache import open_cache
from seq2seq.data.dataset import PreparedPairs


class Pair(NamedTuple):
    source: str
    target: str


def prepared(pairs: Sequence[tuple[str, str]]) -> PreparedPairs:
    """Return pairs, in their order, in a temporary cache."""
    import datasets

    def make(folder: Path) -> dict[str, Any]:
        text = datasets.Value("large_string")
        sources, targets = zip(*pairs, strict=True) if pairs else ((), ())
        rows = datasets.Dataset.from_dict(
            {"source": sources, "target": targets},
            features=datasets.Features(source=text, target=text),
        )
        rows.map(lambda row: row, cache_file_name=str(folder / "pairs.arrow"))
        return {"fingerprint": hashlib.sha256(repr(pairs).encode()).hexdigest()}

    datasets.disable_progress_bars()
    cache = open_cache(None)
    return PreparedPairs(cache.entry("pairs", {}, make), cache)


def all_pairs(pairs: PreparedPairs) -> list[tuple[str, str]]:
    """Return the pairs in their order."""
    return [pair for sides in pairs.texts() for pair in zip(*sides, strict=True)]
