"""The files that a run learns from, known again by their checksums.

A run keeps them in data.json: {"data.train.0.path": "sha256 of the file", ...}. What data.test
names is watched for leaks only, and is not among them.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from seq2seq.config import CorpusConfig, DataConfig
from seq2seq.data.corpus import read_corpus
from seq2seq.data.sources import glance
from seq2seq.errors import CheckpointError, DataError
from seq2seq.files import sha256

log = logging.getLogger(__name__)

PLACES = ("path", "source_path", "target_path", "name")


def checksum_sources(data: DataConfig) -> dict[str, str]:
    """Return the checksum of each file that there is, of a local dataset as of one.

    A streamed file goes by its size and beginning. A pipe can be read once only and has none. Of a
    dataset that is elsewhere the validation pairs have one; of its train pairs the batches know
    (BatchStream.state_dict).
    """
    found = {key: _checksum(Path(place), of_file) for key, place, of_file in _places(data)}
    checksums = {key: value for key, value in found.items() if value}
    if data.valid.format == "huggingface" and "data.valid.name" not in checksums:
        digest = hashlib.sha256()
        for pair in read_corpus(data.valid):
            digest.update(json.dumps([pair.source, pair.target]).encode())
        checksums["data.valid.name"] = digest.hexdigest()
    return checksums


def check_sources(path: Path, data: DataConfig) -> None:
    """Compare the files of a recipe with the checksums of a run.

    Raises DataError, which names the file, where one is gone or is another one; CheckpointError
    where the checksums themselves cannot be read.
    """
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        log.warning("%s: no such file; whether the data is the same is not known", path)
        return
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{path}: cannot be read ({error}); remove it to go on without comparing the data"
        ) from None
    given, places = checksum_sources(data), {key: place for key, place, _ in _places(data)}
    for key, checksum in saved.items():
        if given.get(key) == checksum:
            continue
        if key not in given:
            raise DataError(
                f"{places.get(key)}: no such file; put it back, or say with {key}=PATH where it is"
            )
        why = (
            "the best checkpoint so far was chosen by it"
            if key.startswith("data.valid")
            else "the batches are made from it"
        )
        raise DataError(
            f"{places[key]}: not what the run began with: {key} had the checksum "
            f"{checksum[:12]}... and has {given[key][:12]}... ({why}); put the old one back, or "
            "start a new run in another run_dir"
        )


def dump_checksums(checksums: Mapping[str, str]) -> str:
    """Return the text of data.json."""
    return json.dumps(checksums, indent=1) + "\n"


def _places(data: DataConfig) -> Iterator[tuple[str, str, Callable[[Path], str]]]:
    corpora: dict[str, CorpusConfig] = {f"train.{n}": c for n, c in enumerate(data.train)}
    for name, corpus in (corpora | {"valid": data.valid}).items():
        for place in PLACES:
            if (value := getattr(corpus, place)) is not None:
                yield f"data.{name}.{place}", value, glance if corpus.streaming else sha256


def _checksum(path: Path, of_file: Callable[[Path], str]) -> str:
    """Return the checksum of a file, or of all files below a folder; else nothing."""
    try:
        if path.is_file():
            return of_file(path)
        if not path.is_dir():
            return ""
        files = sorted(file for file in path.rglob("*") if file.is_file())
        lines = [f"{of_file(file)}  {file.relative_to(path)}\n" for file in files]
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
