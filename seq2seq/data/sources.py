"""What a corpus is made of: its files known by their content, wherever they lie.

A run keeps the checksums of its training and validation files in data.json, {"data.train.0.path":
"sha256 of the file", ...}, so that it is never resumed on other data. The cache of prepared data
names its entries by the same checksums. The test corpus is watched for leaks only.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.data.corpus import dataset_files, read_corpus
from seq2seq.errors import CheckpointError, DataError
from seq2seq.files import sha256
from seq2seq.packaged import find_data

if TYPE_CHECKING:
    from seq2seq.config import CorpusConfig, DataConfig

log = logging.getLogger(__name__)

PLACES = ("path", "source_path", "target_path", "name")

_HEAD_BYTES = 1 << 20


def quick_hash(path: Path) -> str:
    """Return a checksum of a file's size and first megabyte, for corpora that are streamed."""
    with path.open("rb") as file:
        return hashlib.sha256(b"%d " % path.stat().st_size + file.read(_HEAD_BYTES)).hexdigest()


def describe(corpus: CorpusConfig, checksum: Callable[[Path], str]) -> dict[str, Any]:
    """Return how a corpus is read, and the checksums of its files, ready for JSON.

    A streamed dataset that is not on this machine goes by its name. A missing file has no checksum;
    the reader of the corpus reports it. Raises DataError for a pipe, which can be read only once.
    """
    settings = corpus.model_dump(exclude=set(PLACES))
    places = [find_data(place) for key in PLACES if (place := getattr(corpus, key)) is not None]
    if corpus.format == "huggingface" and not places[0].exists():
        if corpus.streaming:
            return {**settings, "name": corpus.name}
        places = dataset_files(str(corpus.name), corpus.subset, split=str(corpus.split))
    for path in places:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise DataError(f"{path}: not a regular file; write the corpus to a file first")
    return {**settings, "files": [_checksum(path, checksum) for path in places]}


def refuse_same_files(data: DataConfig) -> None:
    """Raise DataError where the test corpus is a file of the training data, or a copy of one."""
    for number, corpus in enumerate(data.train):
        for tested in _files(data.test):
            for path in _files(corpus):
                same = path.samefile(tested) or (
                    path.stat().st_size == tested.stat().st_size and sha256(path) == sha256(tested)
                )
                if same:
                    raise DataError(
                        f"data.test: {tested} is the same as data.train.{number} ({path}); scores "
                        "on training data mean nothing: name other pairs, or leave it out"
                    )


def checksum_sources(data: DataConfig) -> dict[str, str]:
    """Return the checksum of each training and validation file or local dataset, by its key.

    A streamed file goes by its size and first megabyte; a pipe has none. A validation set that is
    on the Hugging Face hub goes by its pairs; such training data is known to BatchStream only.
    """
    found = {key: _checksum(find_data(place), of_file) for key, place, of_file in _places(data)}
    checksums = {key: value for key, value in found.items() if value}
    if data.valid.format == "huggingface" and "data.valid.name" not in checksums:
        digest = hashlib.sha256()
        for pair in read_corpus(data.valid):
            digest.update(json.dumps([pair.source, pair.target]).encode())
        checksums["data.valid.name"] = digest.hexdigest()
    return checksums


def check_sources(path: Path, data: DataConfig) -> None:
    """Compare the files of a recipe with the checksums of a run.

    Raises DataError, which names the file, where one is missing or differs; CheckpointError where
    the checksums themselves cannot be read.
    """
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        log.warning("%s: no such file; cannot check that the data is the same", path)
        return
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{path}: cannot be read ({error}); remove it to resume without checking the data"
        ) from None
    present, places = checksum_sources(data), {key: place for key, place, _ in _places(data)}
    for key, checksum in saved.items():
        if present.get(key) == checksum:
            continue
        if key not in present:
            raise DataError(
                f"{places.get(key)}: no such file; put it back, or give its path as {key}=PATH"
            )
        why = (
            "the best checkpoint so far was chosen by it"
            if key.startswith("data.valid")
            else "the batches are made from it"
        )
        raise DataError(
            f"{places[key]}: not the file that the run began with: {key} had the checksum "
            f"{checksum[:12]}... and has {present[key][:12]}... ({why}); put the old file back, or "
            "start a new run in another run_dir"
        )


def dump_checksums(checksums: Mapping[str, str]) -> str:
    """Return the text of data.json."""
    return json.dumps(checksums, indent=1) + "\n"


def _places(data: DataConfig) -> Iterator[tuple[str, str, Callable[[Path], str]]]:
    """Yield the key, the path or name, and the checksum function of each source."""
    corpora: dict[str, CorpusConfig] = {f"train.{n}": c for n, c in enumerate(data.train)}
    for name, corpus in (corpora | {"valid": data.valid}).items():
        for place in PLACES:
            if (value := getattr(corpus, place)) is not None:
                yield f"data.{name}.{place}", value, quick_hash if corpus.streaming else sha256


def _files(corpus: CorpusConfig | None) -> list[Path]:
    names = (corpus.path, corpus.source_path, corpus.target_path) if corpus else ()
    return [path for name in names if name is not None and (path := find_data(name)).is_file()]


def _checksum(path: Path, of_file: Callable[[Path], str]) -> str:
    """Return the checksum of a file, or of all files below a folder; "" for anything else."""
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
