"""One alignment out of two: of a model and of a model of the opposite direction.

Both are sets of (source word, target word) of the same sentence pair.
"""

from __future__ import annotations

from collections.abc import Callable

from seq2seq.evaluation.gold import Link, Links

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
