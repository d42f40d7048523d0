"""Translate streams of lines: files, pipes, a prompt, and corpora as new training pairs."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple, TextIO

from tqdm import tqdm

from seq2seq.data.corpus import MAX_LINE_BYTES, conversion, encoding_mark, read_corpus
from seq2seq.errors import DataError
from seq2seq.files import check_writable, locked, naming, sync_directory, sync_file, write_atomic
from seq2seq.inference.pipes import Pipe, is_pipe
from seq2seq.inference.protocol import SearchOptions
from seq2seq.inference.sampling import Metric, Sampling
from seq2seq.inference.text import Translation
from seq2seq.inference.translator import Translator
from seq2seq.processes import LINES_PER_WORKER, SERIAL, Parallelism, cores

if TYPE_CHECKING:
    from seq2seq.config import CorpusConfig

log = logging.getLogger(__name__)

WINDOW = 1000  # lines at most that a CPU sorts by length and translates together
_PATIENCE = 0.1  # seconds that the lines of a pipe wait for further ones


class InputLine(NamedTuple):
    """A line to translate."""

    text: str
    prefix: str = ""  # of its translation


@dataclass(frozen=True)
class Request:
    """How to translate lines, and what to write for each.

    As tsv, the line and its translation are written as a training pair, with `reverse` the
    translation first.
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
    terminal it prompts for sentences. Lines of a pipe are translated as they arrive. What is
    written depends neither on that nor on `parallelism`; with several ranks, the first writes. A
    number of workers is chosen for a file (Parallelism.for_lines), and 1 for what may be a pipe.

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
        window = 1 if is_prompt else WINDOW * translator.batch_scale
        with tqdm(unit=" lines", disable=quiet or None) as bar:
            _translate_lines(
                translator, request, lines, target, bar=bar, window=window,
                parallelism=SERIAL if is_prompt else parallelism, pipe=pipe,
            )  # fmt: skip


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

    That is the source, or with `request.reverse` the target. Line n is made from pair n, whatever
    its translation is: training drops empty sides and duplicates. What is written does not depend
    on `parallelism`, nor on interruptions: OUTPUT.partial, which is renamed when it is complete, is
    continued after the last complete window if OUTPUT.distill.json says that it is `made_of` the
    same. Returns the number of lines.

    Raises DataError for a corpus that cannot be read and for a file that another command began or
    another process is writing, WorkerError if a worker was killed.
    """
    ranks = parallelism.ranks
    partial_path = output.with_name(f"{output.name}.partial")
    total = sum(1 for _ in read_corpus(corpus))  # so that a fault near its end is found now
    check_writable(output, corpus.path, corpus.source_path, corpus.target_path)
    parallelism = parallelism.for_lines(total, translator.worker_memory)
    with contextlib.ExitStack() as stack:
        done = ranks.on_rank0(_begin, output, partial_path, made_of, total, stack)
        sides = (pair.target if request.reverse else pair.source for pair in read_corpus(corpus))
        # A sentence of parallel files may have tabs.
        lines = (InputLine(side.replace("\t", " ")) for side in sides)
        path = partial_path if ranks.is_first and done < total else Path(os.devnull)
        stack.enter_context(naming(partial_path))
        target = stack.enter_context(path.open("a", encoding="utf-8", newline="\n"))
        quiet = None if ranks.is_first else True
        with tqdm(total=total, initial=done, unit=" pairs", disable=quiet) as bar:
            _translate_lines(
                translator, request, islice(lines, done, None), target, bar=bar,
                window=WINDOW * translator.batch_scale, parallelism=parallelism,
            )  # fmt: skip
        if ranks.is_first and not output.exists():
            sync_file(partial_path)
            partial_path.replace(output)
            sync_directory(output.parent)
    return total


def _begin(
    output: Path,
    partial_path: Path,
    made_of: Mapping[str, Any],
    total: int,
    stack: contextlib.ExitStack,
) -> int:
    """Return the number of lines that are already written; lock what is not complete.

    Raises DataError as `distill` does.
    """
    about = output.with_name(f"{output.name}.distill.json")
    if not output.exists():
        check_writable(partial_path)
        try:
            stack.enter_context(locked(partial_path, wait=False))
        except BlockingIOError:
            raise DataError(f"{partial_path}: another process is writing it") from None
        if not output.exists():
            return _complete_lines(partial_path, about, made_of)
        partial_path.unlink()  # another process finished in the meantime
    _check_same(output, about, made_of)
    if output.read_bytes().count(b"\n") != total:
        raise DataError(f"{output}: changed since it was written; delete it")
    return total


def _complete_lines(partial_path: Path, about: Path, made_of: Mapping[str, Any]) -> int:
    """Return the lines of all complete windows of a file, and cut off what follows them."""
    with partial_path.open("r+b") as file:
        if partial_path.stat().st_size:
            _check_same(partial_path, about, made_of)
        else:
            write_atomic(about, json.dumps(made_of, indent=1) + "\n")
        lines = size = end = 0
        for number, line in enumerate(file, 1):
            end += len(line)
            if number % WINDOW == 0 and line.endswith(b"\n"):
                lines, size = number, end
        file.truncate(size)
    return lines


def _check_same(path: Path, about: Path, made_of: Mapping[str, Any]) -> None:
    """Raise DataError if a file is not what this command writes."""
    try:
        before = json.loads(about.read_bytes())
    except (OSError, ValueError):
        before = None
    if before == made_of:
        return
    how = f"{about.name} does not say how it was made"
    if isinstance(before, dict):
        names = sorted({*before, *made_of})
        key = next(name for name in names if before.get(name) != made_of.get(name))
        how = f"made by another command: {key} was {before.get(key)} and is {made_of.get(key)}"
    raise DataError(f"{path}: {how}; choose another --output, or delete it to start over")


def _translate_lines(
    translator: Translator,
    request: Request,
    lines: Iterator[InputLine],
    target: TextIO,
    *,
    window: int,
    bar: tqdm[Any],
    parallelism: Parallelism,
    pipe: Pipe | None = None,
) -> None:
    """Write what the request asks for of each line, a window at a time."""
    results = parallelism.map(
        partial(_translate, translator, request),
        _windows(lines, window, parallelism, pipe),
        on_gpu=translator.on_gpu,
    )
    for texts in results:
        target.writelines(texts)
        target.flush()
        bar.update(len(texts))


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
    """Yield lines, as many for each process and at most so many, and the number of the first.

    Of a pipe, those that have arrived, and None before waiting for others (Parallelism.map).
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
) -> list[str]:
    """Return for each line of a window the text to write."""
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
        _written(line, translations, request)
        for line, translations in zip(lines, found, strict=True)
    ]


def _written(line: InputLine, translations: list[Translation], request: Request) -> str:
    """Return what is written for a line: `shown` lines of text, or one of JSON or TSV."""
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
