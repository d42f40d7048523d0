"""Translate corpora, as new training pairs for other runs."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from seq2seq.data.corpus import read_corpus
from seq2seq.errors import DataError
from seq2seq.files import check_writable, locked, naming, sync_directory, sync_file, write_atomic
from seq2seq.inference.lines import InputLine, Request, translate_lines
from seq2seq.inference.translator import Translator
from seq2seq.processes import SERIAL, Parallelism

if TYPE_CHECKING:
    from seq2seq.config import CorpusConfig


def distill(
    translator: Translator,
    request: Request,
    corpus: CorpusConfig,
    output: Path,
    *,
    provenance: Mapping[str, Any],
    parallelism: Parallelism = SERIAL,
) -> int:
    """Write a line `source<TAB>target` for each pair of a corpus, with one side translated.

    The source is translated, or with `request.reverse` the target. Line n is made from pair n,
    whatever its translation is: training drops empty sides and duplicates. Neither `parallelism`
    nor interruptions affect the output: lines are written to OUTPUT.partial, and a command with the
    same `provenance`, recorded in OUTPUT.distill.json, continues after the last complete line.
    Returns the number of lines.

    Raises DataError for a corpus that cannot be read and for a file that another command began or
    another process is writing, WorkerError if a worker was killed.
    """
    ranks = parallelism.ranks
    partial_path = output.with_name(f"{output.name}.partial")
    total = sum(1 for _ in read_corpus(corpus))  # so that a fault near its end is found now
    check_writable(output, corpus.path, corpus.source_path, corpus.target_path)
    parallelism = parallelism.for_lines(total, translator.worker_memory)
    with contextlib.ExitStack() as stack:
        done = ranks.on_rank0(_begin, output, partial_path, provenance, stack)
        if done is None:
            return total
        sides = (pair.target if request.reverse else pair.source for pair in read_corpus(corpus))
        # A sentence of parallel files may have tabs.
        lines = (InputLine(side.replace("\t", " ")) for side in sides)
        path = partial_path if ranks.is_first else Path(os.devnull)
        stack.enter_context(naming(partial_path))
        target = stack.enter_context(path.open("a", encoding="utf-8", newline="\n"))
        quiet = None if ranks.is_first else True
        with tqdm(total=total, initial=done, unit=" pairs", disable=quiet) as bar:
            rest = islice(lines, done, None)
            translate_lines(translator, request, rest, target, bar=bar, parallelism=parallelism)
        if ranks.is_first:
            sync_file(partial_path)
            partial_path.replace(output)
            sync_directory(output.parent)
    return total


def _begin(
    output: Path, partial_path: Path, provenance: Mapping[str, Any], stack: contextlib.ExitStack
) -> int | None:
    """Lock the partial file and return the number of its lines; None if the output is complete.

    Raises DataError as `distill` does.
    """
    about = output.with_name(f"{output.name}.distill.json")
    if output.exists():
        _check_same(output, about, provenance)
        return None
    check_writable(partial_path)
    try:
        stack.enter_context(locked(partial_path, wait=False))
    except BlockingIOError:
        raise DataError(f"{partial_path}: another process is writing it") from None
    if partial_path.stat().st_size:
        _check_same(partial_path, about, provenance)
    else:
        write_atomic(about, json.dumps(provenance, indent=1) + "\n")
    lines = end = 0
    with partial_path.open("r+b") as file:
        for line in file:
            if line.endswith(b"\n"):
                lines, end = lines + 1, end + len(line)
        file.truncate(end)
    return lines


def _check_same(path: Path, about: Path, provenance: Mapping[str, Any]) -> None:
    """Raise DataError if another command wrote a file."""
    try:
        before = json.loads(about.read_bytes())
    except (OSError, ValueError):
        before = None
    if before == provenance:
        return
    how = f"{about.name} does not say how it was made"
    if isinstance(before, dict):
        names = sorted({*before, *provenance})
        key = next(name for name in names if before.get(name) != provenance.get(name))
        how = f"made by another command: {key} was {before.get(key)} and is {provenance.get(key)}"
    raise DataError(f"{path}: {how}; choose another --output, or delete it to start over")
