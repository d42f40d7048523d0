"""Where a missing text belongs in a translation, and stand-ins back to what they stand for.

A translation that lacks a required text is searched again with the text forced where the attention
on its source is: lexically constrained decoding (Hokamp and Liu 2017; Post and Vilar 2018; Hu et
al. 2019) with the places that attention suggests instead of all.

Legend: T target pieces, S source pieces
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from seq2seq.data.tokenizer import SPACE_PIECE, bytes_of_piece
from seq2seq.inference.required import Required, find_missing
from seq2seq.inference.text import Part
from seq2seq.inference.words import membership, words, words_of_pieces

_PLACES = 2  # that are tried for each missing text


def let_arrive(
    parts: Sequence[list[Part]],
    required: Sequence[Sequence[Required]],
    search_again: Callable[[Sequence[tuple[int, str]]], list[list[Part]]],
    *,
    spaced: bool,
) -> list[list[Part]]:
    """Return translations in which what is required of each sentence arrives, as a reader sees it.

    `search_again` returns the translations of sentences, by number, that begin with a text. It is
    called for what is missing from left to right, since what follows a beginning changes.
    Translations that lack something are left out unless all of a sentence do.
    """
    found, fixed = [*parts], [0] * len(parts)
    for _ in range(max(map(len, required))):
        tried = [
            (number, text)
            for number, each in enumerate(required)
            for text in _beginnings(found[number][0], each, fixed[number], spaced)
        ]
        best: dict[int, tuple[int, float]] = {}  # how many have not arrived, and the score
        for (number, text), of in zip(tried, search_again(tried) if tried else (), strict=True):
            lacks = len(find_missing(of[0].text, required[number], spaced=spaced))
            if number not in best or (-lacks, of[0].score) > best[number]:
                best[number] = -lacks, of[0].score
                found[number], fixed[number] = of, len(text)
    restored = [
        [_restore(part, each, spaced) for part in of]
        for of, each in zip(found, required, strict=True)
    ]
    return [[part for part in of if not part.missing] or of for of in restored]


def _beginnings(part: Part, required: Sequence[Required], fixed: int, spaced: bool) -> list[str]:
    """Return how a translation could begin so that the first missing text arrives; none: all have.

    The first `fixed` characters of the translation stay. The first text is the one that belongs
    before the others that are missing.
    """
    found: list[tuple[int, list[str]]] = []
    for each in find_missing(part.text, required, spaced=spaced):
        places = _places(part, each, fixed, spaced)
        texts = []
        for place in places:
            kept, form = part.text[:place], each.form
            if not re.search(r"\w", kept) and part.text[len(kept) : len(kept) + 1].isupper():
                form = form[:1].upper() + form[1:]
            gap = " " if spaced and kept[-1:].isalnum() else ""
            texts.append(f"{kept}{gap}{form}")
        found.append((places[0], texts))
    return min(found, default=(0, []))[1]


def _places(part: Part, required: Required, fixed: int, spaced: bool) -> list[int]:
    """Return where the words begin that attend most to a required text, the best first."""
    split = words if spaced else list
    ours, theirs = _spans(part.source, split(part.source)), _spans(part.text, split(part.text))
    own = [
        n for n, (start, end) in enumerate(ours) if start < required.end and required.start < end
    ]
    sources, targets = (
        words_of_pieces(pieces, split) for pieces in (part.source_pieces, part.target_pieces)
    )
    if part.weights is None:  # a diagonal
        share = required.start / max(1, len(part.source))
        mass = [-abs(start / max(1, len(part.text)) - share) for start, _ in theirs]
    else:
        of_S = np.array([bool({*of} & {*own}) for of in sources])
        mass_T = part.weights[:, of_S].sum(1)
        mass = [mass_T[row > 0].max(initial=0) for row in membership(targets)][: len(theirs)]
    ranked = sorted(range(len(mass)), key=lambda n: -mass[n])
    starts = [theirs[n][0] for n in ranked if theirs[n][0] >= fixed]
    return starts[:_PLACES] or [len(part.text)]


def _restore(part: Part, required: Sequence[Required], spaced: bool) -> Part:
    """Return a translation with tokens in place of their stand-ins, and what has not arrived.

    A token is one piece, with the sum of the log probabilities and weights of its stand-in's source
    pieces, and the mean of the weights of its target pieces.
    """
    missing = [each.text for each in find_missing(part.text, required, spaced=spaced)]
    tokens = [each for each in required if each.source]
    if not tokens:
        return replace(part, missing=missing)
    source, text = part.source, part.text
    for token in tokens:
        source, text = token.put_back(source, token.source), token.put_back(text, token.text)
    sources = [(token, token.source) for token in tokens]
    source_pieces, starts_S = _merged(part.source_pieces, sources)
    target_pieces, starts_T = _merged(part.target_pieces, [(token, token.text) for token in tokens])
    weights = part.weights
    if weights is not None:
        sizes_T = np.diff([*starts_T, len(weights)])
        weights = np.add.reduceat(np.add.reduceat(weights, starts_S, 1), starts_T, 0)
        weights = weights / sizes_T[:, None].astype(weights.dtype)
    return replace(
        part, source=source, text=text, source_pieces=source_pieces, target_pieces=target_pieces,
        weights=weights, log_probs=np.add.reduceat(part.log_probs, starts_T).tolist(),
        missing=missing,
    )  # fmt: skip


def _merged(
    pieces: Sequence[str], values: Sequence[tuple[Required, str]]
) -> tuple[list[str], list[int]]:
    """Return pieces with one for each token, and the number of the first piece of each before."""
    raw = list(map(bytes_of_piece, pieces))
    ends, text = np.cumsum([len(each) for each in raw]), b"".join(raw)
    merged = {}  # by the first piece: the one after the last, what it joins, and the new piece
    for token, value in values:
        for match in re.finditer(rf"(?<!\w){token.form}(?!\w)".encode(), text):
            first, last = np.searchsorted(ends, [match.start(), match.end() - 1], "right").tolist()
            around = b"".join(raw[first : last + 1]).decode(errors="replace")
            new = token.put_back(around, value).replace(" ", SPACE_PIECE)
            merged[first] = last + 1, token.joins[1], new
    found, starts, number, joins = list[str](), list[int](), 0, False
    while number < len(pieces):
        starts.append(number)
        end, joins_next, piece = merged.get(number, (number + 1, False, pieces[number]))
        found.append(piece.removeprefix(SPACE_PIECE) if joins else piece)
        joins, number = joins_next, end
    return found, starts


def _spans(text: str, split: Sequence[str]) -> list[tuple[int, int]]:
    found, end = [], 0
    for word in split:
        start = text.index(word, end)
        end = start + len(word)
        found.append((start, end))
    return found
