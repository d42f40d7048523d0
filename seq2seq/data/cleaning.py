"""Normalisation of text, and the pairs that training can do without, each drop counted."""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq.config import CleaningConfig, CorpusConfig, DataConfig
from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError
from seq2seq.files import sha256

Digests = npt.NDArray[np.uint64]


class DigestSet:
    """A growing set of 64-bit digests, in 8 bytes each (a Python set takes some 100).

    It is kept in sorted runs, each more than twice as long as the next, so that there are few of
    them and each digest is moved few times. Of n pairs, n^2 / 2^65 are taken for another: one in
    92,000 corpora of 20 million pairs has such a pair.
    """

    def __init__(self) -> None:
        self._runs: list[Digests] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def add(self, digests: Digests) -> npt.NDArray[np.bool_]:
        """Add digests; return which of them were new, the first of equal ones only."""
        _, first = np.unique(digests, return_index=True)
        new = np.zeros(len(digests), dtype=bool)
        new[first] = True
        for run in self._runs:
            places = np.minimum(run.searchsorted(digests), len(run) - 1)
            new &= run[places] != digests
        if new.any():
            self._runs.append(np.sort(digests[new]))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            self._runs[-2:] = [np.sort(np.concatenate(self._runs[-2:]), kind="stable")]
        return new


EMPTY = "empty side"
TOO_LONG = "too long"
RATIO = "length ratio"
DUPLICATE = "duplicate"
OVERLAP = "overlap with valid or test"
REASONS = (EMPTY, TOO_LONG, RATIO, DUPLICATE, OVERLAP)

_CHUNK = 4096  # pairs that are judged together


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
    if not text.isprintable():  # most texts are, and have nothing to be translated
        text = text.translate(_CONTROLS)
    return " ".join(unicodedata.normalize("NFC", text).split())


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


class Judged(NamedTuple):
    """Normalised pairs that have no fault in themselves, and what decides whether to keep them."""

    pairs: list[Pair]
    faults: Counter[str]  # of the others, by reason
    digests: Digests  # of each pair
    overlaps: list[tuple[int, Pair, dict[str, str]]]  # place, pair, where it occurs


def judge(raw: Iterable[Pair], config: CleaningConfig, held_out: HeldOut | None) -> Judged:
    """Return what can be said of each pair alone, so that processes can share the work."""
    pairs: list[Pair] = []
    faults: Counter[str] = Counter()
    overlaps = []
    for pair in map(normalize_pair, raw):
        fault = _fault(pair, config)
        if fault is not None:
            faults[fault] += 1
            continue
        if held_out is not None and (found := held_out.find(pair)):
            overlaps.append((len(pairs), pair, found))
        pairs.append(pair)
    digests = b"".join(_digest(f"{pair.source}\t{pair.target}") for pair in pairs)
    return Judged(pairs, faults, np.frombuffer(digests, np.uint64), overlaps)


class Cleaner:
    """Decides which of the judged pairs are kept, in the order of the corpus, and counts all."""

    def __init__(
        self, config: CleaningConfig, held_out: HeldOut | None, report: CleaningReport
    ) -> None:
        self._config, self._held_out, self._report = config, held_out, report
        self._seen = DigestSet()
        report.drops_overlap = config.drop_overlap

    def keep(self, judged: Judged) -> npt.NDArray[np.bool_]:
        """Return which of the pairs are kept."""
        report, config = self._report, self._config
        kept = np.ones(len(judged.digests), dtype=bool)
        if config.drop_duplicates:
            kept = self._seen.add(judged.digests)
        report.dropped[DUPLICATE] += int((~kept).sum())
        for place, pair, found in judged.overlaps:
            if kept[place] and self._held_out is not None:
                for name, kind in found.items():
                    size = self._held_out.sizes[name]
                    report.overlaps.setdefault(name, Overlap(size)).count(kind, pair)
                kept[place] = not config.drop_overlap
                report.dropped[OVERLAP] += config.drop_overlap
        for reason, number in judged.faults.items():
            report.dropped[reason] += number
        report.read += len(kept) + judged.faults.total()
        report.kept += int(kept.sum())
        return kept


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
    cleaner = Cleaner(config, held_out, CleaningReport() if report is None else report)
    for chunk in chunks(pairs):
        judged = judge(chunk, config, held_out)
        yield from itertools.compress(judged.pairs, cleaner.keep(judged))


def chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Yield all pairs, some thousands at a time."""
    iterator = iter(pairs)
    while chunk := list(itertools.islice(iterator, _CHUNK)):
        yield chunk


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
