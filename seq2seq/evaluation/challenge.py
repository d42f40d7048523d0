"""Compare the probabilities of right and wrong translations, by phenomenon.

A challenge is a TSV file of minimal pairs: phenomenon, source, right and wrong translation. Both
are scored by forced decoding (Sennrich 2017; Burlot & Yvon 2017).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

from seq2seq.data.corpus import parse_rows, read_lines
from seq2seq.data.tokenizer import normalize_line
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import WINDOW
from seq2seq.inference.translator import Translator
from seq2seq.processes import SERIAL, Parallelism

_Z = 1.959964  # of a two-sided 95 % interval
_SHOWN = 3  # failures of a phenomenon


@dataclass(frozen=True)
class MinimalPair:
    """A source with a right and a wrong translation, and by how much the right one wins.

    `total` is the difference of their log probabilities, `per_piece` the difference of the means
    over target pieces, the end included.
    """

    phenomenon: str
    source: str
    right: str
    wrong: str
    total: float = 0.0
    per_piece: float = 0.0


@dataclass(frozen=True)
class PhenomenonScores:
    """How often the right translation is more probable; the fields are the keys of its JSON."""

    phenomenon: str
    pairs: int
    total: dict[str, float]  # see `accuracy`
    per_piece: dict[str, float]
    failures: list[MinimalPair]  # by the total, the worst first


@dataclass(frozen=True)
class Challenge:
    """The scores of each phenomenon and, if there are several, of all; and the scored pairs."""

    phenomena: list[PhenomenonScores]
    scored: list[MinimalPair]

    def as_text(self) -> str:
        """Return a table of the phenomena."""
        width = max(len(row.phenomenon) for row in self.phenomena) + 10
        rows = [f"{'phenomenon':{width}} pairs   right %  95 %            per piece %  95 %"]
        for row in self.phenomena:
            total, each = (
                (found["percent"], f"{found['low']:.1f} to {found['high']:.1f}")
                for found in (row.total, row.per_piece)
            )
            start = f"{row.phenomenon:{width}}{row.pairs:6}{total[0]:10.1f}  {total[1]:15}"
            rows.append(f"{start}{each[0]:12.1f}  {each[1]}")
        return "\n".join(rows)

    def as_dict(self) -> dict[str, Any]:
        """Return the scores without the pairs, as JSON can hold them."""
        return {"phenomena": list(map(asdict, self.phenomena))}


def accuracy(margins: Sequence[float]) -> dict[str, float]:
    """Return the percentage of margins above 0 and its 95 % score interval (Wilson 1927)."""
    size, share = len(margins), sum(margin > 0 for margin in margins) / len(margins)
    middle, scale = share + _Z**2 / (2 * size), 100 / (1 + _Z**2 / size)
    spread = _Z * math.sqrt(share * (1 - share) / size + (_Z / (2 * size)) ** 2)
    low, high = scale * (middle - spread), scale * (middle + spread)
    percent = 100 * share  # rounding may put it a little outside the interval
    return {"percent": percent, "low": min(percent, max(0.0, low)), "high": max(percent, high)}


def read_challenge(path: str) -> list[MinimalPair]:
    """Return the minimal pairs of a TSV file; blank lines are skipped.

    Raises DataError with the file and its malformed lines.
    """

    def parse(where: str, text: str) -> MinimalPair | None:
        columns = list(map(normalize_line, text.split("\t")))
        if not any(columns):
            return None
        if len(columns) != 4 or not all(columns):
            found = f"{len(columns)} columns, {sum(map(bool, columns))} of them with text"
            raise DataError(
                f"{where}: {found}; give phenomenon, source, right and wrong translation"
            )
        if columns[2] == columns[3]:
            raise DataError(f"{where}: both translations are '{columns[2]}'; change the wrong one")
        phenomenon, source, right, wrong = columns
        return MinimalPair(phenomenon, source, right, wrong)

    return list(parse_rows(read_lines(path), parse, "minimal pairs are expected"))


def score_challenge(
    translator: Translator, pairs: Sequence[MinimalPair], *, parallelism: Parallelism = SERIAL
) -> Challenge:
    """Score minimal pairs by forced decoding; lines are not split into sentences.

    A pair fails, with margins of 0, if its translations have the same pieces.
    """
    parallelism = parallelism.for_lines(len(pairs), translator.worker_memory)
    windows = parallelism.split(pairs, WINDOW)
    results = parallelism.map(partial(_scored, translator), windows, on_gpu=translator.on_gpu)
    groups: defaultdict[str, list[MinimalPair]] = defaultdict(list)
    for pair in (scored := list(chain.from_iterable(results))):
        groups[pair.phenomenon].append(pair)
    if len(groups) > 1:
        groups["all"] = scored
    return Challenge([_summary(*group) for group in groups.items()], scored)


def _scored(translator: Translator, pairs: Sequence[MinimalPair]) -> list[MinimalPair]:
    sources, found = [pair.source for pair in pairs], []
    rights = translator.force_decode(sources, [pair.right for pair in pairs])
    wrongs = translator.force_decode(sources, [pair.wrong for pair in pairs])
    for pair, right, wrong in zip(pairs, rights, wrongs, strict=True):
        means = [part.log_prob / len(part.target_pieces) for part in (right, wrong)]
        margins = right.log_prob - wrong.log_prob, means[0] - means[1]
        if right.target_pieces != wrong.target_pieces:
            pair = replace(pair, total=margins[0], per_piece=margins[1])
        found.append(pair)
    return found


def _summary(phenomenon: str, pairs: Sequence[MinimalPair]) -> PhenomenonScores:
    failures = sorted((pair for pair in pairs if pair.total <= 0), key=lambda pair: pair.total)
    total, per_piece = (accuracy([getattr(pair, name) for pair in pairs])
                        for name in ("total", "per_piece"))  # fmt: skip
    return PhenomenonScores(phenomenon, len(pairs), total, per_piece, failures[:_SHOWN])
