"""Word alignments from attention weights.

Legend: T target pieces, S source pieces, both with the end of sentence; t, s words.

Gold word alignments: links that people, or a grammar, made.

The Pharaoh format has a line a sentence pair, with links that white space separates: `i-j` is a
sure link of source word i and target word j, `i?j` and `ipj` are possible ones. Words count from 0,
or from 1 as some gold sets do.

Alignment error rate, precision and recall (Och & Ney 2003, section 5).

A links found, S sure and P possible gold links (S within P).

One alignment out of two: of a model and of a model of the opposite direction.

Both are sets of (source word, target word) of the same sentence pair.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from seq2seq.data.cleaning import normalize
from seq2seq.data.corpus import Pair, read_lines
from seq2seq.errors import DataError
from seq2seq.inference.text import Part, Translation, normalize_line
from seq2seq.inference.translator import Translator

Link = tuple[int, int]  # source word, target word, from 0
Links = frozenset[Link]

_LINK = re.compile(r"([0-9]+)([-?p])([0-9]+)")
_WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]")


@dataclass(frozen=True)
class Gold:
    """The links of a sentence pair; every sure link is a possible one too (Och & Ney 2003)."""

    sure: Links
    possible: Links
    where: str = "gold"

    def check(self, source_words: int, target_words: int) -> None:
        """Raise DataError where a link is outside the sentences."""
        for source, target in sorted(self.possible):
            if source >= source_words or target >= target_words:
                raise DataError(
                    f"{self.where}: link {source}-{target}, counted from 0, but the source has "
                    f"{source_words} and the target {target_words} words; try the other --words, "
                    "or --one-based"
                )


def parse_gold(text: str, where: str, *, first: int = 0) -> Gold:
    """Read a line of links whose words count from `first`.

    Raises DataError, which names `where`, for what is no link.
    """
    sure, possible = set(), set()
    for token in text.split():
        match = _LINK.fullmatch(token)
        if not match:
            raise DataError(
                f"{where}: '{token}' is no link; i-j (sure), i?j or ipj (possible) are expected"
            )
        link = (int(match[1]) - first, int(match[3]) - first)
        if min(link) < 0:
            raise DataError(f"{where}: link '{token}': words count from 0 here; drop --one-based")
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible), where)


def read_gold(path: str, *, first: int = 0) -> list[Gold]:
    """Read a file of gold links, a line a sentence pair; a blank line is a pair without links.

    Raises DataError for what cannot be read.
    """
    return [parse_gold(line.text, line.where, first=first) for line in read_lines(path)]


def format_links(links: Iterable[Link]) -> str:
    """Return links in Pharaoh format, from 0."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


Floats = npt.NDArray[np.float64]


def words(text: str) -> list[str]:
    """Split text into words and punctuation marks, as the links of the sample corpus count them."""
    return _WORD.findall(text)


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


@dataclass(frozen=True)
class AlignmentError:
    """Counts over a corpus, and what follows from them."""

    found: int  # |A|
    sure: int  # |S|
    found_sure: int  # |A & S|
    found_possible: int  # |A & P|

    @property
    def precision(self) -> float | None:
        """|A & P| / |A|: of the links found, the share that is possible; None without any."""
        return self.found_possible / self.found if self.found else None

    @property
    def recall(self) -> float | None:
        """|A & S| / |S|: of the sure links, the share that is found; None without any."""
        return self.found_sure / self.sure if self.sure else None

    @property
    def rate(self) -> float | None:
        """AER = 1 - (|A & S| + |A & P|) / (|A| + |S|); None where nothing is there to compare."""
        size = self.found + self.sure
        return 1 - (self.found_sure + self.found_possible) / size if size else None

    def as_dict(self) -> dict[str, float | int | None]:
        """Return all of it as JSON can hold it; rates from 0 to 1."""
        rates = {"aer": self.rate, "precision": self.precision, "recall": self.recall}
        return {**rates, "links": self.found, "sure": self.sure}


def alignment_error(links: Sequence[Links], gold: Sequence[Gold]) -> AlignmentError:
    """Compare the links of each sentence pair with its gold ones; count over all pairs."""
    pairs = list(zip(links, gold, strict=True))
    return AlignmentError(
        found=sum(len(found) for found, _ in pairs),
        sure=sum(len(true.sure) for _, true in pairs),
        found_sure=sum(len(found & true.sure) for found, true in pairs),
        found_possible=sum(len(found & true.possible) for found, true in pairs),
    )


_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def intersection(forward: Links, backward: Links) -> Links:
    """Return the links of both: few and precise (Och & Ney 2003, section 4)."""
    return forward & backward


def union(forward: Links, backward: Links) -> Links:
    """Return the links of either: many, with a high recall (Och & Ney 2003, section 4)."""
    return forward | backward


def grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """Return the intersection, grown by links of the union (Koehn et al. 2005).

    Grow: while there is one, a link of the union beside or diagonal to a link that is there
    already is taken if its source or its target word has none. Final-and: then those links of the
    forward, after them of the backward alignment whose source and target word both have none.
    Links are looked at by target word, then source word; one that is taken counts at once.
    """
    grown = _Grown(forward & backward)
    candidates = forward | backward
    order = sorted(candidates, key=_by_target)
    more = True
    while more:
        before = len(grown.links)
        for source, target in order:
            if (source, target) not in grown.links:
                continue
            for below, beside in _NEIGHBOURS:
                link = (source + beside, target + below)
                if link in candidates and grown.lacks_a_word(link):
                    grown.add(link)
        more = len(grown.links) > before
    for direction in (forward, backward):
        for link in sorted(direction, key=_by_target):
            if grown.lacks_both_words(link):
                grown.add(link)
    return frozenset(grown.links)


def _by_target(link: Link) -> Link:
    return link[1], link[0]


class _Grown:
    """Links, and the words that have one."""

    def __init__(self, links: Links) -> None:
        self.links = set(links)
        self.sources = {source for source, _ in links}
        self.targets = {target for _, target in links}

    def add(self, link: Link) -> None:
        self.links.add(link)
        self.sources.add(link[0])
        self.targets.add(link[1])

    def lacks_a_word(self, link: Link) -> bool:
        return link[0] not in self.sources or link[1] not in self.targets

    def lacks_both_words(self, link: Link) -> bool:
        return link[0] not in self.sources and link[1] not in self.targets


SYMMETRIZATIONS: dict[str, Callable[[Links, Links], Links]] = {
    "intersection": intersection,
    "union": union,
    "grow-diag-final-and": grow_diag_final_and,
}

log = logging.getLogger(__name__)

Method = Literal["argmax", "threshold"]

# spaces: what white space separates; marks: each punctuation mark is a word of its own too.
WORDS: dict[str, Split] = {"spaces": str.split, "marks": words}
THRESHOLD = 0.3


def align(
    translator: Translator,
    pairs: Sequence[Pair],
    *,
    split: Split = str.split,
    method: Method = "argmax",
    threshold: float = THRESHOLD,
) -> list[Links]:
    """Return for each pair the links between its words, by forced decoding.

    argmax: each target word has its heaviest source word; threshold: all links of at least this
    weight (word_weights). Raises DataError for a model without attention.
    """
    parts = translator.force([pair.source for pair in pairs], [pair.target for pair in pairs])
    return [links_of(part, split=split, method=method, threshold=threshold) for part in parts]


def links_of(
    part: Part, *, split: Split, method: Method = "argmax", threshold: float = THRESHOLD
) -> Links:
    """Return the links of one translation; see align."""
    weights = word_weights(part, split)
    chosen = links(weights) if method == "argmax" else links_above(weights, threshold)
    return frozenset(chosen)


def align_both(
    translator: Translator,
    reverse: Translator,
    pairs: Sequence[Pair],
    *,
    split: Split = str.split,
    method: Method = "argmax",
    threshold: float = THRESHOLD,
) -> dict[str, list[Links]]:
    """Return the alignments of a model, of one of the opposite direction, and of both together.

    Their names are forward, reverse and those of SYMMETRIZATIONS; all links are (source, target)
    words of the pairs as they are given.
    """
    languages = [(t.config.data.source_language, t.config.data.target_language)
                 for t in (translator, reverse)]  # fmt: skip
    if languages[1] != languages[0][::-1]:
        log.warning(
            "the reverse model translates %s to %s by its data.source_language and "
            "data.target_language, the other one %s to %s",
            *languages[1], *languages[0],
        )  # fmt: skip
    turned = [Pair(pair.target, pair.source) for pair in pairs]
    forward = align(translator, pairs, split=split, method=method, threshold=threshold)
    against = align(reverse, turned, split=split, method=method, threshold=threshold)
    backward = [frozenset((source, target) for target, source in found) for found in against]
    both = list(zip(forward, backward, strict=True))
    joined = {name: [join(*pair) for pair in both] for name, join in SYMMETRIZATIONS.items()}
    return {"forward": forward, "reverse": backward, **joined}


def gold_of(
    pairs: Sequence[Pair], path: str | None = None, *, split: Split, first: int = 0
) -> list[Gold] | None:
    """Return the gold links of each pair: of a file, else those the corpus came with, else None.

    Raises DataError for links that cannot be read, are outside the sentences or are too few.
    """
    if path is not None:
        gold = read_gold(path, first=first)
        if len(gold) != len(pairs):
            raise DataError(f"{path}: {len(gold)} lines of links for {len(pairs)} sentence pairs")
    elif all(pair.alignment is not None for pair in pairs):
        gold = [
            parse_gold(str(pair.alignment), f"pair {number}", first=first)
            for number, pair in enumerate(pairs, start=1)
        ]
    else:
        return None
    if not any(line.possible for line in gold):
        raise DataError(f"{path or 'the test set'}: no gold links at all; leave the gold out")
    for pair, line in zip(pairs, gold, strict=True):
        line.check(*(len(split(normalize_line(side))) for side in (pair.source, pair.target)))
    return gold
