"""Where a missing text belongs in a translation, and stand-ins back to what they stand for.

A translation that lacks a required text is searched again with the text forced where the attention
on its source is: lexically constrained decoding (Hokamp and Liu 2017; Post and Vilar 2018; Hu et
al. 2019) at the place that attention suggests instead of at all places.

Legend: T target pieces, S source pieces
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from seq2seq.data.casing import CAPS, SHIFT
from seq2seq.data.tokenizer import SPACE_PIECE, bytes_of_piece
from seq2seq.inference.required import Required, find_form, find_missing, show_tokens
from seq2seq.inference.text import Part
from seq2seq.inference.words import Split, membership, words, words_of_pieces

_MOST_AGAIN = 8  # searches of a sentence; a list of a hundred tokens would take minutes otherwise
_INVISIBLE = SPACE_PIECE + SHIFT + CAPS  # in pieces: spaces, and marks for capitals


def let_arrive(
    parts: Sequence[list[Part]],
    required: Sequence[Sequence[Required]],
    search_again: Callable[[Sequence[tuple[int, str]]], list[list[Part]]],
    *,
    given: Sequence[int],
    spaced: bool,
) -> list[list[Part]]:
    """Return translations in which what is required of each sentence arrives, as a reader sees it.

    `search_again` returns the translations of sentences, by number, that begin with a text. It is
    called for what is missing from left to right, since what follows a beginning changes, and at
    most eight times. The first `given` characters of each translation stay; what belongs in them
    by the attention is not forced after them. Translations that lack something are left out unless
    all of a sentence do.
    """
    found, fixed = [*parts], [*given]
    for _ in range(_MOST_AGAIN):
        begun = {
            number: text
            for number, each in enumerate(required)
            if (text := _beginning(found[number][0], each, given[number], fixed[number], spaced))
        }
        if not begun:
            break
        again = search_again([*begun.items()])
        for (number, text), of in zip(begun.items(), again, strict=True):
            found[number], fixed[number] = of, len(text)
    restored = [
        [_restore(part, each, spaced) for part in of]
        for of, each in zip(found, required, strict=True)
    ]
    return [[part for part in of if not part.missing] or of for of in restored]


def _beginning(
    part: Part, required: Sequence[Required], given: int, fixed: int, spaced: bool
) -> str:
    """Return how a translation could begin so that a missing text arrives; "": all texts have.

    The first `fixed` characters of the translation stay. A text that belongs in the first `given`
    ones is left out. Of the others, the one that belongs first is forced.
    """
    missing = find_missing(part.text, required, spaced=spaced)
    places = [
        (_place(part, each, fixed, spaced), each.form)
        for each in missing
        if not given or _place(part, each, 0, spaced) >= given
    ]
    if not places:
        return ""
    place, form = min(places, key=lambda each: each[0])
    kept = part.text[:place]
    if not re.search(r"\w", kept) and part.text[place : place + 1].isupper():
        form = form[:1].upper() + form[1:]
    return f"{kept}{' ' if spaced and kept[-1:].isalnum() else ''}{form}"


def _place(part: Part, required: Required, fixed: int, spaced: bool) -> int:
    """Return where the words begin that attend most to a required text, from a place on."""
    split: Split = words if spaced else list
    starts = [start for start, _ in _spans(part.text, split)]
    if part.weights is None:  # a diagonal
        share = required.start / max(1, len(part.source))
        masses = [-abs(start / max(1, len(part.text)) - share) for start in starts]
    else:
        own = (required.start, required.end)
        of_S = [*_pieces_of(part.source, part.source_pieces, [own], list)]
        mass_T = part.weights[:, of_S].sum(1)
        rows = membership(words_of_pieces(part.target_pieces, split)) > 0
        masses = [mass_T[row].sum() / max(1, row.sum()) for row in rows]
        masses += [0.0] * (len(starts) - len(masses))
    free = [n for n, start in enumerate(starts) if start >= fixed]
    best = max(free, key=lambda n: masses[n], default=len(starts))
    while best - 1 in free and masses[best - 1] > 0.5:  # the first word of several
        best -= 1
    return [*starts, len(part.text)][best]


def _restore(part: Part, required: Sequence[Required], spaced: bool) -> Part:
    """Return a translation with tokens in place of their stand-ins, and what has not arrived.

    A token is one piece, with the sum of the log probabilities and weights of its stand-in's source
    pieces, and the mean of the weights of its target pieces.
    """
    missing = [each.text for each in find_missing(part.text, required, spaced=spaced)]
    tokens = [each for each in required if each.source]
    if tokens:
        source, text = part.source, show_tokens(part.text, tokens)
        for token in tokens:
            source = token.put_back(source, token.source)
        sources, starts_S = _merged(part.source_pieces, [(each, each.source) for each in tokens])
        targets, starts_T = _merged(part.target_pieces, [(each, each.text) for each in tokens])
        weights = part.weights
        if weights is not None:
            sizes_T = np.diff([*starts_T, len(weights)]).astype(weights.dtype)
            weights = np.add.reduceat(np.add.reduceat(weights, starts_S, 1), starts_T, 0)
            weights /= sizes_T[:, None]
        part = replace(
            part, source=source, text=text, source_pieces=sources, target_pieces=targets,
            weights=weights, log_probs=np.add.reduceat(part.log_probs, starts_T).tolist(),
        )  # fmt: skip
    places = [span for each in required for span in find_form(part.text, each.text, spaced=spaced)]
    given = _pieces_of(part.text, part.target_pieces, places, words if spaced else list)
    return replace(part, missing=missing, given=frozenset(given))


def _merged(
    pieces: Sequence[str], values: Sequence[tuple[Required, str]]
) -> tuple[list[str], list[int]]:
    """Return pieces, with one for each token, and the index of the first old piece of each.

    The piece of a token takes in the spaces beside it, and the marks for capitals in those that it
    loses, so that the pieces spell the text.
    """
    raw = list(map(bytes_of_piece, pieces))
    piece_of = [number for number, piece in enumerate(raw) for _ in piece]  # by byte
    places = [
        (piece_of[match.start()], piece_of[match.end() - 1] + 1, token, value)
        for token, value in values
        for match in re.finditer(token.pattern.encode(), b"".join(raw))
    ]
    found, starts = [*pieces], [*range(len(pieces))]
    for first, end, token, value in sorted(places, reverse=True):
        first -= found[first - 1] == SPACE_PIECE
        new = token.put_back(b"".join(raw[first:end]).decode(errors="replace"), value)
        while token.joins[0] and first and not found[first - 1].strip(_INVISIBLE):
            first -= 1
        if token.joins[1]:
            while not found[end].strip(_INVISIBLE):
                end += 1
            found[end] = found[end].removeprefix(SPACE_PIECE)
        found[first:end], starts[first:end] = [new.replace(" ", SPACE_PIECE)], [first]
    return found, starts


def _pieces_of(
    text: str, pieces: Sequence[str], places: Sequence[tuple[int, int]], split: Split
) -> Iterator[int]:
    """Yield the numbers of the pieces that have characters of the words at some places."""
    inside = {
        number
        for number, (start, end) in enumerate(_spans(text, split))
        if any(start < stop and begin < end for begin, stop in places)
    }
    for number, of in enumerate(words_of_pieces(pieces, split)):
        if inside.intersection(of):
            yield number


def _spans(text: str, split: Split) -> list[tuple[int, int]]:
    """Return where the words of a text begin and end."""
    found, end = [], 0
    for word in split(text):
        start = text.index(word, end)
        end = start + len(word)
        found.append((start, end))
    return found
