"""`seq2seq translate`: files, pipes and a prompt around a translator."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO, TextIO

import torch
from tqdm import tqdm

from seq2seq.errors import DataError
from seq2seq.inference.translator import Part, Sampling, Translation, Translator

WINDOW = 1000  # lines that are sorted by length and translated together


def translate_files(arguments: argparse.Namespace) -> None:
    """Translate as the command line says; see `seq2seq translate --help`."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    translator = Translator.load(
        *arguments.runs, device=arguments.device, precision=arguments.precision
    )
    with contextlib.ExitStack() as stack:
        source = _open_input(arguments.input, stack)
        target = _open_output(arguments.output, stack) if arguments.output else sys.stdout
        links = _open_output(arguments.alignments, stack) if arguments.alignments else None
        talking = arguments.input is None and sys.stdin.isatty() and sys.stdout.isatty()
        # A person waits for each line; a file is sorted by length in windows.
        window = 1 if talking else WINDOW
        lines = _prompted(source) if talking else _lines(source)
        bar = tqdm(lines, unit=" lines", disable=True if talking or target is sys.stdout else None)
        number = 1
        waiting = iter(bar)
        while chunk := list(islice(waiting, window)):
            for found in _translate(translator, chunk, arguments, number):
                _write(found, arguments, target)
                if links is not None:
                    print(_links(found[0]), file=links)
            target.flush()
            number += len(chunk)


def _translate(
    translator: Translator, lines: list[str], arguments: argparse.Namespace, number: int
) -> list[list[Translation]]:
    options = translator.options(
        beam_size=max(arguments.beam, arguments.nbest) if arguments.beam else None,
        nbest=arguments.nbest,
        length_penalty=arguments.length_penalty,
        coverage_penalty=arguments.coverage_penalty,
        no_repeat_ngram=arguments.no_repeat_ngram,
        keep_weights=bool(arguments.alignments or arguments.attention),
    )
    sampling = None
    if arguments.samples:
        sampling = Sampling(
            arguments.samples,
            arguments.temperature,
            arguments.top_k,
            arguments.top_p,
            arguments.seed,
        )
    elif arguments.mbr:
        options = translator.options(**(vars(options) | {"nbest": options.beam_size}))
    return translator.translate(
        lines,
        options,
        sampling=sampling,
        mbr=arguments.mbr,
        refuse_long=arguments.long == "refuse",
        first_number=number,
    )


def _write(found: list[Translation], arguments: argparse.Namespace, file: TextIO) -> None:
    shown = found[: 1 if arguments.mbr else max(arguments.nbest, arguments.samples or 1)]
    if arguments.format == "jsonl":
        alternatives = [_as_json(t, attention=arguments.attention) for t in shown]
        rest = {"nbest": alternatives} if len(shown) > 1 else {}
        print(json.dumps(alternatives[0] | rest, ensure_ascii=False), file=file)
        return
    # Of several translations a line each; an empty line gives as many empty ones.
    for translation in shown:
        print(translation.text, file=file)


def _as_json(translation: Translation, *, attention: bool) -> dict[str, Any]:
    return {
        "text": translation.text,
        "score": translation.score,
        "parts": [_part_as_json(part, attention=attention) for part in translation.parts],
    }


def _part_as_json(part: Part, *, attention: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "source": part.source,
        "source_tokens": part.source_pieces,
        "tokens": part.target_pieces,
        "score": part.score,
        "log_prob": part.log_prob,
        "finished": part.finished,
    }
    if attention:
        found["attention"] = None if part.weights is None else part.weights.tolist()
    return found


def _links(translation: Translation) -> str:
    from seq2seq.evaluation.alignment import pharaoh

    if any(part.weights is None for part in translation.parts):
        raise DataError("--alignments: the model has no attention (attention.score none)")
    return pharaoh(translation.parts)


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
        raise DataError(f"{path}: cannot be written ({error.strerror})") from None


def _lines(file: BinaryIO) -> Iterator[str]:
    """Yield lines without their ends; a line ends at LF only, so that none is ever added."""
    for number, raw in enumerate(file, start=1):
        try:
            yield raw.rstrip(b"\n").rstrip(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"line {number}: not UTF-8 (byte {raw[error.start]:#04x} at {error.start}); "
                "convert the input with iconv"
            ) from None


def _prompted(file: BinaryIO) -> Iterator[str]:
    print("One sentence a line; Ctrl-D ends.", file=sys.stderr)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        raw = file.readline()
        if not raw:
            print(file=sys.stderr)
            return
        yield raw.rstrip(b"\r\n").decode("utf-8", "replace")
