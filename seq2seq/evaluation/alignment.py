"""Word alignments from attention weights.

Legend: T target pieces, S source pieces, both with the end of sentence; t, s words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from seq2seq.data.cleaning import normalize
from seq2seq.errors import DataError
from seq2seq.inference.translation import Part, Translation

Floats = npt.NDArray[np.float64]

END = "</s>"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def word_of_piece(pieces: Sequence[str]) -> list[int]:
    """Return the number of each piece's word; words are what white space separates in the text.

    A piece without anything visible, such as a lone space, belongs to the word after it; what
    belongs to none, as the end of sentence does, has -1.
    """
    raw = [_bytes_of(piece) for piece in pieces]
    if pieces and pieces[-1] == END:
        raw[-1] = b""
    word_of_byte = _words_of_bytes(b"".join(raw))
    numbers, end = [], 0
    for piece in raw:
        start, end = end, end + len(piece)
        numbers.append(next((word for word in word_of_byte[start:end] if word >= 0), -1))
    after = -1
    for place in reversed(range(len(raw))):
        if numbers[place] < 0 and raw[place]:
            numbers[place] = after
        after = numbers[place]
    return numbers


def _bytes_of(piece: str) -> bytes:
    found = _BYTE.fullmatch(piece)
    if found:
        return bytes.fromhex(found[1])
    return b"" if piece in ("<unk>", "<s>", "<pad>") else piece.replace("▁", " ").encode()


def _words_of_bytes(raw: bytes) -> list[int]:
    """Return the word of each byte of a text that is yet to be normalised, -1 between words."""
    numbers: list[int] = []
    word, within = -1, False
    # A byte that is no UTF-8 becomes a character of its own, and that is one visible sign.
    for char in raw.decode("utf-8", "surrogateescape"):
        lone = "\udc80" <= char <= "\udcff"
        size = 1 if lone else len(char.encode())
        space = not lone and normalize(f"a{char}a") == "a a"
        removed = not lone and normalize(f"a{char}a") == "aa"
        if not space and not removed and not within:
            word, within = word + 1, True
        elif space:
            within = False
        numbers += [-1 if space or removed else word] * size
    return numbers


def word_weights(part: Part) -> Floats:
    """Return weights [t, s] between words: sums over source pieces, means over target pieces.

    Raises DataError for a model without attention.
    """
    if part.weights is None:
        raise DataError("no attention weights: the model has attention.score none")
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


def pharaoh(translation: Translation) -> str:
    """Return the links of a line in Pharaoh format, `i-j` for source and target word from 0.

    Words are what white space separates in the normalised source line and in the translation.
    """
    found, target_start = [], 0
    for part in translation.parts:
        found += [(s + part.first_word, t + target_start) for s, t in links(word_weights(part))]
        target_start += len(part.text.split())
    return " ".join(f"{s}-{t}" for s, t in sorted(set(found)))
