"""The general corpus: read from clones, cleaned, with whole documents held out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import chain
from pathlib import Path
from xml.etree.ElementTree import ParseError

from yaml import YAMLError

from corpora.clones import commit
from corpora.general.readers import READERS, tico
from corpora.general.sources import Files, read_sources
from corpora.general.text import is_translation, sentence_pairs
from corpora.publishing import publish_files
from corpora.tatoeba.prepare import METADATA
from seq2seq.config import CleaningConfig, CorpusConfig
from seq2seq.data.cleaning import HeldOut, assess_pairs, clean, filter_pairs
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.errors import DataError

# Sets to choose models on: at least so many pairs, of whole documents.
DEV = {
    "OpenStax textbooks": ("dev-openstax.tsv", 1000),
    "Python's documentation": ("dev-pydocs.tsv", 1000),
    "PHP manual": ("dev-php.tsv", 500),
    "TICO-19": ("dev-tico.tsv", 1400),
    "XQuAD": ("dev-xquad.tsv", float("inf")),
}
# valid.tsv: so many rows of the first file that is held out (Tatoeba's valid.tsv), and of the sets.
VALID, OF_SETS = 1000, {"dev-xquad.tsv": 400, "dev-pydocs.tsv": 100}
FILES = ("train.tsv", "valid.tsv", *(name for name, _ in DEV.values()))

_CLEANING = CleaningConfig(drop_overlap=True)


@dataclass
class Counts:
    """What became of a source."""

    source: str
    licence: str
    commits: dict[str, str] = field(default_factory=dict)
    documents: int = 0
    unreadable: list[str] = field(default_factory=list)
    read: int = 0  # pairs of sentences, before cleaning
    dev: int = 0
    train: int = 0


def prepare_general(
    clones: Path,
    directory: Path,
    *,
    held_out: Sequence[Path],
    skip_missing: bool = False,
    show: Callable[[str], None] = print,
) -> None:
    """Write train.tsv, valid.tsv, the sets to choose on and metadata.json from clones.

    No training pair shares a side with these sets or with the files in `held_out`, which have
    the columns Spanish, English, further English references. Raises DataError where clones are
    missing, after the commands that make them, unless `skip_missing`; or where no pair remains.
    """
    layouts = (CorpusConfig(path=str(path), references=True) for path in held_out)
    given = [list(read_corpus(layout)) for layout in layouts]
    held = HeldOut()
    held.add("held-out files", chain.from_iterable(given))
    table: dict[str, Counts] = {}
    sets: dict[str, list[Pair]] = {}
    pairs: list[tuple[str, Pair]] = []
    documents: dict[str, list[tuple[str, list[Pair]]]] = {}
    for files in _present(clones, skip_missing, show):
        counts = table.setdefault(files.source, Counts(files.source, files.licence))
        counts.commits |= {each.name: commit(each.folder(clones)) for each in files.repositories}
        documents.setdefault(files.source, []).extend(_documents(files, clones, counts))
    for source, found in documents.items():
        name, wanted = DEV.get(source, ("", 0))
        chosen: list[Pair] = []
        for _, rows in sorted(found, key=lambda document: sha256(document[0].encode()).digest()):
            table[source].read += len(rows)
            if len(chosen) < wanted:
                chosen += rows
            else:
                pairs += ((source, pair) for pair in rows)
        if name:
            sets[name], _ = clean(chosen, _CLEANING, held)
            table[source].dev = len(sets[name])
    held.add("sets to choose on", chain.from_iterable(sets.values()))
    valid = given[0][:VALID]
    for name, chosen in sets.items():
        valid += chosen[: OF_SETS.get(name, 0)]
    assessed = assess_pairs((pair for _, pair in pairs), _CLEANING, held)
    mask, report = filter_pairs(assessed, _CLEANING, held)
    train = [pair for pair, kept in zip(assessed.pairs, mask, strict=True) if kept]
    if not train:
        raise DataError(f"{clones}: no pairs remain; check that its clones have their files")
    for (source, _), kept in zip(pairs, mask, strict=True):
        table[source].train += int(kept)
    metadata = {
        "pairs": len(train),
        "dropped": report.dropped,
        "sources": [asdict(counts) for counts in table.values()],
    }
    with publish_files(directory) as aside:
        for name, rows in {"train.tsv": train, "valid.tsv": valid, **sets}.items():
            text = "".join(f"{pair.source}\t{pair.target}\n" for pair in rows)
            (aside / name).write_bytes(text.encode())
        text = json.dumps(metadata, indent=2, ensure_ascii=False) + "\n"
        (aside / METADATA).write_text(text, encoding="utf-8")
    dropped = (f"dropped, {reason}: {n:,}" for reason, n in report.dropped.items() if n)
    for line in (*_lines(table), *dropped):
        show(line)
    show(f"{directory}: train.tsv {len(train):,} rows, valid.tsv {len(valid):,}, {', '.join(sets)}")


def _present(clones: Path, skip_missing: bool, show: Callable[[str], None]) -> list[Files]:
    """Return the sources whose clones are all there; print the commands that make the others."""
    sources = read_sources()
    repositories = dict.fromkeys(each for files in sources for each in files.repositories)
    missing = [each for each in repositories if not each.folder(clones).is_dir()]
    for repository in missing:
        for command in repository.commands(clones):
            show(command)
    if missing and not skip_missing:
        raise DataError(
            f"{clones}: {len(missing)} of {len(repositories)} clones are missing; run the commands "
            "above, or pass --skip-missing to do without them"
        )
    return [files for files in sources if not set(missing) & set(files.repositories)]


def _documents(files: Files, clones: Path, counts: Counts) -> Iterator[tuple[str, list[Pair]]]:
    """Yield the name and the pairs of each document; note the files that cannot be read."""
    found: list[tuple[str, list[tuple[str, str]]]] = []
    if files.format == "tico":
        found += tico(files.repositories[0].folder(clones) / files.pattern).items()
    else:
        for spanish, english in files.pairs(clones):
            name = spanish.relative_to(clones).as_posix()
            try:
                found.append((name, list(READERS[files.format](spanish, english))))
            except (OSError, ValueError, YAMLError, ParseError) as error:
                counts.unreadable.append(f"{name}: {' '.join(str(error).split())}")
    for name, paragraphs in found:
        counts.documents += 1
        sentences = (sides for each in paragraphs for sides in sentence_pairs(*each))
        yield name, [Pair(*sides) for sides in sentences if is_translation(*sides)]


def _lines(table: dict[str, Counts]) -> Iterator[str]:
    """Yield a table of the counts by source, then the files that could not be read."""
    width = max(map(len, table)) + 2
    yield f"{'source':<{width}}{'documents':>10}{'read':>10}{'dev':>8}{'train':>10}  licence"
    for row in table.values():
        numbers = f"{row.documents:>10,}{row.read:>10,}{row.dev:>8,}{row.train:>10,}"
        yield f"{row.source:<{width}}{numbers}  {row.licence}"
    for row in table.values():
        for line in row.unreadable[:3]:
            yield f"cannot be read ({len(row.unreadable)} files of {row.source}): {line}"
