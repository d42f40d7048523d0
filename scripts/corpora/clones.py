"""Corpora that are read from a clone, with their own splits: Multi30k and English-Japanese."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from corpora.publishing import publish_files
from corpora.tatoeba.prepare import METADATA
from seq2seq.config import CorpusConfig
from seq2seq.data.cleaning import normalize_pair
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.errors import DataError


@dataclass(frozen=True)
class Layout:
    """Where the texts are in a clone, line by line: TEXT.LANGUAGE for each text and language."""

    repository: str  # owner/name on GitHub
    folder: str
    valid: str  # the text that is for validation; others are `train` and `test*`
    languages: tuple[str, str]
    licence: str
    spaced: tuple[bool, bool] = (True, True)  # whether spaces between words belong to the text


MULTI30K = Layout(
    repository="multi30k/dataset",
    folder="data/task1/raw",
    valid="val",
    languages=("de", "en"),
    licence="none stated in the repository",
)
ENJA = Layout(
    repository="odashi/small_parallel_enja",
    folder=".",
    valid="dev",
    languages=("en", "ja"),
    licence="none stated in the repository; sentences of the Tanaka Corpus",
    spaced=(True, False),
)


def prepare_clone(
    layout: Layout, clone: Path, directory: Path, *, show: Callable[[str], None] = print
) -> None:
    """Write train.tsv, valid.tsv, a file for each test set, and metadata.json.

    The splits are those of the publisher, and no pair is left out. White space is normalized, so a
    tab within a sentence becomes a space. Raises DataError.
    """
    folder = text_folder(layout, clone)
    tests = {path.name.split(".")[0] for path in folder.glob(f"test*.{layout.languages[0]}*")}
    names = {"train": "train.tsv", layout.valid: "valid.tsv"}
    names |= {text: f"{text}.tsv" for text in sorted(tests) or ["test"]}
    splits = {name: _read(layout, folder, text) for text, name in names.items()}
    rows = {name: len(pairs) for name, pairs in splits.items()}
    metadata = {
        "source": f"https://github.com/{layout.repository}",
        "commit": commit(clone),
        "licence": layout.licence,
        "columns": layout.languages,
        "rows": rows,
    }
    with publish_files(directory) as aside:
        for name, pairs in splits.items():
            text = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
            (aside / name).write_bytes(text.encode())
        text = json.dumps(metadata, indent=2, ensure_ascii=False) + "\n"
        (aside / METADATA).write_text(text, encoding="utf-8")
    show(f"{directory}: {', '.join(f'{name} {n:,} rows' for name, n in rows.items())}, {METADATA}")
    show(f"columns: {', '.join(layout.languages)}; licence: {layout.licence}")


def text_folder(layout: Layout, clone: Path) -> Path:
    """Return the folder of the texts: that of a clone, or `clone` itself. Raises DataError."""
    text = f"train.{layout.languages[0]}"
    for folder in (clone / layout.folder, clone):
        if any(folder.glob(f"{text}*")):
            return folder
    found = f"no {text}" if clone.is_dir() else "no such folder"
    raise DataError(
        f"{clone}: {found}; pass a clone: git clone https://github.com/{layout.repository}"
    )


def _read(layout: Layout, folder: Path, text: str) -> list[Pair]:
    """Return the pairs of a text, which may be compressed, or in parts: NAME.000, NAME.001, ..."""
    source, target = (f"{text}.{language}" for language in layout.languages)
    for pattern in (source, f"{source}.gz", f"{source}.[0-9]*"):
        if found := sorted(folder.glob(pattern)):
            break
    else:
        raise DataError(
            f"{folder}: no {source}; pass a clone: git clone https://github.com/{layout.repository}"
        )
    read = chain.from_iterable(
        read_corpus(
            CorpusConfig(
                format="aligned",
                source_path=str(path),
                target_path=str(path.with_name(path.name.replace(source, target))),
            )
        )
        for path in found
    )
    return [_without_spaces(normalize_pair(pair), layout.spaced) for pair in read]


def _without_spaces(pair: Pair, spaced: tuple[bool, bool]) -> Pair:
    source, target = (
        text if keep else text.replace(" ", "")
        for text, keep in zip((pair.source, pair.target), spaced, strict=True)
    )
    return Pair(source, target)


def commit(clone: Path) -> str:
    """Return the commit that a clone is at, as git says."""
    if not (clone / ".git").exists():
        return "unknown"
    command = ["git", "-C", str(clone), "rev-parse", "HEAD"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() or "unknown"
