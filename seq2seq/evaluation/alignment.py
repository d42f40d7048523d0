"""Word alignments: from attention weights, from two directions, and their error against gold.

A link (i, j) joins source word i and target word j, both from 0. Gold alignments and output are in
the Pharaoh format, a line for each sentence pair with links separated by white space: `i-j` is a
sure link, `i?j` and `ipj` are possible ones. Some gold alignments count words from 1.

Legend: T target pieces, S source pieces, both with the end of sentence; t, s words.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from seq2seq.data.cleaning import normalize
from seq2seq.data.corpus import Pair, read_lines
from seq2seq.data.subwords import SPACE_PIECE
from seq2seq.data.tokenizer import BOS_PIECE, EOS_PIECE, PAD_PIECE, UNK_PIECE, normalize_line
from seq2seq.errors import DataError
from seq2seq.inference.text import Part, Translation
from seq2seq.inference.translator import Translator

log = logging.getLogger(__name__)

Link = tuple[int, int]  # source word, target word, from 0
Links = frozenset[Link]
Floats = npt.NDArray[np.float64]
Split = Callable[[str], list[str]]  # the words of a text, in order, each a substring of it

THRESHOLD = 0.3  # seq2seq align --method threshold
_WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_LINK = re.compile(r"([0-9]+)([-?p])([0-9]+)")


# --- Words of a text, and of its pieces


def words(text: str) -> list[str]:
    """Return the words of a text, each punctuation mark as a word of its own.

    A word is a match of `\\w+(?:'\\w+)*|[^\\w\\s]`, the definition that the gold links of
    data/sample count by (data/README.md).
    """
    return _WORD.findall(text)


# spaces: words are separated by white space; marks: punctuation marks are words too.
WORDS: dict[str, Split] = {"spaces": str.split, "marks": words}


def words_of_pieces(pieces: Sequence[str], split: Split = str.split) -> list[list[int]]:
    """Return the numbers of the words that each piece has characters of.

    Words are separated by white space in the text, or found by `split`. A piece without visible
    characters, such as a lone space, belongs to the word after it; the end of sentence belongs to
    none.
    """
    raw = [_bytes_of(piece) for piece in pieces]
    if pieces and pieces[-1] == EOS_PIECE:
        raw[-1] = b""
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


def _bytes_of(piece: str) -> bytes:
    byte = _BYTE.fullmatch(piece)
    if byte:
        return bytes.fromhex(byte[1])
    if piece == UNK_PIECE:  # characters that the tokenizer does not know, but they are in the text
        return "\ufffd".encode()
    return b"" if piece in (BOS_PIECE, PAD_PIECE) else piece.replace(SPACE_PIECE, " ").encode()


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
    """Return what normalization makes of a character: itself, a space or nothing."""
    if "\udc80" <= char <= "\udcff":
        return char
    return {"aa": "", "a a": " "}.get(normalize(f"a{char}a"), char)


# --- Links from attention weights


def word_weights(part: Part, split: Split = str.split) -> Floats:
    """Return weights [t, s] between words: sums over source pieces, means over target pieces.

    A piece with characters of several words counts for each, on the source side in equal shares.
    Raises DataError for a model without attention.
    """
    if part.weights is None:
        raise DataError("no attention weights: the model has attention.score none")
    weights_TS = part.weights.astype(np.float64)
    source_sS = _membership(part.source_pieces, split)
    source_sS /= np.maximum(source_sS.sum(0), 1)
    target_tT = _membership(part.target_pieces, split)
    counts_t1 = target_tT.sum(1, keepdims=True)
    merged_ts: Floats = target_tT @ weights_TS @ source_sS.T / np.maximum(counts_t1, 1)
    return merged_ts


def words_as_json(part: Part) -> dict[str, Any] | None:
    """Return the words of a part with the weights [t, s] between them, as JSON has them.

    None for a model without attention.
    """
    if part.weights is None:
        return None
    weights = word_weights(part).tolist()
    return {"source": part.source.split(), "target": part.text.split(), "weights": weights}


def _membership(pieces: Sequence[str], split: Split) -> Floats:
    """Return a matrix [words, pieces]: 1 where the piece has characters of the word, else 0."""
    held = words_of_pieces(pieces, split)
    numbers = np.arange(max((word for of in held for word in of), default=-1) + 1)
    columns = [np.isin(numbers, of) for of in held]
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


def pharaoh(translation: Translation) -> str:
    """Return the links of a translated line in Pharaoh format.

    Words are separated by white space in the normalized source line and in the translation.
    """
    found: set[Link] = set()
    target_start = 0
    for part in translation.parts:
        found |= {(s + part.first_word, t + target_start) for s, t in links_of(part)}
        target_start += len(part.text.split())
    return format_links(found)


def format_links(links: Iterable[Link]) -> str:
    """Return links in Pharaoh format, from 0."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def align(
    translator: Translator,
    pairs: Sequence[Pair],
    *,
    split: Split = str.split,
    threshold: float | None = None,
) -> list[Links]:
    """Return the links of each pair, by forced decoding (see links_of).

    Raises DataError for a model without attention.
    """
    parts = translator.force([pair.source for pair in pairs], [pair.target for pair in pairs])
    return [links_of(part, split=split, threshold=threshold) for part in parts]


# --- Symmetrization: one alignment from those of two opposite directions


_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """Return the intersection, grown with links of the union (Koehn et al. 2005).

    Grow: a link of the union that is next or diagonal to a present link is added if its source or
    its target word has no link yet, until there is none. Final-and: links of the forward, then of
    the backward alignment are added if neither of their words has a link. Links are visited by
    target word, then source word; an added link counts at once.
    """
    links = set(forward & backward)
    sources, targets = {source for source, _ in links}, {target for _, target in links}

    def add(link: Link) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    by_target = itemgetter(1, 0)
    candidates = forward | backward
    ordered = sorted(candidates, key=by_target)
    size = -1
    while size < len(links):
        size = len(links)
        for source, target in ordered:
            if (source, target) not in links:
                continue
            for rows, columns in _NEIGHBOURS:
                link = (source + columns, target + rows)
                aligned = link[0] in sources and link[1] in targets
                if link in candidates and not aligned:
                    add(link)
    for direction in (forward, backward):
        for link in sorted(direction, key=by_target):
            if link[0] not in sources and link[1] not in targets:
                add(link)
    return frozenset(links)


# Intersection and union: Och & Ney 2003, section 4; few precise links, and many with a high recall.
SYMMETRIZATIONS: dict[str, Callable[[Links, Links], Links]] = {
    "intersection": frozenset.intersection,
    "union": frozenset.union,
    "grow-diag-final-and": grow_diag_final_and,
}


def align_both(
    translator: Translator,
    reverse: Translator,
    pairs: Sequence[Pair],
    *,
    split: Split = str.split,
    threshold: float | None = None,
) -> dict[str, list[Links]]:
    """Return the alignments of a model, of a model of the opposite direction, and of both.

    The keys are forward, reverse and those of SYMMETRIZATIONS; all links are (source, target)
    words of the pairs.
    """
    directions = [
        (model.config.data.source_language, model.config.data.target_language)
        for model in (translator, reverse)
    ]
    if directions[1] != directions[0][::-1]:
        log.warning(
            "--reverse: this model %stranslates %s to %s, judging by its data.source_language and "
            "data.target_language; expected %s to %s",
            "also " * (directions[1] == directions[0]),
            *directions[1],
            *directions[0][::-1],
        )
    swapped = [Pair(pair.target, pair.source) for pair in pairs]
    forward = align(translator, pairs, split=split, threshold=threshold)
    reversed_ = align(reverse, swapped, split=split, threshold=threshold)
    backward = [frozenset((source, target) for target, source in links) for links in reversed_]
    both = list(zip(forward, backward, strict=True))
    joined = {name: [join(*pair) for pair in both] for name, join in SYMMETRIZATIONS.items()}
    return {"forward": forward, "reverse": backward, **joined}


# --- Gold alignments


@dataclass(frozen=True)
class Gold:
    """The gold links of a sentence pair; every sure link is also possible (Och & Ney 2003)."""

    sure: Links
    possible: Links
    where: str = "gold"

    def check(self, source_words: int, target_words: int) -> None:
        """Raise DataError for a link outside the sentences."""
        for source, target in sorted(self.possible):
            if source >= source_words or target >= target_words:
                raise DataError(
                    f"{self.where}: link {source}-{target} (from 0) is outside the sentences: the "
                    f"source has {source_words} and the target {target_words} words; try the other "
                    "--words, or --one-based"
                )


def parse_gold(text: str, where: str, *, first: int = 0) -> Gold:
    """Parse a line of links whose words count from `first`; errors begin with `where`.

    Raises DataError for anything that is not a link.
    """
    sure, possible = set(), set()
    for token in text.split():
        match = _LINK.fullmatch(token)
        if not match:
            raise DataError(
                f"{where}: '{token}' is not a link; expected i-j (sure), i?j or ipj (possible)"
            )
        link = (int(match[1]) - first, int(match[3]) - first)
        if min(link) < 0:
            raise DataError(f"{where}: link '{token}' counts words from 0; drop --one-based")
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible), where)


def read_gold(path: str, *, first: int = 0) -> list[Gold]:
    """Read gold links, one line for each sentence pair; a blank line is a pair without links.

    Raises DataError if the file cannot be read or parsed.
    """
    return [parse_gold(line.text, line.where, first=first) for line in read_lines(path)]


def gold_of(
    pairs: Sequence[Pair], path: str | None = None, *, split: Split, first: int = 0
) -> list[Gold] | None:
    """Return the gold links of each pair: from a file, else from the corpus, else None.

    Raises DataError for links that cannot be parsed or lie outside the sentences, for another
    number of lines than pairs, and if there is no link at all.
    """
    if path is not None:
        gold = read_gold(path, first=first)
        if len(gold) != len(pairs):
            raise DataError(
                f"{path}: {len(gold)} lines of links for {len(pairs)} sentence pairs; give one "
                "line for each pair"
            )
    elif all(pair.alignment is not None for pair in pairs):
        gold = [
            parse_gold(str(pair.alignment), f"pair {number}", first=first)
            for number, pair in enumerate(pairs, start=1)
        ]
    else:
        return None
    if not any(line.possible for line in gold):
        raise DataError(f"{path or 'the test set'}: no gold links at all; leave out the gold file")
    for pair, line in zip(pairs, gold, strict=True):
        line.check(*(len(split(normalize_line(side))) for side in (pair.source, pair.target)))
    return gold


# --- Alignment error rate


@dataclass(frozen=True)
class AlignmentError:
    """Rates from 0 to 1 over a corpus (Och & Ney 2003, section 5); None where there is no link.

    A is the set of links found, S the sure and P the possible gold links (S within P).
    """

    aer: float | None  # 1 - (|A & S| + |A & P|) / (|A| + |S|)
    precision: float | None  # |A & P| / |A|
    recall: float | None  # |A & S| / |S|
    links: int  # |A|
    sure: int  # |S|


def alignment_error(links: Sequence[Links], gold: Sequence[Gold]) -> AlignmentError:
    """Compare the links of each sentence pair with its gold links; count over all pairs."""
    pairs = list(zip(links, gold, strict=True))
    size, sure = sum(map(len, links)), sum(len(true.sure) for true in gold)
    found_sure = sum(len(found & true.sure) for found, true in pairs)
    found_possible = sum(len(found & true.possible) for found, true in pairs)
    return AlignmentError(
        aer=1 - (found_sure + found_possible) / (size + sure) if size + sure else None,
        precision=found_possible / size if size else None,
        recall=found_sure / sure if sure else None,
        links=size,
        sure=sure,
    )
