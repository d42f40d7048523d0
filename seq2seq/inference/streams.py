"""Translate streams of lines: files, pipes and a prompt."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice, repeat, zip_longest
from pathlib import Path
from typing import BinaryIO, Literal, TextIO

from tqdm import tqdm

from seq2seq.data.corpus import MAX_LINE_BYTES
from seq2seq.errors import DataError
from seq2seq.files import check_writable
from seq2seq.inference.mbr import Metric
from seq2seq.inference.protocol import SearchOptions
from seq2seq.inference.sampling import Sampling
from seq2seq.inference.text import Translation
from seq2seq.inference.translator import Translator
from seq2seq.processes import SERIAL, Parallelism

log = logging.getLogger(__name__)

WINDOW = 1000  # lines that are sorted by length and translated together


@dataclass(frozen=True)
class Request:
    """How to translate lines, and what to write for each."""

    options: SearchOptions
    sampling: Sampling | None = None
    mbr: Metric | None = None
    refuse_long: bool = False
    refuse_invalid: bool = False  # a line that is not UTF-8
    format: Literal["text", "jsonl"] = "text"
    attention: bool = False  # in JSON
    tree: bool = False  # in JSON, of the best translation
    word_links: Callable[[Translation], str] | None = None  # makes the lines of alignments
    input_format: Literal["text", "jsonl"] = "text"  # jsonl: objects with `text` and `prefix`

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
    alignments: str | None = None,
    prefixes: str | None = None,
    parallelism: Parallelism = SERIAL,
) -> None:
    """Translate a file or standard input, line by line, to a file or standard output.

    The word links of the request go to the file `alignments`. Each translation begins with the text
    on its line of the file `prefixes`, if there is one. On a terminal it prompts for
    sentences. What is written does not depend on `parallelism`; with several ranks, the first
    writes.

    Raises DataError for a file that cannot be read or written, if an output would overwrite the
    input or the other output, for standard input with several ranks, for a line that is not UTF-8
    if the request refuses such lines, for one that is not such JSON as the request says, and if
    there is not one prefix for each line; WorkerError if a worker was killed and RankLostError
    if a rank was, after the lines before its part have been written.
    """
    if source is None and parallelism.ranks.size > 1:
        raise DataError("several ranks cannot share standard input; name a file with --input")
    for given, stream, name in ((source, sys.stdin, "input"), (output, sys.stdout, "output")):
        if given is None and stream is None:
            raise DataError(f"standard {name} is closed; name a file with --{name}")
    _refuse_same(source, output, alignments)
    _refuse_same(prefixes, output, alignments)
    with contextlib.ExitStack() as stack:
        reading = _open_input(source, stack)
        if not parallelism.ranks.is_first:
            output, alignments = os.devnull, alignments and os.devnull
        target = _open_output(output, stack) if output else sys.stdout
        linked = _open_output(alignments, stack) if alignments else None
        # A person waits for each line; a file is sorted by length in windows.
        is_prompt = source is None and sys.stdin.isatty() and target.isatty()
        lines = _prompted(reading) if is_prompt else _lines(reading, request.refuse_invalid)
        pairs: Iterator[tuple[str, str]] = zip(lines, repeat(""))
        if prefixes:
            begins = _lines(_open_input(prefixes, stack), request.refuse_invalid, f"{prefixes}: ")
            pairs = _paired(lines, begins, prefixes)
        elif request.input_format == "jsonl":
            pairs = map(_parse, lines, count(1))
        results = (SERIAL if is_prompt else parallelism).map(
            partial(_translate, translator, request),
            _windows(pairs, 1 if is_prompt else WINDOW),
            on_gpu=translator.on_gpu,
        )
        quiet = is_prompt or target is sys.stdout or not parallelism.ranks.is_first
        with tqdm(unit=" lines", disable=quiet or None) as bar:
            for rows in results:
                for written, links in rows:
                    target.write(written)
                    if linked is not None:
                        linked.write(links)
                target.flush()
                bar.update(len(rows))


def _paired(lines: Iterator[str], prefixes: Iterator[str], name: str) -> Iterator[tuple[str, str]]:
    """Yield each line with its prefix. Raises DataError if there is not one for each."""
    both: Iterator[tuple[str | None, str | None]] = zip_longest(lines, prefixes)
    for number, (line, prefix) in enumerate(both, 1):
        if line is None or prefix is None:
            found = "more" if line is None else "fewer"
            raise DataError(
                f"{name}: {found} lines than the input; give one prefix for each line (line "
                f"{number}), which may be empty"
            )
        yield line, prefix


def _parse(line: str, number: int) -> tuple[str, str]:
    """Return text and prefix of a line of JSON."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        text, prefix = found.get("text"), found.get("prefix", "")
        if isinstance(text, str) and isinstance(prefix, str):
            return text, prefix
    raise DataError(
        f'line {number}: expected a JSON object such as {{"text": "No lo veo.", "prefix": "I"}}; '
        "correct it, or leave out --input-format jsonl"
    )


def _windows(
    pairs: Iterator[tuple[str, str]], size: int
) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Yield this many lines at a time with their prefixes, and the number of the first."""
    number = 1
    while window := list(islice(pairs, size)):
        yield number, window
        number += len(window)


def _translate(
    translator: Translator, request: Request, window: tuple[int, list[tuple[str, str]]]
) -> list[tuple[str, str]]:
    """Return for each line of a window the text to write, and its word links."""
    first_number, pairs = window
    options = request.options
    if request.mbr and not request.sampling:
        options = replace(options, nbest=options.beam_size)
    found = translator.translate(
        [line for line, _ in pairs],
        options,
        sampling=request.sampling,
        mbr=request.mbr,
        prefixes=[prefix for _, prefix in pairs],
        refuse_long=request.refuse_long,
        first_number=first_number,
    )
    links = request.word_links
    return [
        (_written(translations, request), links(translations[0]) + "\n" if links else "")
        for translations in found
    ]


def _written(translations: list[Translation], request: Request) -> str:
    """Return what is written for a line: `shown` lines of text, or one of JSON."""
    shown = translations[: request.shown]
    if request.format == "text":
        # Missing ones are empty lines, so that the lines of the input can be found by number.
        texts = [translation.text for translation in shown]
        return "".join(f"{text}\n" for text in texts + [""] * (request.shown - len(texts)))
    alternatives = [
        translation.as_json(attention=request.attention, tree=request.tree and rank == 0)
        for rank, translation in enumerate(shown)
    ]
    rest = {"nbest": alternatives} if request.shown > 1 else {}
    return json.dumps(alternatives[0] | rest, ensure_ascii=False) + "\n"


def _refuse_same(source: str | None, *outputs: str | None) -> None:
    """Raise DataError if two of the files are one: opening it for writing would empty it."""
    seen: dict[tuple[int, int] | str, str] = {}
    for path, name in [(source, source or "standard input"), *((o, o) for o in outputs)]:
        if name is None:
            continue
        key: tuple[int, int] | str
        try:
            found = os.stat(sys.stdin.fileno() if path is None else path)
        except (OSError, ValueError):
            key = os.path.realpath(path or "")
        else:
            if not stat.S_ISREG(found.st_mode):  # such as /dev/null, which two streams may share
                continue
            key = (found.st_dev, found.st_ino)
        if key in seen:
            raise DataError(f"{name}: is also {seen[key]}; choose another file to write to")
        seen[key] = name


def _open_input(path: str | None, stack: contextlib.ExitStack) -> BinaryIO:
    if path is None:
        return sys.stdin.buffer
    try:
        return stack.enter_context(open(path, "rb"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def _open_output(path: str, stack: contextlib.ExitStack) -> TextIO:
    check_writable(Path(path))
    return stack.enter_context(open(path, "w", encoding="utf-8", newline="\n"))


def _lines(file: BinaryIO, refuse_invalid: bool, name: str = "") -> Iterator[str]:
    """Yield lines without their ends; only a line feed ends one, so that none is ever added.

    Messages begin with `name`, which the input itself does not have.
    """
    number, has_tabs = 0, bool(name)
    while raw := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        where = f"{name}line {number}"
        if len(raw) > MAX_LINE_BYTES:
            raise DataError(
                f"{where}: more than {MAX_LINE_BYTES} bytes without a line feed; give one "
                "sentence per line"
            )
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if b"\t" in line and not has_tabs:
            has_tabs = True
            log.warning(
                "%s: it has tabs and is translated as one sentence; if this is a table, give "
                "only the source column (cut -f1 FILE)", where,
            )  # fmt: skip
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            fault = f"{where}: not UTF-8 (byte {line[error.start]:#04x} at {error.start})"
            if refuse_invalid:
                raise DataError(f"{fault}; convert the input with iconv") from None
            log.warning("%s: replaced", fault)
            yield line.decode("utf-8", "replace")


def _prompted(file: BinaryIO) -> Iterator[str]:
    print("Enter one sentence per line; Ctrl-D quits.", file=sys.stderr)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        raw = file.readline()
        if not raw:
            print(file=sys.stderr)
            return
        yield raw.rstrip(b"\r\n").decode("utf-8", "replace")
