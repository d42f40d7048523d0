"""Translate one side of a corpus into new training pairs, in a file that can be continued."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from tqdm import tqdm

from seq2seq.config import CorpusConfig
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.errors import DataError
from seq2seq.files import check_writable, naming, sync_directory, write_atomic
from seq2seq.inference.protocol import SearchOptions
from seq2seq.inference.translator import Translator
from seq2seq.onnx.graphs import read_graphs
from seq2seq.packaged import find_run
from seq2seq.processes import SERIAL, Parallelism
from seq2seq.runs.directory import find_checkpoint, run_of

WINDOW = 1000  # pairs that are sorted by length, translated and written together

# From the n-best list of a sentence and its reference, a choice makes the index of an entry.
Choose = Callable[[list[str], str], int]


@dataclass(frozen=True)
class Request:
    """How to make a new pair of an old one."""

    options: SearchOptions
    reverse: bool = False  # translate the target side; the translation is the new source side
    choose: Choose | None = None  # null: the best translation


def distill(
    translator: Translator,
    request: Request,
    corpus: CorpusConfig,
    output: Path,
    *,
    made_of: Mapping[str, Any],
    parallelism: Parallelism = SERIAL,
) -> int:
    """Write a line `source<TAB>target` for each pair of a corpus, with one side translated.

    Line n is made of pair n, whatever its translation is: training drops empty sides and
    duplicates. What is written does not depend on `parallelism`, nor on how often the command was
    stopped: it continues the file if that is `made_of` the same. Returns the number of lines.

    Raises DataError for a corpus that cannot be read and for a file that another command began or
    another process is writing, WorkerError if a worker was killed.
    """
    ranks = parallelism.ranks
    total = sum(1 for _ in read_corpus(corpus))  # so that a fault near its end is found now
    with closing(_Output(output, made_of)) as file:
        done = ranks.on_rank0(file.begin, total)
        windows = _windows(islice(read_corpus(corpus), done, None))
        results = parallelism.map(
            partial(_translate, translator, request), windows, on_gpu=translator.on_gpu
        )
        quiet = None if ranks.is_first else True
        with tqdm(total=total, initial=done, unit=" pairs", disable=quiet) as bar:
            for lines in results:
                if ranks.is_first:
                    file.write(lines)
                bar.update(len(lines))
        if ranks.is_first:
            file.finish()
    return total


def weights_sum(run: str) -> str:
    """Return the checksum of the weights that translate, also for a run exported without them."""
    path = find_run(run)
    directory = run_of(path)
    if not directory.checkpoints.exists() and (graphs := read_graphs(directory.graphs)):
        return str(graphs.meta["weights"])
    return find_checkpoint(path).weights_sum


def _windows(pairs: Iterator[Pair]) -> Iterator[list[Pair]]:
    while window := list(islice(pairs, WINDOW)):
        yield window


def _translate(translator: Translator, request: Request, pairs: Sequence[Pair]) -> list[str]:
    """Return the lines that are made of some pairs."""
    # A sentence of parallel files may have tabs.
    sides = [(pair.source.replace("\t", " "), pair.target.replace("\t", " ")) for pair in pairs]
    old, new = (1, 0) if request.reverse else (0, 1)
    found = translator.translate([pair[old] for pair in sides], request.options)
    lines = []
    for pair, translations in zip(sides, found, strict=True):
        texts = [translation.text for translation in translations]
        text = texts[request.choose(texts, pair[new]) if request.choose else 0]
        lines.append(f"{text}\t{pair[1]}\n" if request.reverse else f"{pair[0]}\t{text}\n")
    return lines


class _Output:
    """OUTPUT.partial, which gets its name when it is complete; OUTPUT.distill.json: what it is of.

    It is continued from the last window that is complete, so that the same windows are translated
    as if it had never been stopped.
    """

    def __init__(self, path: Path, made_of: Mapping[str, Any]) -> None:
        self.path, self.made_of = path, made_of
        self._partial = path.with_name(f"{path.name}.partial")
        self._about = path.with_name(f"{path.name}.distill.json")
        self._file: BinaryIO | None = None

    def begin(self, total: int) -> int:
        """Return the number of lines that are written already. Raises DataError, see `distill`."""
        if self.path.exists():
            self._check_same(self.path)
            if self.path.read_bytes().count(b"\n") != total:
                raise DataError(f"{self.path}: changed since it was written; delete it")
            return total
        check_writable(self._partial)
        self._file = self._partial.open("a+b")
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DataError(f"{self._partial}: another process is writing it") from None
        if self._partial.stat().st_size:
            self._check_same(self._partial)
        else:
            write_atomic(self._about, json.dumps(self.made_of, indent=1) + "\n")
        self._file.seek(0)
        lines = size = end = 0
        for number, line in enumerate(self._file, 1):
            end += len(line)
            if number % WINDOW == 0 and line.endswith(b"\n"):
                lines, size = number, end
        self._file.truncate(size)
        return lines

    def write(self, lines: Sequence[str]) -> None:
        assert self._file is not None
        with naming(self._partial):
            self._file.write("".join(lines).encode())
            self._file.flush()

    def finish(self) -> None:
        """Give the file its name, unless it had it before."""
        if self._file is None:
            return
        with naming(self._partial):
            os.fsync(self._file.fileno())
        self._partial.replace(self.path)
        sync_directory(self.path.parent)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _check_same(self, path: Path) -> None:
        """Raise DataError if a file is not what this command writes."""
        try:
            before = json.loads(self._about.read_bytes())
        except (OSError, ValueError):
            before = None
        if before == self.made_of:
            return
        how = f"{self._about.name} does not say how it was made"
        if isinstance(before, dict):
            names = sorted({*before, *self.made_of})
            key = next(name for name in names if before.get(name) != self.made_of.get(name))
            was, now = before.get(key), self.made_of.get(key)
            how = f"made by another command: {key} was {was} and is {now}"
        raise DataError(f"{path}: {how}; choose another --output, or delete it to start over")
