"""The general corpus: read from clones, cleaned, with whole documents held out."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import chain
from pathlib import Path
from xml.etree.ElementTree import ParseError

from yaml import YAMLError

from corpora.clones import commit
from corpora.general.readers import READERS, lang_history, tico
from corpora.general.sources import Files, Repository, read_sources
from corpora.general.text import is_translation, sentence_pairs
from corpora.publishing import publish_files
from corpora.tatoeba.prepare import METADATA
from seq2seq.config import CleaningConfig, CorpusConfig
from seq2seq.data.cleaning import CleaningReport, HeldOut, assess_pairs, filter_pairs, fold
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.errors import DataError

# Sets to choose models on, of sources or of files of training pairs: at least so many pairs, of
# whole documents.
DEV = {
    "OpenStax textbooks": ("dev-openstax.tsv", 1000),
    "Python's documentation": ("dev-pydocs.tsv", 1000),
    "PHP manual": ("dev-php.tsv", 500),
    "TICO-19": ("dev-tico.tsv", 1400),
    "XQuAD": ("dev-xquad.tsv", float("inf")),
    "story.tsv": ("dev-story.tsv", 1000),
    "public.tsv": ("dev-public.tsv", 1000),
}
# Where the sources of a file have few documents, or repeat them: its document is all pairs of an
# English sentence, and of these the ones of so many words are chosen.
OF_SENTENCES, WORDS = {"story.tsv", "public.tsv"}, range(8, 46)
# valid.tsv: so many rows of the first file that is held out (Tatoeba's valid.tsv), and of the sets.
VALID, OF_SETS = 1000, {
    "dev-xquad.tsv": 400, "dev-pydocs.tsv": 100, "dev-story.tsv": 200, "dev-public.tsv": 200,
}  # fmt: skip
OUTPUTS = (
    "train.tsv", "story.tsv", "argentina.tsv", "dialogue.tsv", "public.tsv", "office.tsv",
    "words.tsv",
)  # fmt: skip
FILES = (*OUTPUTS, "valid.tsv", *(name for name, _ in DEV.values()))

_CLEANING = CleaningConfig(drop_overlap=True)


Row = tuple[str, Pair]  # source of a pair, pair


@dataclass
class Counts:
    """What became of a source."""

    source: str
    licence: str
    output: str
    commits: dict[str, list[str]] = field(default_factory=dict)
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
    """Write the files of training pairs, valid.tsv, the sets to choose on and metadata.json.

    They are made from clones and packages. No training pair shares a side with these sets or with
    the files in `held_out`, which have the columns Spanish, English, further English references.
    Raises DataError where clones are missing, after the commands that make them, unless
    `skip_missing`; or where no pair remains.
    """
    layouts = (CorpusConfig(path=str(path), references=True) for path in held_out)
    given = [list(read_corpus(layout)) for layout in layouts]
    held = HeldOut()
    held.add("held-out files", chain.from_iterable(given))
    table: dict[str, Counts] = {}
    sets: dict[str, list[Row]] = {}
    rows: list[Row] = []
    documents: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for files in _present(clones, skip_missing, show):
        counts = table.setdefault(files.source, Counts(files.source, files.licence, files.output))
        for each in files.repositories:
            counts.commits.setdefault(each.name, []).append(_version(each, clones))
        found = documents[files.source if files.source in DEV else files.output]
        for name, pairs in _documents(files, clones, counts):
            counts.read += len(pairs)
            for pair in pairs:
                unit = fold(pair.target) if files.output in OF_SENTENCES else name
                found[unit].append((files.source, pair))
    for key, units in documents.items():
        name, wanted = DEV.get(key, ("", 0))
        chosen: list[Row] = []
        for unit in sorted(units, key=lambda each: sha256(each.encode()).digest()):
            is_chosen = len(chosen) < wanted and (
                key not in OF_SENTENCES or _has_words(units[unit])
            )
            (chosen if is_chosen else rows).extend(units[unit])
        if name and chosen:
            sets[name], _ = _clean(chosen, held)
            for source, _ in sets[name]:
                table[source].dev += 1
    held.add("sets to choose on", (pair for chosen in sets.values() for _, pair in chosen))
    valid = [("", pair) for pair in given[0][:VALID]]
    for name, chosen in sets.items():
        valid += chosen[: OF_SETS.get(name, 0)]
    train, report = _clean(rows, held)
    if not train:
        raise DataError(f"{clones}: no pairs remain; check that its clones have their files")
    outputs: dict[str, list[Row]] = defaultdict(list)
    for source, pair in train:
        table[source].train += 1
        outputs[table[source].output].append((source, pair))
    metadata = {
        "pairs": len(train),
        "dropped": report.dropped,
        "sources": [asdict(counts) for counts in table.values()],
    }
    with publish_files(directory) as aside:
        for name, written in {**outputs, "valid.tsv": valid, **sets}.items():
            text = "".join(f"{pair.source}\t{pair.target}\n" for _, pair in written)
            (aside / name).write_bytes(text.encode())
        text = json.dumps(metadata, indent=2, ensure_ascii=False) + "\n"
        (aside / METADATA).write_text(text, encoding="utf-8")
    dropped = (f"dropped, {reason}: {n:,}" for reason, n in report.dropped.items() if n)
    for line in (*_lines(table), *dropped):
        show(line)
    sizes = [f"{name} {len(outputs[name]):,}" for name in OUTPUTS if name in outputs]
    show(f"{directory}: rows: {', '.join(sizes)}, valid.tsv {len(valid):,}, {', '.join(sets)}")


def _has_words(rows: Sequence[Row]) -> bool:
    """Return whether both sides of all pairs have as many words as a sentence."""
    sides = (side for _, pair in rows for side in (pair.source, pair.target))
    return all(len(side.split()) in WORDS for side in sides)


def _clean(rows: Sequence[Row], held: HeldOut) -> tuple[list[Row], CleaningReport]:
    """Return the rows that are kept, normalized, and the counts of all."""
    assessed = assess_pairs((pair for _, pair in rows), _CLEANING, held)
    mask, report = filter_pairs(assessed, _CLEANING, held)
    cleaned = zip(rows, assessed.pairs, mask, strict=True)
    return [(source, pair) for (source, _), pair, kept in cleaned if kept], report


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
    elif files.format == "lang history":
        folder = files.repositories[0].folder(clones)
        try:
            found.append((folder.name, list(lang_history(folder, files.pattern))))
        except (OSError, subprocess.CalledProcessError) as error:
            counts.unreadable.append(f"{folder.name}: {error}")
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


def _version(repository: Repository, clones: Path) -> str:
    """Return the commit that a clone is at, or the version of a package."""
    return repository.commit if repository.is_package else commit(repository.folder(clones))


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
