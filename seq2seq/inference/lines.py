"""Lines of text to sentences that a model can take, and their translations back to lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

from seq2seq.data.cleaning import normalize
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import DataError

# Where a long line may be cut, best first: sentence ends, clause marks, spaces, anywhere.
_CUTS = (r"(?<=[.!?…。！？])\s+", r"(?<=[,;:–—])\s+", r"\s+")


def split_line(
    line: str, tokenizer: Tokenizer, max_pieces: int, *, number: int, refuse: bool = False
) -> list[str]:
    """Return the parts of a line that are translated one by one; an empty line has none.

    A line of at most max_pieces is one part. A longer one is cut at sentence ends, then at clause
    marks, then at spaces, then anywhere, as little as needed; nothing is left out. With `refuse`
    it raises DataError instead.
    """
    text = normalize(line)
    if not text:
        return []
    if _fits(text, tokenizer, max_pieces):
        return [text]
    if refuse:
        raise DataError(
            f"line {number}: longer than {max_pieces} pieces; shorten it, raise "
            "inference.max_source_length, or let it be split (--long split)"
        )
    return _cut(text, tokenizer, max_pieces, _CUTS)


def _fits(text: str, tokenizer: Tokenizer, max_pieces: int) -> bool:
    # The ends of a line that is far too long are not worth encoding: no piece has 64 characters.
    return len(text) <= 64 * max_pieces and len(tokenizer.encode(text)) <= max_pieces


def _cut(text: str, tokenizer: Tokenizer, most: int, cuts: Sequence[str]) -> list[str]:
    """Return parts that fit, each as long as the best kind of cut allows."""
    if _fits(text, tokenizer, most):
        return [text]
    if not cuts:
        return _chop(text, tokenizer, most)
    parts: list[str] = []
    chunks = [chunk for chunk in re.split(cuts[0], text) if chunk]
    sizes = [len(tokenizer.encode(chunk)) for chunk in chunks]
    room = 0
    for chunk, size in zip(chunks, sizes, strict=True):
        if size > most:
            parts += _cut(chunk, tokenizer, most, cuts[1:])
            room = 0
        elif size <= room:
            parts[-1] += " " + chunk
            room -= size
        else:
            parts.append(chunk)
            room = most - size
    return parts


def _chop(text: str, tokenizer: Tokenizer, most: int) -> list[str]:
    """Cut a text without a single space by its number of characters."""
    worst_bytes = 4  # a character unknown to the vocabulary is spelled in up to so many pieces
    size = max(1, most // worst_bytes)
    return [text[start : start + size] for start in range(0, len(text), size)]
