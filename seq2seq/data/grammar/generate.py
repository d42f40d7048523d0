"""Sampling the grammar and writing a split sample of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seq2seq.files import publish_files

from .sentences import sentence
from .tokens import Draw, Pair, finish, words

MIN_WORDS = 3
MAX_WORDS = 50


@dataclass(frozen=True)
class SampleSummary:
    """How many pairs and words `write_sample` put into each split."""

    pairs: dict[str, int]
    source_words: dict[str, int]
    target_words: dict[str, int]

    def __str__(self) -> str:
        return "\n".join(
            f"{split}: {count} pairs, {self.source_words[split]} Spanish and"
            f" {self.target_words[split]} English words"
            for split, count in self.pairs.items()
        )


def generate(seed: int) -> Iterator[Pair]:
    """Yield sentence pairs without end, the same ones for the same seed."""
    draw = Draw(random.Random(seed))
    while True:
        draw.restart()
        phrase = sentence(draw)
        lengths = len(phrase.es), len(phrase.en)
        if min(lengths) >= MIN_WORDS and max(lengths) <= MAX_WORDS:
            yield finish(phrase)


def fold(text: str) -> str:
    """Return a sentence without its case and punctuation, to compare sentences by."""
    return " ".join(word for word in words(text.casefold()) if word[0].isalnum())


def format_pair(pair: Pair) -> str:
    """Return a pair as a line of the sample files."""
    links = " ".join(f"{i}-{j}" for i, j in pair.alignment)
    return f"{pair.source}\t{pair.target}\t{links}\n"


def write_sample(
    directory: Path, *, seed: int = 1, train: int = 48_000, valid: int = 1_000, test: int = 1_000
) -> SampleSummary:
    """Write train.tsv, valid.tsv and test.tsv, no sentence of either language twice.

    The held-out files are filled first, from the same stream, so their sentences are as short
    and as common as any; what remains of the stream is for training.
    """
    sizes = {"test": test, "valid": valid, "train": train}
    stream = generate(seed)
    seen: tuple[set[str], set[str]] = (set(), set())
    pairs: dict[str, int] = {}
    source_words: dict[str, int] = {}
    target_words: dict[str, int] = {}
    with publish_files(directory) as aside:
        for split, size in sizes.items():
            chosen = list(_unseen(stream, size, seen))
            text = "".join(format_pair(pair) for pair in chosen)
            (aside / f"{split}.tsv").write_bytes(text.encode())
            pairs[split] = len(chosen)
            source_words[split] = sum(len(words(pair.source)) for pair in chosen)
            target_words[split] = sum(len(words(pair.target)) for pair in chosen)
    return SampleSummary(pairs, source_words, target_words)


def _unseen(stream: Iterator[Pair], size: int, seen: tuple[set[str], set[str]]) -> Iterator[Pair]:
    """Yield pairs whose source and target are both new, and remember them."""
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
