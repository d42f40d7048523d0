"""What translating gives: a line's translation, made of the translations of its parts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

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


@dataclass(frozen=True)
class Part:
    """A sentence that was translated at once, with one of its hypotheses."""

    source: str
    source_pieces: list[str]  # with the end of sentence
    target_pieces: list[str]  # with the end of sentence
    text: str
    score: float
    log_prob: float
    finished: bool  # false: closed at the length limit
    weights: Tensor | None = None  # [target pieces, source pieces]
    first_word: int = 0  # the word of the source line, from 0, in which the part begins

    def as_json(self, *, attention: bool) -> dict[str, Any]:
        """Return what JSON can hold, with the weights row by row where they are asked for."""
        found: dict[str, Any] = {
            "source": self.source,
            "source_tokens": self.source_pieces,
            "tokens": self.target_pieces,
            "score": self.score,
            "log_prob": self.log_prob,
            "finished": self.finished,
        }
        if attention:
            found["attention"] = None if self.weights is None else self.weights.tolist()
        return found


@dataclass(frozen=True)
class Translation:
    """One of the translations of a line; an empty line has no parts."""

    parts: list[Part] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The whole line; a line break that a model makes up becomes a space."""
        return " ".join(" ".join(part.text for part in self.parts).split())

    @property
    def score(self) -> float:
        """The mean score of the parts."""
        return sum(part.score for part in self.parts) / max(1, len(self.parts))

    def as_json(self, *, attention: bool = False) -> dict[str, Any]:
        """Return text, score and parts as JSON can hold them."""
        parts = [part.as_json(attention=attention) for part in self.parts]
        return {"text": self.text, "score": self.score, "parts": parts}


@dataclass(frozen=True)
class Sampling:
    """Draw translations instead of searching for the best; see seq2seq.inference.sampling."""

    num_samples: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1


def join_parts(parts: Sequence[Sequence[Part]]) -> list[Translation]:
    """Combine the parts of a line: the n-th best line has the n-th best of each part.

    Where a part has fewer, its last one stands in.
    """
    if not parts:
        return [Translation()]
    ranks = max(len(hypotheses) for hypotheses in parts)
    return [
        Translation([hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in parts])
        for rank in range(ranks)
    ]
