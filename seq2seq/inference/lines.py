"""Lines of text to sentences that a model can take."""

from __future__ import annotations

import re
from collections.abc import Sequence

from seq2seq.data.cleaning import normalize
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import DataError

# Where a long line may be cut, best first: sentence ends, clause marks, spaces, anywhere.
_CUTS = (r"(?<=[.!?…。！？])\s+", r"(?<=[,;:–—])\s+", r"\s+")
_PIECE_CHARS = 64  # no piece has more: a text that is far too long need not be encoded


def normalize_line(line: str) -> str:
    """Return the line as training data was normalised; the tokenizer's sign for a space is one."""
    return normalize(line.replace("▁", " "))


def split_line(
    text: str, tokenizer: Tokenizer, max_pieces: int, *, number: int, refuse: bool = False
) -> list[str]:
    """Return the parts of a line that are translated one by one; an empty line has none.

    The text is a line that was normalised. One of at most max_pieces is one part. A longer one is
    cut at sentence ends, then at clause marks, then at spaces, then anywhere, as little as needed;
    nothing but white space is left out. With `refuse` it raises DataError instead, which names the
    line by its number.
    """
    if not text:
        return []
    if _fits(text, tokenizer, max_pieces):
        return [text]
    if refuse:
        raise DataError(
            f"line {number}: longer than {max_pieces} pieces (inference.max_source_length of the "
            "run); shorten it, or let it be split (--long split)"
        )
    return _cut(text, tokenizer, max_pieces, _CUTS)


def first_words(text: str, parts: Sequence[str]) -> list[int]:
    """Return for each part of a line the number of the word, from 0, in which it begins.

    Words are what white space separates; a part can begin within one.
    """
    words = text.split()
    numbers, word, used = [], 0, 0
    for part in parts:
        numbers.append(word)
        used += sum(map(len, part.split()))
        while word < len(words) and used >= len(words[word]):
            used -= len(words[word])
            word += 1
    return numbers


def _fits(text: str, tokenizer: Tokenizer, most: int) -> bool:
    return len(text) <= _PIECE_CHARS * most and len(tokenizer.encode(text)) <= most


def _cut(text: str, tokenizer: Tokenizer, most: int, cuts: Sequence[str]) -> list[str]:
    """Return parts that fit, each as long as the best kind of cut allows."""
    if not cuts:
        return _chop(text, tokenizer, most)
    parts: list[str] = []
    chunks = [chunk for chunk in re.split(cuts[0], text) if chunk]
    if len(chunks) == 1:
        return _cut(text, tokenizer, most, cuts[1:])
    room = 0
    for chunk in chunks:
        size = len(tokenizer.encode(chunk))
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
    """Cut a text without a single space; each part is at least half as long as it could be."""
    parts, start, size = [], 0, _PIECE_CHARS * most
    while start < len(text):
        while size > 1 and not _fits(text[start : start + size], tokenizer, most):
            size = (size + 1) // 2
        parts.append(text[start : start + size])
        start += size
        size *= 2  # the next part may have longer pieces
    return parts
