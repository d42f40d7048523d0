"""Word alignments from attention weights.

Legend: T target pieces, S source pieces, both with the end of sentence; t, s words.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from seq2seq.inference.translator import Part

Floats = npt.NDArray[np.float64]


def word_of_piece(pieces: list[str]) -> list[int]:
    """Return the number of each piece's word; words are what white space separates.

    The end of sentence belongs to no word: -1.
    """
    numbers, word = [], -1
    for place, piece in enumerate(pieces):
        if piece == "</s>" and place == len(pieces) - 1:
            numbers.append(-1)
            continue
        word += piece.startswith("▁") or word < 0
        numbers.append(word)
    return numbers


def word_weights(part: Part) -> Floats:
    """Return weights [t, s] between words: sums over source pieces, means over target pieces."""
    assert part.weights is not None
    weights_TS = part.weights.double().numpy()
    source, target = word_of_piece(part.source_pieces), word_of_piece(part.target_pieces)
    to_source = np.equal.outer(source, np.arange(max(source, default=-1) + 1)).astype(float)
    to_target = np.equal.outer(np.arange(max(target, default=-1) + 1), target).astype(float)
    counts = to_target.sum(1, keepdims=True)
    merged: Floats = to_target @ weights_TS @ to_source / np.maximum(counts, 1)
    return merged


def links(weights: Floats) -> list[tuple[int, int]]:
    """Return (source word, target word) links: each target word with its heaviest source word."""
    if not weights.size:
        return []
    return [(int(s), t) for t, s in enumerate(weights.argmax(1))]


def pharaoh(parts: list[Part]) -> str:
    """Return the links of a line in Pharaoh format, `i-j` for source and target word from 0."""
    found, source_start, target_start = [], 0, 0
    for part in parts:
        found += [(s + source_start, t + target_start) for s, t in links(word_weights(part))]
        source_start += len(part.source.split())
        target_start += len(part.text.split())
    return " ".join(f"{s}-{t}" for s, t in sorted(found))
