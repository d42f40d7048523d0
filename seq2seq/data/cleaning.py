"""Normalisation of text, and the pairs that training can do without, each drop counted."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from seq2seq.config import CleaningConfig, CorpusConfig, DataConfig
from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError
from seq2seq.files import sha256

EMPTY = "empty side"
TOO_LONG = "too long"
RATIO = "length ratio"
DUPLICATE = "duplicate"
OVERLAP = "overlap with valid or test"
REASONS = (EMPTY, TOO_LONG, RATIO, DUPLICATE, OVERLAP)


class _Controls(dict[int, str]):
    """What str.translate puts for a character: controls a space, format characters nothing."""

    def __missing__(self, code: int) -> str:
        category = unicodedata.category(chr(code))
        self[code] = {"Cc": " ", "Cs": " ", "Cf": ""}.get(category, chr(code))
        return self[code]


class _Punctuation(dict[int, str]):
    """What str.translate puts for a character: punctuation a space."""

    def __missing__(self, code: int) -> str:
        self[code] = " " if unicodedata.category(chr(code)).startswith("P") else chr(code)
        return self[code]


_CONTROLS = _Controls()
_PUNCTUATION = _Punctuation()


def normalize(text: str) -> str:
    """Return the text in NFC on one line, without controls, with single spaces, stripped.

    Control characters and half surrogates become spaces; format characters, such as zero-width
    spaces, soft hyphens and byte order marks, are removed.
    """
    return " ".join(unicodedata.normalize("NFC", text.translate(_CONTROLS)).split())


def normalize_pair(pair: Pair) -> Pair:
    """Return the pair with every side normalised; references that become empty are left out."""
    references = filter(None, map(normalize, pair.references))
    return Pair(normalize(pair.source), normalize(pair.target), tuple(references), pair.alignment)


def fold(text: str) -> str:
    """Return the normalised text without case and punctuation, for comparing.

    A text of punctuation only is kept as it is, so that '?' and '!' stay different.
    """
    folded = unicodedata.normalize("NFD", normalize(text)).casefold()
    folded = normalize(folded)
    return " ".join(folded.translate(_PUNCTUATION).split()) or folded


def refuse_same_files(data: DataConfig) -> None:
    """Raise DataError where the test corpus is a file that is trained on, or a copy of one."""
    for number, corpus in enumerate(data.train):
        for tested in _files(data.test):
            for path in _files(corpus):
                same = path.samefile(tested) or (
                    path.stat().st_size == tested.stat().st_size and sha256(path) == sha256(tested)
                )
                if same:
                    raise DataError(
                        f"data.test: {tested} is the same as data.train.{number} ({path}); a score "
                        "on what was trained on says nothing: name other pairs, or leave it out"
                    )


def _files(corpus: CorpusConfig | None) -> list[Path]:
    names = (corpus.path, corpus.source_path, corpus.target_path) if corpus else ()
    return [Path(name) for name in names if name is not None and Path(name).is_file()]


class _Side(NamedTuple):
    name: str
    sources: set[bytes]
    targets: set[bytes]


class HeldOut:
    """Digests of the folded sentences that training should not see."""

    def __init__(self) -> None:
        self._sides: list[_Side] = []
        self.sizes: dict[str, int] = {}

    def add(self, name: str, pairs: Iterable[Pair]) -> None:
        """Hold out the sources, targets and references of these pairs under a name."""
        side = _Side(name, set(), set())
        self._sides.append(side)
        self.sizes[name] = 0
        for pair in pairs:
            self.sizes[name] += 1
            side.sources.add(_digest(fold(pair.source)))
            side.targets.update(_digest(fold(text)) for text in (pair.target, *pair.references))

    def find(self, pair: Pair) -> dict[str, str]:
        """Return where a pair occurs: 'source', 'target' or 'both' by the name of the corpus."""
        source, target = _digest(fold(pair.source)), _digest(fold(pair.target))
        found = {}
        for side in self._sides:
            in_source, in_target = source in side.sources, target in side.targets
            if in_source or in_target:
                both = in_source and in_target
                found[side.name] = "both" if both else "source" if in_source else "target"
        return found


@dataclass
class Overlap:
    """Train pairs that occur in one held-out corpus."""

    size: int  # pairs of the held-out corpus
    source: int = 0
    target: int = 0
    both: int = 0
    example: Pair | None = None

    def count(self, kind: str, pair: Pair) -> None:
        """Count a pair; the first one, or else the first with both sides, is the example."""
        if self.example is None or (kind == "both" and not self.both):
            self.example = pair
        setattr(self, kind, getattr(self, kind) + 1)

    def line(self, name: str, *, dropped: bool) -> str:
        """Return a line for a person; it says so when the corpora seem to be the same."""
        number = self.source + self.target + self.both
        example = self.example or Pair("", "")
        text = (
            f"WARNING: {number} train pairs share a sentence with {name} (source {self.source}, "
            f"target {self.target}, both {self.both}); "
            f"{'dropped' if dropped else 'kept: set data.cleaning.drop_overlap=true to drop them'}"
            f"; for example: {_shorten(example.source)} | {_shorten(example.target)}"
        )
        if 2 * self.both >= self.size:
            text += f". {name} ({self.size} pairs) SEEMS TO BE PART OF THE TRAINING DATA"
        return text


@dataclass
class CleaningReport:
    """Pairs read, kept, and dropped by the first reason that applied."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    overlaps: dict[str, Overlap] = field(default_factory=dict)  # by name of the held-out corpus
    drops_overlap: bool = False

    def lines(self) -> list[str]:
        """Return a short table of all counts, warnings last."""
        counts = {"read": self.read, "kept": self.kept}
        counts |= {f"dropped, {reason}": number for reason, number in self.dropped.items()}
        width = max(map(len, counts))
        table = [f"{name:<{width}}  {number:>9}" for name, number in counts.items()]
        return table + self.warnings()

    def warnings(self) -> list[str]:
        """Return a line for each held-out corpus that training data overlaps with."""
        return [
            overlap.line(name, dropped=self.drops_overlap)
            for name, overlap in self.overlaps.items()
        ]


def clean(
    pairs: Iterable[Pair],
    config: CleaningConfig,
    held_out: HeldOut | None = None,
    *,
    report: CleaningReport | None = None,
) -> Iterator[Pair]:
    """Yield the normalised pairs that are kept, and count every pair in the report.

    Only digests of what was seen are held in memory; the report is whole when the last pair is out.
    """
    report = CleaningReport() if report is None else report
    report.drops_overlap = config.drop_overlap
    seen: set[bytes] = set()
    for raw in pairs:
        report.read += 1
        pair = normalize_pair(raw)
        reason = _fault(pair, config)
        if reason is None and config.drop_duplicates:
            digest = _digest(f"{pair.source}\t{pair.target}")
            reason = DUPLICATE if digest in seen else None
            seen.add(digest)
        if reason is None and held_out is not None:
            found = held_out.find(pair)
            for name, kind in found.items():
                overlap = report.overlaps.setdefault(name, Overlap(held_out.sizes[name]))
                overlap.count(kind, pair)
            reason = OVERLAP if found and config.drop_overlap else None
        if reason is None:
            report.kept += 1
            yield pair
        else:
            report.dropped[reason] += 1


def _fault(pair: Pair, config: CleaningConfig) -> str | None:
    if not pair.source or not pair.target:
        return EMPTY
    if max(len(pair.source), len(pair.target)) > config.max_chars:
        return TOO_LONG
    shortest, longest = sorted(len(side.split()) + 3 for side in (pair.source, pair.target))
    return RATIO if longest > config.max_ratio * shortest else None


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=8).digest()


def _shorten(text: str, size: int = 60) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
