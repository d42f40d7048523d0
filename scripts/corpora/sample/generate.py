"""Sampling sentence pairs from the grammar, and writing the split sample corpus."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from corpora.publishing import publish_files
from seq2seq.inference.words import format_links, words

from .sentences import sentence
from .tokens import Draw, Pair, finish

MIN_WORDS = 3
MAX_WORDS = 50


def generate(seed: int) -> Iterator[Pair]:
    """Yield sentence pairs endlessly; a seed always gives the same pairs."""
    draw = Draw(random.Random(seed))
    while True:
        draw.restart()
        phrase = sentence(draw)
        lengths = len(phrase.es), len(phrase.en)
        if min(lengths) >= MIN_WORDS and max(lengths) <= MAX_WORDS:
            yield finish(phrase)


def fold(text: str) -> str:
    """Return a sentence without case and punctuation, for comparison."""
    return " ".join(word for word in words(text.casefold()) if word[0].isalnum())


def format_pair(pair: Pair) -> str:
    """Return a pair as a line of the sample files."""
    return f"{pair.source}\t{pair.target}\t{format_links(pair.alignment)}\n"


def write_sample(directory: Path, *, seed: int, train: int, valid: int, test: int) -> str:
    """Write train.tsv, valid.tsv and test.tsv, with no sentence of either language twice.

    Test and validation pairs are drawn first, from the same stream as the training pairs, so
    that short and common sentences are not left to training alone. Returns the counts of pairs
    and words, a line per file.
    """
    stream = generate(seed)
    seen: tuple[set[str], set[str]] = (set(), set())
    counts = []
    with publish_files(directory) as aside:
        for split, size in {"test": test, "valid": valid, "train": train}.items():
            pairs = list(_unseen(stream, size, seen))
            text = "".join(format_pair(pair) for pair in pairs)
            (aside / f"{split}.tsv").write_bytes(text.encode())
            spanish = sum(len(words(pair.source)) for pair in pairs)
            english = sum(len(words(pair.target)) for pair in pairs)
            counts.append(f"{split}: {size} pairs, {spanish} Spanish and {english} English words")
    return "\n".join(counts)


def _unseen(stream: Iterator[Pair], size: int, seen: tuple[set[str], set[str]]) -> Iterator[Pair]:
    """Yield `size` pairs whose source and target are both new, and add them to `seen`."""
    sources, targets = seen
    found = 0
    while found < size:
        pair = next(stream)
        source, target = fold(pair.source), fold(pair.target)
        if source in sources or target in targets:
            continue
        sources.add(source)
        targets.add(target)
        found += 1
        yield pair
