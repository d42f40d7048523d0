"""Gold word alignments: links that people, or a grammar, made.

The Pharaoh format has a line a sentence pair, with links that white space separates: `i-j` is a
sure link of source word i and target word j, `i?j` and `ipj` are possible ones. Words count from 0,
or from 1 as some gold sets do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from seq2seq.data.corpus import read_lines
from seq2seq.errors import DataError

Link = tuple[int, int]  # source word, target word, from 0
Links = frozenset[Link]

_LINK = re.compile(r"([0-9]+)([-?p])([0-9]+)")


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
