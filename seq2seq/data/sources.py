"""What a corpus is made of, so that a change in it is noticed; where it lies is no matter."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seq2seq.config import CorpusConfig
from seq2seq.data.corpus import dataset_files

_HEAD = 1 << 20


def describe(corpus: CorpusConfig, checksum: Callable[[Path], str]) -> dict[str, Any]:
    """Return how a corpus is read, and the checksums of its files.

    A streamed dataset that is not on this machine goes by its name. A file that is not to be had is
    left to the reader of the corpus, which says why.
    """
    settings = corpus.model_dump(exclude={"path", "source_path", "target_path", "name"})
    if corpus.format != "huggingface":
        paths = (corpus.path, corpus.source_path, corpus.target_path)
        files = [Path(path) for path in paths if path is not None]
    elif corpus.streaming and not Path(str(corpus.name)).exists():
        return {**settings, "name": corpus.name}
    else:
        files = dataset_files(str(corpus.name), corpus.subset, split=str(corpus.split))
    sums: list[str | None] = []
    for file in files:
        try:
            sums.append(checksum(file))
        except OSError:
            sums.append(None)
    return {**settings, "files": sums}


def glance(path: Path) -> str:
    """Return a checksum of the size and the beginning of a file, without reading all of it."""
    with path.open("rb") as file:
        return hashlib.sha256(b"%d " % path.stat().st_size + file.read(_HEAD)).hexdigest()
