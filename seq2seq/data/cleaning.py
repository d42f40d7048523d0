"""Normalization, cleaning rules and the overlap with held-out corpora; every drop is counted."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.errors import DataError
from seq2seq.languages import UNDETERMINED, Language, language

if TYPE_CHECKING:
    from seq2seq.config import CleaningConfig, DataConfig

Codes = npt.NDArray[np.uint8]
Digests = npt.NDArray[np.uint64]

EMPTY = "empty side"
TOO_LONG = "too long"
RATIO = "length ratio"
DUPLICATE = "duplicate"
OVERLAP = "overlap with valid or test"
REASONS = (EMPTY, TOO_LONG, RATIO, DUPLICATE, OVERLAP)


class _ByCategory(dict[int, str]):
    """For str.translate: replaces the characters of some Unicode categories."""

    def __init__(self, replacements: dict[str, str]) -> None:
        self.replacements = replacements

    def __missing__(self, code: int) -> str:
        self[code] = self.replacements.get(unicodedata.category(chr(code)), chr(code))
        return self[code]


_CONTROLS = _ByCategory({"Cc": " ", "Cs": " ", "Cf": ""})
_CONTROLS[ord("\u200d")] = "\u200d"  # joins emoji into one; elsewhere it is removed, too:
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
_LOOSE_JOINER = re.compile(f"(?<![{_EMOJI}\ufe0f])\u200d|\u200d(?![{_EMOJI}])")
_PUNCTUATION = _ByCategory(dict.fromkeys(("Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps"), " "))


def normalize(text: str) -> str:
    """Return the text in NFC on one line, with single spaces and without control characters.

    Control characters and lone surrogates become spaces; format characters, such as zero-width
    spaces, soft hyphens and byte order marks, are removed, but not joiners between emoji.
    """
    if not text.isprintable():  # most texts are printable and need no translation
        text = _LOOSE_JOINER.sub("", text.translate(_CONTROLS))
    return " ".join(unicodedata.normalize("NFC", text).split())


def normalize_pair(pair: Pair) -> Pair:
    """Return the pair with every side normalized; references that become empty are left out."""
    references = filter(None, map(normalize, pair.references))
    return replace(
        pair,
        source=normalize(pair.source),
        target=normalize(pair.target),
        references=tuple(references),
    )


def read_validation(data: DataConfig) -> list[Pair]:
    """Return the normalized validation pairs of a recipe. Raises DataError if there are none."""
    read = map(normalize_pair, read_corpus(data.valid))
    valid = [pair for pair in read if pair.source and pair.target]
    if not valid:
        raise DataError("data.valid: no pairs with text on both sides; validation needs some")
    return valid


def fold(text: str) -> str:
    """Return the normalized text without case and punctuation, for comparison.

    A text of punctuation only is kept, so that '?' and '!' stay different.
    """
    folded = unicodedata.normalize("NFD", normalize(text)).casefold()
    folded = normalize(folded)
    return " ".join(folded.translate(_PUNCTUATION).split()) or folded


class HeldOut:
    """Digests of the folded sentences that must not be trained on."""

    def __init__(self) -> None:
        self._sides: dict[str, tuple[set[bytes], set[bytes]]] = {}  # sources, targets by name
        self.sizes: dict[str, int] = {}

    def add(self, name: str, pairs: Iterable[Pair]) -> None:
        """Hold out the sources, targets and references of a corpus under a name."""
        sources: set[bytes] = set()
        targets: set[bytes] = set()
        self._sides[name] = sources, targets
        self.sizes[name] = 0
        for pair in pairs:
            self.sizes[name] += 1
            sources.add(_digest(fold(pair.source)))
            targets.update(_digest(fold(text)) for text in (pair.target, *pair.references))

    def overlap(self, pair: Pair) -> int:
        """Return where a pair occurs as two bits (1 source, 2 target) for each corpus in turn."""
        source, target = _digest(fold(pair.source)), _digest(fold(pair.target))
        return sum(
            ((source in sources) + 2 * (target in targets)) << 2 * n
            for n, (sources, targets) in enumerate(self._sides.values())
        )


@dataclass(frozen=True)
class Overlap:
    """Train pairs that occur in one held-out corpus."""

    size: int  # pairs of the held-out corpus
    source: int
    target: int
    both: int
    example: Pair  # the first with both sides, else the first of all

    def line(self, name: str, *, dropped: bool) -> str:
        """Return a warning in one line; a louder one if the corpora seem to be the same."""
        number = self.source + self.target + self.both
        text = (
            f"WARNING: {number} train pairs share a sentence with {name} (source {self.source}, "
            f"target {self.target}, both {self.both}); "
            f"{'dropped' if dropped else 'kept: set data.cleaning.drop_overlap=true to drop them'}"
            f"; for example: {_shorten(self.example.source)} | {_shorten(self.example.target)}"
        )
        if 2 * self.both >= self.size:
            text += f". {name} ({self.size} pairs) SEEMS TO BE PART OF THE TRAINING DATA"
        return text


@dataclass(frozen=True)
class CleaningReport:
    """Pairs read, kept, and dropped by the first reason that applied."""

    read: int
    kept: int
    dropped: dict[str, int]
    overlaps: dict[str, Overlap]  # by name of the held-out corpus
    drops_overlap: bool

    def lines(self) -> list[str]:
        """Return a short table of all counts, warnings last."""
        counts = {"read": self.read, "kept": self.kept}
        counts |= {f"dropped, {reason}": number for reason, number in self.dropped.items()}
        width = max(map(len, counts))
        table = [f"{name:<{width}}  {number:>9}" for name, number in counts.items()]
        return table + self.warnings()

    def warnings(self) -> list[str]:
        """Return a line for each held-out corpus that overlaps with the training data."""
        return [
            overlap.line(name, dropped=self.drops_overlap)
            for name, overlap in self.overlaps.items()
        ]


class Assessed(NamedTuple):
    """Normalized pairs and the results of assessing them, one row per pair."""

    pairs: Sequence[Pair]
    fault: Codes  # 0, or 1 + the index in REASONS of EMPTY, TOO_LONG or RATIO
    overlap: Codes  # see HeldOut.overlap
    digest: Digests


def assess_pairs(
    raw: Iterable[Pair],
    config: CleaningConfig,
    held_out: HeldOut | None = None,
    languages: tuple[str, str] = (UNDETERMINED, UNDETERMINED),
) -> Assessed:
    """Normalize pairs and assess each one alone, so that processes can share the work."""
    pairs, (source, target) = list(map(normalize_pair, raw)), map(language, languages)
    fault = np.array([_fault(pair, config, source, target) for pair in pairs], np.uint8)
    overlap = np.zeros(len(pairs), np.uint8)
    if held_out is not None:
        for row in np.flatnonzero(fault == 0).tolist():
            overlap[row] = held_out.overlap(pairs[row])
    digests = b"".join(_digest(f"{pair.source}\t{pair.target}") for pair in pairs)
    return Assessed(pairs, fault, overlap, np.frombuffer(digests, np.uint64))


def filter_pairs(
    assessed: Assessed, config: CleaningConfig, held_out: HeldOut | None = None
) -> tuple[npt.NDArray[np.bool_], CleaningReport]:
    """Return which pairs are kept, and the counts of all of them."""
    kept: npt.NDArray[np.bool_] = assessed.fault == 0
    dropped = dict.fromkeys(REASONS, 0)
    for code, reason in enumerate((EMPTY, TOO_LONG, RATIO), 1):
        dropped[reason] = int((assessed.fault == code).sum())
    if config.drop_duplicates:
        new = first_of_equal(assessed.digest, kept)
        dropped[DUPLICATE] = int(kept.sum()) - int(new.sum())
        kept = new
    overlap = np.where(kept, assessed.overlap, np.uint8(0))
    overlaps = {}
    for number, (name, size) in enumerate(held_out.sizes.items() if held_out else ()):
        kinds = (overlap >> 2 * number & 3).astype(np.uint8)
        _, source, target, both = np.bincount(kinds, minlength=4).tolist()
        if source or target or both:
            first = np.flatnonzero(kinds == 3 if both else kinds)[0]
            overlaps[name] = Overlap(size, source, target, both, assessed.pairs[int(first)])
    if config.drop_overlap:
        dropped[OVERLAP] = int((overlap > 0).sum())
        kept &= overlap == 0
    return kept, CleaningReport(len(kept), int(kept.sum()), dropped, overlaps, config.drop_overlap)


def first_of_equal(digests: Digests, among: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return a mask of the digests in `among` that are the first with their value.

    Two of n different pairs have the same 64 bits with a probability of n^2 / 2^65: in one of
    92,000 corpora of 20 million pairs.
    """
    first = np.zeros(len(digests), dtype=bool)
    parts = digests.view(np.uint8)[::8] % 16  # in sixteen parts: sorting takes 24 bytes a digest
    for part in range(16):
        rows = np.flatnonzero((parts == part) & among)
        first[rows[np.unique(digests[rows], return_index=True)[1]]] = True
    return first


def clean(
    pairs: Iterable[Pair], config: CleaningConfig, held_out: HeldOut | None = None
) -> tuple[list[Pair], CleaningReport]:
    """Return the normalized pairs that are kept, and the counts of all of them."""
    assessed = assess_pairs(pairs, config, held_out)
    kept, report = filter_pairs(assessed, config, held_out)
    return [assessed.pairs[row] for row in np.flatnonzero(kept).tolist()], report


def _fault(pair: Pair, config: CleaningConfig, source: Language, target: Language) -> int:
    """Return 1 + the index in REASONS of the first rule that a pair breaks, or 0."""
    if not pair.source or not pair.target:
        return 1 + REASONS.index(EMPTY)
    if max(len(pair.source), len(pair.target)) > config.max_chars:
        return 1 + REASONS.index(TOO_LONG)
    words = source.count_words(pair.source) + 3, target.count_words(pair.target) + 3
    return 1 + REASONS.index(RATIO) if max(words) > config.max_ratio * min(words) else 0


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=8).digest()


def _shorten(text: str, size: int = 60) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
