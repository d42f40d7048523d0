"""Words of a translation: the pieces of each, the attention between them, and word links.

A link (i, j) joins source word i and target word j, both from 0. In a script without spaces, each
character is a word; views join those that one piece spells.

Legend: T target pieces, S source pieces, both with the end of sentence; t, s words.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from seq2seq.data.casing import CAPS, SHIFT
from seq2seq.data.cleaning import normalize
from seq2seq.data.tokenizer import EOS_PIECE, bytes_of_piece
from seq2seq.errors import DataError
from seq2seq.inference.text import UNCERTAIN, Part

Link = tuple[int, int]  # source word, target word, from 0
LINK = re.compile(r"([0-9]+)([-?p])([0-9]+)")  # in a gold alignment: sure (-) or possible (?, p)
Links = frozenset[Link]
Floats = npt.NDArray[np.float64]
Split = Callable[[str], list[str]]  # the words of a text, in order, each a substring of it

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_CHARACTER = rf"[{_UNSPACED}]\p{{M}}*"  # of a script without spaces, with its combining marks
LETTER = rf"[\w\p{{N}}--[{_UNSPACED}]]"  # of the others, for V1 of the package regex
_WORD = rf"(?V1){_CHARACTER}|{LETTER}+(?:'{LETTER}+)*|[^\w\s]"


def words(text: str) -> list[str]:
    """Return the words of a text, each punctuation mark as a word of its own.

    A word is a match of `\\w+(?:'\\w+)*|[^\\w\\s]`, as the gold links of data/sample count words
    (data/README.md), or a character of a script without spaces.
    """
    from regex import findall  # slow to import

    found: list[str] = findall(_WORD, text)
    return found


def display_words(text: str) -> list[str]:
    """Return the words of a text as views show them, the marks around each as words of their own.

    Words are separated by white space, or are characters of a script without spaces. Marks within a
    word, as in `don't`, `3.5` and `well-known`, stay in it. An emoji is one mark, however many
    characters it has.
    """
    from regex import findall, split  # slow to import; \X is a character as readers see it

    found: list[str] = []
    for word in filter(None, split(rf"\s+|({_CHARACTER})", text)):
        chars = findall(r"\X", word)
        inner = [n for n, char in enumerate(chars) if not _is_mark(char)]
        start, end = (inner[0], inner[-1] + 1) if inner else (len(chars), len(chars))
        found += [*chars[:start], *filter(None, ["".join(chars[start:end])]), *chars[end:]]
    return found


def _is_mark(chars: str) -> bool:
    """Return whether the first character is a punctuation mark or a symbol."""
    return unicodedata.category(chars[0])[0] in "PS"


# spaces: words are separated by white space; marks: punctuation marks are words too.
WORDS: dict[str, Split] = {"spaces": str.split, "marks": words}


def words_of_pieces(pieces: Sequence[str], split: Split = str.split) -> list[list[int]]:
    """Return the numbers of the words that each piece has characters of.

    Words are separated by white space in the text, or found by `split`. A piece without visible
    characters, such as a lone space, belongs to the word after it; the end of sentence belongs to
    none.
    """
    raw = list(map(bytes_of_piece, pieces))
    word_of_byte = _words_of_bytes(b"".join(raw), split)
    found, end = [], 0
    for piece in raw:
        start, end = end, end + len(piece)
        found.append(sorted({word for word in word_of_byte[start:end] if word >= 0}))
    after: list[int] = []
    for index in reversed(range(len(raw))):
        if not found[index] and raw[index]:
            found[index] = after
        after = found[index][:1]
    return found


def _words_of_bytes(raw: bytes, split: Split) -> list[int]:
    """Return the word of each byte of a text before normalization, -1 between words."""
    # A byte that is not UTF-8 becomes one visible character.
    chars = raw.decode("utf-8", "surrogateescape")
    shown = [_shown(char) for char in chars]
    text = "".join(shown)
    word_of_char, end = [-1] * len(text), 0
    for number, word in enumerate(split(text)):
        start = text.index(word, end)
        end = start + len(word)
        word_of_char[start:end] = [number] * len(word)
    remaining = iter(word_of_char)
    numbers: list[int] = []
    for char, visible in zip(chars, shown, strict=True):
        size = len(char.encode("utf-8", "surrogateescape"))
        numbers += [next(remaining) if visible else -1] * size
    return numbers


@lru_cache(4096)
def _shown(char: str) -> str:
    """Return a character as it is after normalization: itself, a space or nothing.

    Marks for capitals become nothing, too.
    """
    if "\udc80" <= char <= "\udcff":
        return char
    if char in (SHIFT, CAPS):
        return ""
    return {"aa": "", "a a": " "}.get(normalize(f"a{char}a"), char)


def uncertain_words(part: Part) -> list[int]:
    """Return the numbers of the words, separated by white space, that the model is unsure of.

    Those of required texts are not among them. In a language without spaces, a stretch of text is
    as many words as its length suggests.
    """
    of_pieces = words_of_pieces(part.target_pieces)
    given = {word for piece in part.given for word in of_pieces[piece]}
    sums: defaultdict[int, float] = defaultdict(float)
    for of, log_prob in zip(of_pieces, part.log_probs, strict=True):
        for word in of:
            sums[word] += log_prob
    return [
        number
        for number, word in enumerate(part.text.split())
        if number not in given and sums[number] < UNCERTAIN * max(1, part.target.count_words(word))
    ]


def word_weights(part: Part, split: Split = str.split) -> Floats:
    """Return weights [t, s] between words: sums over source pieces, means over target pieces.

    A piece with characters of several words counts for each, on the source side in equal shares.
    Raises DataError for a model without attention.
    """
    sides = (part.source_pieces, part.target_pieces)
    return _merged(part, *(words_of_pieces(pieces, split) for pieces in sides))


@dataclass(frozen=True)
class WordAttention:
    """The words of a translation as views show them, and the weights [t, s] between them.

    The last source word is the end of sentence, so that each row sums to 1.
    """

    source: list[str]
    target: list[str]
    weights: Floats


def word_attention(part: Part) -> WordAttention:
    """Return the words of a part with the weights between them, merged as in word_weights.

    Raises DataError for a model without attention.
    """
    source, target = source_words(part), target_words(part)
    weights_ts = _merged(part, source.of_pieces, target.of_pieces)
    return WordAttention(source.words, target.words, weights_ts)


@dataclass(frozen=True)
class DisplayedWords:
    """The words of one side as views show them, and for each piece the numbers of its words."""

    words: list[str]
    of_pieces: list[list[int]]


def source_words(part: Part) -> DisplayedWords:
    """Return the source words of a part, and the end of sentence as the last one."""
    found = _displayed(part.source, part.source_pieces)
    end = [len(found.words)]
    return DisplayedWords([*found.words, EOS_PIECE], [of or end for of in found.of_pieces])


def target_words(part: Part) -> DisplayedWords:
    """Return the words of the translation; its end belongs to none."""
    return _displayed(part.text, part.target_pieces)


def _displayed(text: str, pieces: Sequence[str]) -> DisplayedWords:
    from regex import match

    found, of_pieces = display_words(text), words_of_pieces(pieces, display_words)
    # If the tokenizer does not know a mark, pieces do not tell the mark from its word.
    if max((word for of in of_pieces for word in of), default=-1) + 1 != len(found):
        found, of_pieces = text.split(), words_of_pieces(pieces)
    # In a script without spaces, the characters of one piece are shown as one word.
    is_character = [bool(match(_CHARACTER, word)) for word in found]
    joined = {b for of in of_pieces for a, b in pairwise(of) if is_character[a] and is_character[b]}
    starts = [n for n in range(len(found)) if n not in joined]
    merged = ["".join(found[start:end]) for start, end in pairwise([*starts, len(found)])]
    numbers = np.searchsorted(starts, range(len(found)), side="right") - 1
    return DisplayedWords(merged, [sorted(set(numbers[of].tolist())) for of in of_pieces])


def _merged(
    part: Part, source_words: Sequence[Sequence[int]], target_words: Sequence[Sequence[int]]
) -> Floats:
    """Return the weights [t, s] between words, given the words of each piece."""
    if part.weights is None:
        raise DataError("no attention weights: the model has attention.score none")
    source_sS, target_tT = membership(source_words), membership(target_words)
    source_sS /= np.maximum(source_sS.sum(0), 1)
    counts_t1 = target_tT.sum(1, keepdims=True)
    weights_TS = part.weights.astype(np.float64)
    merged_ts: Floats = target_tT @ weights_TS @ source_sS.T / np.maximum(counts_t1, 1)
    return merged_ts


def membership(words_of_pieces: Sequence[Sequence[int]]) -> Floats:
    """Return a matrix [words, pieces]: 1 where the piece has characters of the word, else 0."""
    numbers = np.arange(max((word for of in words_of_pieces for word in of), default=-1) + 1)
    columns = [np.isin(numbers, of) for of in words_of_pieces]
    return np.stack(columns, 1).astype(np.float64) if columns else np.zeros((0, 0))


def links_of(part: Part, *, split: Split = str.split, threshold: float | None = None) -> Links:
    """Return the links of one translation.

    Each target word is linked with its heaviest source word or, given a threshold, with all source
    words of at least this weight (word_weights).
    """
    weights_ts = word_weights(part, split)
    if threshold is not None:
        return frozenset((int(s), int(t)) for t, s in np.argwhere(weights_ts >= threshold))
    if not weights_ts.size:
        return frozenset()
    return frozenset((int(s), t) for t, s in enumerate(weights_ts.argmax(1)))


def format_links(links: Iterable[Link]) -> str:
    """Return links in Pharaoh format, from 0."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))
