"""Which words are most often missing in translations, and which are there without reason."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from seq2seq.data.grammar.tokens import words

_LINES = 3


@dataclass(frozen=True)
class WordError:
    """A word, how often it is wrong, of how many times, in how many sentences, and the first."""

    word: str
    count: int
    of: int
    sentences: int
    lines: tuple[int, ...]  # from 1


def word_errors(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, most: int = 15
) -> tuple[list[WordError], list[WordError]]:
    """Return the words most often missing, and most often added.

    Words and punctuation marks of each translation are counted against those of the reference that
    it differs least from, without regard to their order: what the reference has more often is
    missing, what the translation has more often is added. A missing word is one of all times that
    the references have it, an added one of all times that the translations have it. The most
    frequent come first, of equals by the alphabet.
    """
    totals = Counter[str](), Counter[str]()
    wrong = Counter[str](), Counter[str]()
    lines: tuple[dict[str, list[int]], ...] = defaultdict(list), defaultdict(list)
    for number, (hypothesis, texts) in enumerate(zip(hypotheses, references, strict=True), 1):
        given = Counter(words(hypothesis))
        wanted = min((Counter(words(text)) for text in texts), key=lambda r: _distance(given, r))
        for side, (mine, other) in enumerate(((wanted, given), (given, wanted))):
            totals[side].update(mine)
            differing = mine - other
            wrong[side].update(differing)
            for word in differing:
                lines[side][word].append(number)
    missing, added = (
        [
            WordError(
                word,
                count,
                totals[side][word],
                len(lines[side][word]),
                tuple(lines[side][word][:_LINES]),
            )
            for word, count in sorted(wrong[side].items(), key=lambda item: (-item[1], item[0]))
        ][:most]
        for side in (0, 1)
    )
    return missing, added


def _distance(one: Counter[str], other: Counter[str]) -> int:
    return (one - other).total() + (other - one).total()
