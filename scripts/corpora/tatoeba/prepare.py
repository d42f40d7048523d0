"""The Tatoeba corpus: downloaded, cleaned and split without leakage."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from corpora.publishing import publish_files
from corpora.tatoeba.download import download, is_archive, open_member
from seq2seq.config import CleaningConfig, CorpusConfig
from seq2seq.data.cleaning import clean, fold
from seq2seq.data.corpus import Pair, decode_lines, parse_columns, read_lines
from seq2seq.errors import DataError
from seq2seq.files import sha256 as sha256_of

MEMBER = "spa.txt"
LICENCE = "CC BY 2.0; attribution: tatoeba.org and manythings.org/anki"
FILES = ("train.tsv", "valid.tsv", "test.tsv")
METADATA = "metadata.json"
_LAYOUT = CorpusConfig(format="manythings", path=MEMBER)

# One row of valid or test takes its whole group out of the training data. Frequent short sentences
# link dozens of pairs into one group, too many to give up for one row, so such groups stay in
# train. In the Tatoeba list, 99 % of the pairs are in groups of at most ten.
MAX_GROUP = 10

Print = Callable[[str], None]


def prepare_tatoeba(
    source: str,
    directory: Path,
    *,
    valid: int = 2000,
    test: int = 2000,
    seed: int = 1,
    sha256: str | None = None,
    show: Print = print,
) -> None:
    """Write train.tsv, valid.tsv, test.tsv and metadata.json from the Tatoeba list.

    The source is a web address or a local file: a zip or tar archive that holds spa.txt, or spa.txt
    itself. Pairs are cleaned by the defaults of a recipe and split by groups that share a sentence.
    Raises DataError.
    """
    path = _obtain(source, directory, sha256, show)
    with _open_pairs(path) as pairs:
        kept, report = clean(pairs, CleaningConfig())
    for line in report.lines():
        show(line)
    split = split_pairs(kept, valid=valid, test=test, seed=seed)
    metadata = {
        "source": source if _is_address(source) else path.name,
        "sha256": sha256_of(path),
        "licence": LICENCE,
        "columns": "Spanish, English; in valid and test: further English references",
        "split": f"groups of pairs that share a sentence; valid and test hold one row per group of "
        f"at most {MAX_GROUP} pairs",
        "seed": seed,
        "pairs": {"read": report.read, "kept": report.kept, "dropped": report.dropped},
        "groups": {"number": split.groups, "largest": split.largest_group},
        "rows": {"train": len(split.train), "valid": len(split.valid), "test": len(split.test)},
    }
    _write(directory, split, json.dumps(metadata, indent=2, ensure_ascii=False) + "\n")
    for line in _summary(split, directory):
        show(line)


def _obtain(source: str, directory: Path, sha256: str | None, show: Print) -> Path:
    """Return the local file of a source; an address is downloaded into the directory."""
    if sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
        raise DataError(f"--sha256 {sha256}: 64 hexadecimal digits are expected")
    if not _is_address(source):
        path = Path(source)
        if not path.is_file():
            raise DataError(f"{source}: no such file; pass spa-eng.zip, {MEMBER} or a web address")
    else:
        name = re.split(r"[?#]", source)[0].rsplit("/", 1)[-1]
        path = directory / (re.sub(r"[^\w.-]", "_", name).lstrip(".") or "download")
        if path.exists():
            show(f"{path} already exists; using it (delete it to download again)")
        else:
            show(f"downloading {source}")
            download(source, path, sha256=sha256)
    if sha256 is not None and (found := sha256_of(path)) != sha256.lower():
        raise DataError(f"{path}: its SHA-256 is {found}, not {sha256.lower()}; it is another file")
    return path


@contextmanager
def _open_pairs(path: Path) -> Iterator[Iterable[Pair]]:
    if is_archive(path):
        with open_member(path, MEMBER) as stream:
            yield parse_columns(decode_lines(stream, f"{path}/{MEMBER}"), _LAYOUT)
    else:
        yield parse_columns(read_lines(str(path)), _LAYOUT)


def _write(directory: Path, split: Split, metadata: str) -> None:
    with publish_files(directory) as aside:
        for name, pairs in zip(FILES, (split.train, split.valid, split.test), strict=True):
            rows = ("\t".join((pair.source, pair.target, *pair.references)) for pair in pairs)
            (aside / name).write_bytes("".join(f"{row}\n" for row in rows).encode())
        (aside / METADATA).write_text(metadata, encoding="utf-8")


def _summary(split: Split, directory: Path) -> list[str]:
    references = sum(1 + len(pair.references) for pair in split.valid + split.test)
    return [
        f"{split.groups} groups of pairs that share a sentence; the largest has "
        f"{split.largest_group} pairs",
        f"valid and test: one row per group of at most {MAX_GROUP} pairs, so that few pairs leave "
        f"the training data; {split.held_out_pairs} did, for {references} references",
        f"{directory}: train.tsv {len(split.train)} rows, valid.tsv {len(split.valid)}, "
        f"test.tsv {len(split.test)}, {METADATA}",
        f"licence: {LICENCE}",
    ]


def _is_address(source: str) -> bool:
    return "://" in source


@dataclass(frozen=True)
class Split:
    """The three sides, and statistics of the groups that they were made from."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    groups: int
    largest_group: int
    held_out_pairs: int  # pairs of the groups of valid and test; only their rows are used


def split_pairs(pairs: Sequence[Pair], *, valid: int, test: int, seed: int) -> Split:
    """Return a split by groups of pairs that share a source or a target, compared folded.

    Every group is on one side only. Train has all pairs of its groups, in their order. Valid and
    test have one row for each of theirs, which have at most MAX_GROUP pairs: a source, its target,
    and its other targets as references. Raises DataError where there are too few such groups.
    """
    groups = group_pairs(pairs)
    eligible = [group for group in groups if len(group) <= MAX_GROUP]
    needed = valid + test
    if needed > len(eligible) or needed == len(groups):
        raise DataError(
            f"{len(pairs)} pairs form {len(groups)} groups that share no sentence, {len(eligible)} "
            f"of them of at most {MAX_GROUP} pairs: too few for {valid} valid and {test} test rows "
            "and a training side; ask for fewer rows or add pairs"
        )
    generator = random.Random(seed)
    drawn = generator.sample(eligible, needed)
    rows = [_draw_row([pairs[index] for index in group], generator) for group in drawn]
    held_out = {index for group in drawn for index in group}
    return Split(
        train=[pair for index, pair in enumerate(pairs) if index not in held_out],
        valid=rows[:valid],
        test=rows[valid:],
        groups=len(groups),
        largest_group=max(map(len, groups)),
        held_out_pairs=len(held_out),
    )


def group_pairs(pairs: Sequence[Pair]) -> list[list[int]]:
    """Return groups of pairs linked by equal folded sides, as indices, in order of the first."""
    parents = list(range(len(pairs)))

    def root(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    first: dict[tuple[str, str], int] = {}
    for index, pair in enumerate(pairs):
        for key in (("source", fold(pair.source)), ("target", fold(pair.target))):
            one, other = root(first.setdefault(key, index)), root(index)
            parents[max(one, other)] = min(one, other)
    groups: dict[int, list[int]] = {}
    for index in range(len(pairs)):
        groups.setdefault(root(index), []).append(index)
    return list(groups.values())


def _draw_row(group: Sequence[Pair], generator: random.Random) -> Pair:
    """Return a random source of a group with all of its targets."""
    source = generator.choice(list(dict.fromkeys(pair.source for pair in group)))
    target, *further = dict.fromkeys(pair.target for pair in group if pair.source == source)
    return Pair(source, target, tuple(further))
