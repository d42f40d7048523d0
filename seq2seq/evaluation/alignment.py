"""Word alignments from attention weights.

Legend: T target pieces, S source pieces, both with the end of sentence; t, s words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from seq2seq.data.cleaning import normalize
from seq2seq.errors import DataError
from seq2seq.inference.translation import Part, Translation

Floats = npt.NDArray[np.float64]
Split = Callable[[str], list[str]]  # a text's words, in order, each as it stands in the text

END = "</s>"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def word_of_piece(pieces: Sequence[str], split: Split = str.split) -> list[int]:
    """Return the number of each piece's word, of the first one where it holds several.

    Words are what white space separates in the text, or what `split` finds. A piece without
    anything visible, such as a lone space, belongs to the word after it; what belongs to none, as
    the end of sentence does, has -1.
    """
    return [words[0] if words else -1 for words in _words_of_pieces(pieces, split)]


def _words_of_pieces(pieces: Sequence[str], split: Split) -> list[list[int]]:
    """Return the numbers of the words that each piece holds something of."""
    raw = [_bytes_of(piece) for piece in pieces]
    if pieces and pieces[-1] == END:
        raw[-1] = b""
    word_of_byte = _words_of_bytes(b"".join(raw), split)
    found, end = [], 0
    for piece in raw:
        start, end = end, end + len(piece)
        found.append(sorted({word for word in word_of_byte[start:end] if word >= 0}))
    after: list[int] = []
    for place in reversed(range(len(raw))):
        if not found[place] and raw[place]:
            found[place] = after
        after = found[place][:1]
    return found


def _bytes_of(piece: str) -> bytes:
    found = _BYTE.fullmatch(piece)
    if found:
        return bytes.fromhex(found[1])
    if piece == "<unk>":  # signs that the tokenizer does not know, but they are in the text
        return "\ufffd".encode()
    return b"" if piece in ("<s>", "<pad>") else piece.replace("▁", " ").encode()


def _words_of_bytes(raw: bytes, split: Split) -> list[int]:
    """Return the word of each byte of a text that is yet to be normalised, -1 between words."""
    # A byte that is no UTF-8 becomes a character of its own, and that is one visible sign.
    chars = raw.decode("utf-8", "surrogateescape")
    shown = [_shown(char) for char in chars]
    text = "".join(shown)
    word_of_char, end = [-1] * len(text), 0
    for number, word in enumerate(split(text)):
        start = text.index(word, end)
        end = start + len(word)
        word_of_char[start:end] = [number] * len(word)
    waiting = iter(word_of_char)
    numbers: list[int] = []
    for char, seen in zip(chars, shown, strict=True):
        size = len(char.encode("utf-8", "surrogateescape"))
        numbers += [next(waiting) if seen else -1] * size
    return numbers


@lru_cache(4096)
def _shown(char: str) -> str:
    """Return what a character is once the text is normalised: itself, a space or nothing."""
    if "\udc80" <= char <= "\udcff":
        return char
    return {"aa": "", "a a": " "}.get(normalize(f"a{char}a"), char)


def word_weights(part: Part, split: Split = str.split) -> Floats:
    """Return weights [t, s] between words: sums over source pieces, means over target pieces.

    A piece that holds several words counts for each, on the source side with an equal share.
    Raises DataError for a model without attention.
    """
    if part.weights is None:
        raise DataError("no attention weights: the model has attention.score none")
    weights_TS = part.weights.double().numpy()
    to_source = _membership(part.source_pieces, split)
    to_source /= np.maximum(to_source.sum(0), 1)
    to_target = _membership(part.target_pieces, split)
    counts = to_target.sum(1, keepdims=True)
    merged: Floats = to_target @ weights_TS @ to_source.T / np.maximum(counts, 1)
    return merged


def _membership(pieces: Sequence[str], split: Split) -> Floats:
    """Return for each word and piece 1 where the piece holds something of the word, else 0."""
    words = _words_of_pieces(pieces, split)
    numbers = np.arange(max((word for held in words for word in held), default=-1) + 1)
    columns = [np.isin(numbers, held) for held in words]
    return np.stack(columns, 1).astype(np.float64) if columns else np.zeros((0, 0))


def links(weights: Floats) -> list[tuple[int, int]]:
    """Return (source word, target word) links: each target word with its heaviest source word."""
    if not weights.size:
        return []
    return [(int(s), t) for t, s in enumerate(weights.argmax(1))]


def links_above(weights: Floats, threshold: float) -> list[tuple[int, int]]:
    """Return (source word, target word) links: all whose weight is the threshold at least."""
    return [(int(s), int(t)) for t, s in np.argwhere(weights >= threshold)]


def pharaoh(translation: Translation) -> str:
    """Return the links of a line in Pharaoh format, `i-j` for source and target word from 0.

    Words are what white space separates in the normalised source line and in the translation.
    """
    found, target_start = [], 0
    for part in translation.parts:
        found += [(s + part.first_word, t + target_start) for s, t in links(word_weights(part))]
        target_start += len(part.text.split())
    return " ".join(f"{s}-{t}" for s, t in sorted(set(found)))
