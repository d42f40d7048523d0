"""Alignment error rate, precision and recall (Och & Ney 2003, section 5).

A links found, S sure and P possible gold links (S within P).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seq2seq.evaluation.gold import Gold, Links


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
