"""`seq2seq translate`: files, pipes and a prompt around a translator."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import BinaryIO, Literal, TextIO

from tqdm import tqdm

from seq2seq.data.corpus import MAX_LINE_BYTES
from seq2seq.errors import DataError
from seq2seq.inference.protocol import SearchOptions
from seq2seq.inference.text import Sampling, Translation
from seq2seq.inference.translator import Translator, Utility
from seq2seq.parallel import SERIAL, Parallelism

log = logging.getLogger(__name__)

WINDOW = 1000  # lines that are sorted by length and translated together


@dataclass(frozen=True)
class Request:
    """How lines are translated and what is written of them."""

    options: SearchOptions
    sampling: Sampling | None = None
    mbr: Utility | None = None
    refuse_long: bool = False
    refuse_invalid: bool = False  # a line that is not UTF-8
    format: Literal["text", "jsonl"] = "text"
    attention: bool = False  # in JSON

    @property
    def shown(self) -> int:
        """Translations of a line that are written."""
        if self.mbr:
            return 1
        return self.sampling.num_samples if self.sampling else self.options.nbest


Links = Callable[[Translation], str]


def translate_files(
    translator: Translator,
    request: Request,
    *,
    source: str | None = None,
    output: str | None = None,
    alignments: str | None = None,
    links: Links | None = None,
    parallelism: Parallelism = SERIAL,
) -> None:
    """Translate a file, or standard input, line by line into a file or standard output.

    `links` makes the lines of the file `alignments`. On terminals it prompts for sentences. What
    is written does not depend on how the work is shared; of several ranks the first one writes.
    Raises DataError for a file that cannot be read or written, where an output would overwrite the
    input or the other output, for standard input that ranks would share, and for a line that is
    not UTF-8 where the request refuses such lines; WorkerError where a worker was killed and
    RankLostError where a rank was, with all lines before its part written.
    """
    if source is None and parallelism.ranks.size > 1:
        raise DataError("several ranks cannot share standard input; name a file with --input")
    for given, stream, name in ((source, sys.stdin, "input"), (output, sys.stdout, "output")):
        if given is None and stream is None:
            raise DataError(f"standard {name} is closed; name a file with --{name}")
    _refuse_same(source, output, alignments)
    with contextlib.ExitStack() as stack:
        reading = _open_input(source, stack)
        if not parallelism.ranks.is_first:
            output, alignments = os.devnull, alignments and os.devnull
        target = _open_output(output, stack) if output else sys.stdout
        linked = _open_output(alignments, stack) if alignments else None
        talking = source is None and sys.stdin.isatty() and target.isatty()
        # A person waits for each line; a file is sorted by length in windows.
        window = 1 if talking else WINDOW
        lines = _prompted(reading) if talking else _lines(reading, request.refuse_invalid)
        _ = translator.prepared  # before workers are forked, so that they share it
        results = (SERIAL if talking else parallelism).map(
            partial(_rows, translator, request, links if alignments else None),
            _windows(lines, window),
            translator.device,
        )
        quiet = talking or target is sys.stdout or not parallelism.ranks.is_first
        with tqdm(unit=" lines", disable=quiet or None) as bar:
            for rows in results:
                for written, link in rows:
                    target.writelines(f"{line}\n" for line in written)
                    if linked is not None:
                        print(link, file=linked)
                target.flush()
                bar.update(len(rows))


def _windows(lines: Iterator[str], size: int) -> Iterator[tuple[int, list[str]]]:
    """Yield so many lines at a time, with the number of the first."""
    number = 1
    while window := list(islice(lines, size)):
        yield number, window
        number += len(window)


def _rows(
    translator: Translator, request: Request, links: Links | None, window: tuple[int, list[str]]
) -> list[tuple[list[str], str]]:
    """Translate a window; return for each line what is written of it, and its links."""
    number, lines = window
    return [
        (_written(found, request), links(found[0]) if links else "")
        for found in _translate(translator, lines, request, number)
    ]


def _translate(
    translator: Translator, lines: list[str], request: Request, number: int
) -> list[list[Translation]]:
    options = request.options
    if request.mbr and not request.sampling:
        options = translator.options(**{**vars(options), "nbest": options.beam_size})
    return translator.translate(
        lines,
        options,
        sampling=request.sampling,
        mbr=request.mbr,
        refuse_long=request.refuse_long,
        first_number=number,
    )


def _written(found: Sequence[Translation], request: Request) -> list[str]:
    """Return what is written for a line: `shown` lines of text, or one of JSON."""
    shown = found[: request.shown]
    if request.format == "text":
        # Always the same number of lines, so that line n of the input can be found.
        return [translation.text for translation in shown] + [""] * (request.shown - len(shown))
    alternatives = [translation.as_json(attention=request.attention) for translation in shown]
    rest = {"nbest": alternatives} if request.shown > 1 else {}
    return [json.dumps(alternatives[0] | rest, ensure_ascii=False)]


def _refuse_same(source: str | None, *outputs: str | None) -> None:
    """Raise DataError where two of the files are one: opening it to write would empty it."""
    seen: dict[tuple[int, int] | str, str] = {}
    for path, name in [(source, source or "standard input"), *((o, o) for o in outputs)]:
        if name is None or (path is None and sys.stdin.isatty()):
            continue
        key: tuple[int, int] | str
        try:
            found = os.stat(path) if path is not None else os.fstat(sys.stdin.fileno())
            key = (found.st_dev, found.st_ino)
        except (OSError, ValueError):
            key = os.path.realpath(path or "")
        if key in seen and not _is_device(path):
            raise DataError(f"{name}: this is {seen[key]} as well; choose another file to write to")
        seen[key] = name


def _is_device(path: str | None) -> bool:
    """Return whether a path is something like /dev/null, which can be written to twice."""
    return path is not None and os.path.exists(path) and not os.path.isfile(path)


def _open_input(path: str | None, stack: contextlib.ExitStack) -> BinaryIO:
    if path is None:
        return sys.stdin.buffer
    try:
        return stack.enter_context(open(path, "rb"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def _open_output(path: str, stack: contextlib.ExitStack) -> TextIO:
    try:
        return stack.enter_context(open(path, "w", encoding="utf-8", newline="\n"))
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written ({error.strerror}); choose another path"
        ) from None


def _lines(file: BinaryIO, refuse_invalid: bool) -> Iterator[str]:
    """Yield lines without their ends; a line ends at LF only, so that none is ever added."""
    number, tabs = 0, False
    while raw := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(raw) > MAX_LINE_BYTES:
            raise DataError(
                f"line {number}: more than {MAX_LINE_BYTES} bytes without a line feed; one "
                "sentence a line is expected"
            )
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if b"\t" in line and not tabs:
            tabs = True
            log.warning(
                "line %d: it has tabs, and all of it is translated as one sentence; of a table "
                "give the source column alone (cut -f1 FILE)", number,
            )  # fmt: skip
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            fault = f"line {number}: not UTF-8 (byte {line[error.start]:#04x} at {error.start})"
            if refuse_invalid:
                raise DataError(f"{fault}; convert the input with iconv") from None
            log.warning("%s: replaced", fault)
            yield line.decode("utf-8", "replace")


def _prompted(file: BinaryIO) -> Iterator[str]:
    print("One sentence a line; Ctrl-D ends.", file=sys.stderr)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        raw = file.readline()
        if not raw:
            print(file=sys.stderr)
            return
        yield raw.rstrip(b"\r\n").decode("utf-8", "replace")
