"""Translate lines: of files, of pipes as they arrive, and at a prompt."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import stat
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TextIO

from tqdm import tqdm

from seq2seq.data.corpus import MAX_LINE_BYTES, conversion, encoding_mark
from seq2seq.errors import DataError
from seq2seq.files import check_writable
from seq2seq.inference.protocol import SearchOptions
from seq2seq.inference.sampling import Metric, Sampling
from seq2seq.inference.text import Translation
from seq2seq.inference.translator import Translator
from seq2seq.processes import LINES_PER_WORKER, SERIAL, Parallelism, cores

log = logging.getLogger(__name__)

WINDOW = 1000  # lines at most that a CPU sorts by length and translates together
_PATIENCE = 0.1  # seconds that the lines of a pipe wait for further ones
_CHUNK = 1 << 16  # bytes; a buffered reader that is asked for so many holds none back


class InputLine(NamedTuple):
    """A line to translate."""

    text: str
    prefix: str = ""  # of its translation


@dataclass(frozen=True)
class Request:
    """How to translate lines, and what to write for each.

    With the format tsv, the line and its translation are written as a training pair; with
    `reverse`, the translation comes first.
    """

    options: SearchOptions
    sampling: Sampling | None = None
    mbr: Metric | None = None
    refuse_invalid: bool = False  # a line that is not UTF-8
    format: Literal["text", "jsonl", "tsv"] = "text"
    attention: bool = False  # in JSON
    tree: bool = False  # in JSON, of the best translation
    input_format: Literal["text", "jsonl"] = "text"  # jsonl: objects with `text` and `prefix`
    reverse: bool = False

    @property
    def shown(self) -> int:
        """The number of translations to write for a line."""
        if self.mbr:
            return 1
        return self.sampling.num_samples if self.sampling else self.options.nbest


def translate_files(
    translator: Translator,
    request: Request,
    *,
    source: str | None = None,
    output: str | None = None,
    prefixes: str | None = None,
    parallelism: Parallelism = SERIAL,
) -> None:
    """Translate a file or standard input, line by line, to a file or standard output.

    Each translation begins with the text on its line of the file `prefixes`, if there is one. On a
    terminal it prompts for sentences. Lines of a pipe are translated as they arrive. The output
    depends neither on that nor on `parallelism`; with several ranks, the first writes. A number of
    workers is chosen for a file (Parallelism.for_lines), and 1 for standard input and pipes.

    Raises DataError for a file that cannot be read or written, if the output would overwrite an
    input, for standard input with several ranks, for a line that is not UTF-8 if the request
    refuses such lines, for one that is not JSON with a text if the request expects JSON, and if
    there is not one prefix for each line. Raises WorkerError if a worker was killed, and
    RankLostError if a rank was, after the lines before its part have been written.
    """
    if source is None and parallelism.ranks.size > 1:
        raise DataError("several ranks cannot share standard input; name a file with --input")
    for given, stream, name in ((source, sys.stdin, "input"), (output, sys.stdout, "output")):
        if given is None and stream is None:
            raise DataError(f"standard {name} is closed; name a file with --{name}")
    if output:
        check_writable(Path(output), source or sys.stdin, prefixes)
    with contextlib.ExitStack() as stack:
        reading = _open_input(source, stack)
        if not parallelism.ranks.is_first:
            output = os.devnull
        target: TextIO = sys.stdout
        if output:
            target = stack.enter_context(open(output, "w", encoding="utf-8", newline="\n"))
        # A person waits for each line; a file is sorted by length in windows.
        is_prompt = source is None and sys.stdin.isatty() and target.isatty()
        pipe = Pipe(reading, MAX_LINE_BYTES) if not is_prompt and is_pipe(reading) else None
        texts = _lines(pipe or reading, request.refuse_invalid, source)
        if is_prompt:
            texts = _prompted(reading)
        lines: Iterator[InputLine] = map(InputLine, texts)
        if prefixes:
            begins = _lines(_open_input(prefixes, stack), request.refuse_invalid, prefixes)
            lines = _with_prefixes(texts, begins, prefixes)
        elif request.input_format == "jsonl":
            lines = map(_parse, texts, count(1))
        if parallelism.workers is None:
            most = 0 if pipe or source is None else cores() * LINES_PER_WORKER
            first = list(islice(lines, most))
            parallelism = parallelism.for_lines(len(first), translator.worker_memory)
            lines = chain(first, lines)
        quiet = is_prompt or target is sys.stdout or not parallelism.ranks.is_first
        with tqdm(unit=" lines", disable=quiet or None) as bar:
            translate_lines(
                translator, request, lines, target, bar=bar, one_by_one=is_prompt,
                parallelism=SERIAL if is_prompt else parallelism, pipe=pipe,
            )  # fmt: skip


def translate_lines(
    translator: Translator,
    request: Request,
    lines: Iterator[InputLine],
    target: TextIO,
    *,
    bar: tqdm[Any],
    parallelism: Parallelism,
    pipe: Pipe | None = None,
    one_by_one: bool = False,
) -> None:
    """Translate lines and write the results, a window at a time."""
    window = 1 if one_by_one else WINDOW * translator.batch_scale
    results = parallelism.map(
        partial(_translate, translator, request),
        _windows(lines, window, parallelism, pipe),
        on_gpu=translator.on_gpu,
    )
    missing: list[str] = []
    number = 0
    for written in results:
        target.writelines(text for text, _ in written)
        target.flush()
        bar.update(len(written))
        missing += [
            f"line {n}: {lacks[0]}" for n, (_, lacks) in enumerate(written, number + 1) if lacks
        ]
        number += len(written)
    if missing:
        log.warning(
            "%d of %d lines: the translation lacks a term or token (%s)",
            len(missing), number, missing[0],
        )  # fmt: skip


def _with_prefixes(lines: Iterator[str], prefixes: Iterator[str], name: str) -> Iterator[InputLine]:
    """Yield each line with its prefix. Raises DataError if there is not one for each."""
    both: Iterator[tuple[str | None, str | None]] = zip_longest(lines, prefixes)
    for number, (line, prefix) in enumerate(both, 1):
        if line is None or prefix is None:
            found = "more" if line is None else "fewer"
            raise DataError(
                f"{name}: {found} lines than the input; give one prefix for each line (line "
                f"{number}), which may be empty"
            )
        yield InputLine(line, prefix)


def _parse(line: str, number: int) -> InputLine:
    """Return text and prefix of a line of JSON."""
    try:
        found = json.loads(line.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        text, prefix = found.get("text"), found.get("prefix", "")
        if isinstance(text, str) and isinstance(prefix, str):
            return InputLine(text, prefix)
    raise DataError(
        f'line {number}: expected a JSON object such as {{"text": "No lo veo.", "prefix": "I"}}; '
        "correct it, or leave out --input-format jsonl"
    )


def _windows(
    lines: Iterator[InputLine], most: int, parallelism: Parallelism, pipe: Pipe | None
) -> Iterator[tuple[int, Sequence[InputLine]] | None]:
    """Yield windows of at most `most` lines, as many for each process, and their first numbers.

    From a pipe, yield the lines that have arrived, and None before waiting (Parallelism.map).
    """
    number, size = 1, most * parallelism.size
    while True:
        if pipe and not pipe.has_line():
            yield None
        block = list(islice(lines, 1 if pipe else size))
        until = time.monotonic() + _PATIENCE
        while pipe and block and len(block) < size and pipe.has_line(until):
            block += islice(lines, 1)
        if not block:
            return
        for window in parallelism.split(block, most):
            yield number, window
            number += len(window)


def _translate(
    translator: Translator, request: Request, window: tuple[int, Sequence[InputLine]]
) -> list[tuple[str, list[str]]]:
    """Return for each line of a window the text to write, and the required texts that it lacks."""
    first_number, lines = window
    options = request.options
    if request.mbr and not request.sampling:
        options = replace(options, nbest=options.beam_size)
    found = translator.translate(
        [line.text for line in lines],
        options,
        sampling=request.sampling,
        mbr=request.mbr,
        prefixes=[line.prefix for line in lines],
        first_number=first_number,
    )
    return [
        (_written(line, of, request), [text for part in of[0].parts for text in part.missing])
        for line, of in zip(lines, found, strict=True)
    ]


def _written(line: InputLine, translations: list[Translation], request: Request) -> str:
    """Return the output for a line: `shown` lines of text, or one of JSON or TSV."""
    shown = translations[: request.shown]
    texts = [translation.line for translation in shown]
    if request.format == "tsv":
        [text] = texts
        return f"{text}\t{line.text}\n" if request.reverse else f"{line.text}\t{text}\n"
    if request.format == "text":
        # Missing ones are empty lines, so that the lines of the input can be found by number.
        return "".join(f"{text}\n" for text in texts + [""] * (request.shown - len(texts)))
    alternatives = [
        translation.as_json(attention=request.attention, tree=request.tree and rank == 0)
        for rank, translation in enumerate(shown)
    ]
    rest = {"nbest": alternatives} if request.shown > 1 else {}
    return json.dumps(alternatives[0] | rest, ensure_ascii=False) + "\n"


def _open_input(path: str | None, stack: contextlib.ExitStack) -> BinaryIO:
    if path is None:
        return sys.stdin.buffer
    try:
        return stack.enter_context(open(path, "rb"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def _lines(file: BinaryIO | Pipe, refuse_invalid: bool, path: str | None) -> Iterator[str]:
    """Yield lines without their ends; only a line feed ends one, so that lines keep their numbers.

    Messages begin with the path, if there is one.
    """
    number, invalid, has_tabs = 0, 0, False
    of = f"{path}: " if path else ""
    while raw := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        where = f"{of}line {number}"
        if len(raw) > MAX_LINE_BYTES:
            raise DataError(
                f"{where}: more than {MAX_LINE_BYTES} bytes without a line feed; give shorter lines"
            )
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if b"\t" in line and not has_tabs:
            has_tabs = True
            log.warning(
                "%s: it has tabs, which do not separate columns here; if this is a table, give "
                "only one column of it (cut -f1 FILE)", where,
            )  # fmt: skip
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            fault = f"{where}: not UTF-8 (byte {line[error.start]:#04x} at {error.start})"
            start = line if number == 1 else b""
            how = conversion(start)
            if refuse_invalid or encoding_mark(start):  # nothing of a file in UTF-16 can be used
                raise DataError(f"{fault}; {how}") from None
            if not invalid:
                log.warning("%s: replaced; %s", fault, how)
            invalid += 1
            yield line.decode("utf-8", "replace")
    if invalid > 1:
        log.warning("%s%d of %d lines were not UTF-8: replaced", of, invalid, number)


def _prompted(file: BinaryIO) -> Iterator[str]:
    print("Enter text, one line at a time; Ctrl-D quits.", file=sys.stderr)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        raw = file.readline()
        if not raw:
            print(file=sys.stderr)
            return
        yield raw.rstrip(b"\r\n").decode("utf-8", "replace")


class Pipe:
    """Lines of a pipe, as soon as they arrive."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        """Take a buffered reader; nothing else may read from it.

        A line of more than `most` bytes may come in parts; the first part has more than `most`.
        """
        self._file, self._most = file, most
        self._lines: deque[bytes] = deque()
        self._rest, self._is_open = bytearray(), True

    def readline(self, _size: int = -1) -> bytes:
        """Return the next line with its end, or b"" at the end of the pipe; wait for it."""
        while not self._lines and self._is_open:
            self._read()
        return self._lines.popleft() if self._lines else b""

    def has_line(self, until: float = 0.0) -> bool:
        """Return whether the next line is here, or arrives before this `time.monotonic()`."""
        while not self._lines and self._is_open:
            left = max(0.0, until - time.monotonic())
            if not select.select([self._file], [], [], left)[0]:
                break
            self._read()
        return bool(self._lines)

    def _read(self) -> None:
        """Read what has arrived, or wait until something does."""
        chunk = self._file.read1(_CHUNK)  # type: ignore[attr-defined]  # of buffered readers
        head, end, tail = chunk.rpartition(b"\n")
        if end:
            lines = bytes(self._rest + head).split(b"\n")
            self._lines += (line + end for line in lines)
            self._rest.clear()
        self._rest += tail
        self._is_open = bool(chunk)
        if self._rest and (not chunk or len(self._rest) > self._most):
            self._lines.append(bytes(self._rest))
            self._rest.clear()


def is_pipe(file: BinaryIO) -> bool:
    """Return whether reading a file may wait, as with a pipe, a socket or a terminal."""
    try:
        return os.name != "nt" and not stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except (OSError, ValueError):  # not a file of the system
        return False
