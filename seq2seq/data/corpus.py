"""Sentence pairs from tab-separated, aligned, JSON-lines and Hugging Face corpora."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, BinaryIO, NamedTuple

from seq2seq.config import CorpusConfig
from seq2seq.data.compressed import DAMAGED, open_unpacked
from seq2seq.data.huggingface import read_dataset
from seq2seq.errors import DataError

MAX_LINE_BYTES = 1 << 24
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Pair:
    """A source sentence and its translation, both as they were read."""

    source: str
    target: str
    references: tuple[str, ...] = ()  # further references beside target
    alignment: str | None = None


class Line(NamedTuple):
    """A line without its end, and the `file:line` that an error about it names."""

    where: str
    text: str


def read_corpus(config: CorpusConfig) -> Iterator[Pair]:
    """Yield the pairs of a corpus in order, in constant memory.

    Blank lines of tsv, manythings and jsonl hold no pair and are passed over. Raises DataError,
    which names the file, the line, what was found there, and the mend.
    """
    if config.format == "aligned":
        return _read_aligned(str(config.source_path), str(config.target_path))
    if config.format == "jsonl":
        return _read_jsonl(config)
    if config.format == "huggingface":
        return _read_huggingface(config)
    return parse_columns(read_lines(str(config.path)), config)


def read_lines(path: str) -> Iterator[Line]:
    """Yield the lines of a UTF-8 file, unpacked where its name ends in .gz, .bz2 or .xz.

    Raises DataError where it is missing, empty, damaged, binary or not UTF-8, or unpacks to what
    no text would (seq2seq.data.compressed).
    """
    try:
        with open_unpacked(path) as stream:
            yield from decode_lines(stream, path)
    except FileNotFoundError:
        raise DataError(
            f"{path}: no such file; check the path, or prepare it first (README)"
        ) from None
    except IsADirectoryError:
        raise DataError(f"{path}: a directory; name a file in it") from None
    except DAMAGED as error:
        raise DataError(
            f"{path}: damaged compressed data ({error}); fetch or compress the file again"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None


def decode_lines(stream: BinaryIO, name: str) -> Iterator[Line]:
    """Yield the lines of an open file; only line feeds end them, a carriage return before is cut.

    Raises DataError, which calls the file by the given name, where it is empty or not UTF-8 text.
    """
    offset = number = 0
    while raw := stream.readline(MAX_LINE_BYTES):
        number += 1
        where = f"{name}:{number}"
        if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
            raise DataError(
                f"{where}: more than {MAX_LINE_BYTES} bytes without a line feed; "
                "one sentence a line is expected"
            )
        start = len(_BOM) if number == 1 and raw.startswith(_BOM) else 0
        body = raw[start:].removesuffix(b"\n").removesuffix(b"\r")
        yield Line(where, _decode(body, where, offset + start))
        offset += len(raw)
    if not number:
        raise DataError(f"{name}: an empty file; one sentence pair a line is expected")


def parse_columns(lines: Iterable[Line], config: CorpusConfig) -> Iterator[Pair]:
    """Yield the pairs of tab-separated lines in the columns of format tsv or manythings.

    Raises DataError where a row is too short, or where no line holds a row.
    """
    english_first = config.format == "manythings"
    source = _column(config, "source", int(english_first))
    target = _column(config, "target", int(not english_first))
    alignment = None if config.alignment is None else _column(config, "alignment", 0)
    last = max(source, target, alignment or 0)
    where = ""
    pair = None
    for where, text in lines:
        if not text:
            continue
        columns = text.split("\t")
        if len(columns) <= last:
            raise DataError(
                f"{where}: {_count(len(columns), 'column')} but column {last} is asked for, "
                "counted from 0; separate columns by tabs or set source, target, alignment"
            )
        references: tuple[str, ...] = ()
        if config.references and not english_first:
            further = enumerate(columns[target + 1 :], target + 1)
            references = tuple(text for index, text in further if text and index != source)
        pair = Pair(
            source=columns[source],
            target=columns[target],
            references=references,
            alignment=None if alignment is None else columns[alignment],
        )
        yield pair
    if pair is None:
        raise DataError(f"{where}: blank lines only; rows of tab-separated columns are expected")


def _read_aligned(source_path: str, target_path: str) -> Iterator[Pair]:
    sources = targets = 0
    for source, target in zip_longest(read_lines(source_path), read_lines(target_path)):
        sources += source is not None
        targets += target is not None
        if sources == targets:
            yield Pair(source.text, target.text)
    if sources != targets:
        raise DataError(
            f"{source_path} has {_count(sources, 'line')} but {target_path} has "
            f"{_count(targets, 'line')}; line n of one must translate line n of the other"
        )


def _read_jsonl(config: CorpusConfig) -> Iterator[Pair]:
    where = ""
    pair = None
    for where, text in read_lines(str(config.path)):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not JSON ({error}); one object a line is expected") from None
        if not isinstance(row, dict):
            raise DataError(
                f"{where}: a JSON {_json_type(row)}, not an object; one object a line is expected"
            )
        pair = _pair_of_fields(row, config, where)
        yield pair
    if pair is None:
        raise DataError(f"{where}: blank lines only; one JSON object a line is expected")


def _read_huggingface(config: CorpusConfig) -> Iterator[Pair]:
    name, split = str(config.name), str(config.split)
    rows = read_dataset(name, config.subset, split=split, columns=columns_of(config))
    return read_rows(rows, config)


def columns_of(config: CorpusConfig) -> list[str]:
    """Return the columns that a Hugging Face corpus is read from."""
    fields = [config.source, config.target, config.alignment]
    return [str(field).partition(".")[0] for field in fields if field is not None]


def read_rows(rows: Iterable[dict[str, Any]], config: CorpusConfig) -> Iterator[Pair]:
    """Yield the pairs of the rows of a Hugging Face dataset."""
    for index, row in enumerate(rows):
        yield _pair_of_fields(row, config, f"{config.name} {config.split}: row {index}")


def _pair_of_fields(row: dict[str, Any], config: CorpusConfig, where: str) -> Pair:
    return Pair(
        source=_field(row, str(config.source), where),
        target=_field(row, str(config.target), where),
        alignment=None if config.alignment is None else _field(row, str(config.alignment), where),
    )


def _field(row: dict[str, Any], name: str, where: str) -> str:
    """Return the text of a field; `translation.es` is the field `es` of `translation`."""
    value: Any = row
    parts = name.split(".")
    for depth, part in enumerate(parts):
        if not isinstance(value, dict) or part not in value:
            parent = ".".join(parts[:depth])
            known = ", ".join(map(str, value)) if isinstance(value, dict) else ""
            of = f" of {parent}" if parent else ""
            raise DataError(f"{where}: no field '{name}'; fields{of}: {known or 'none'}")
        value = value[part]
    if not isinstance(value, str):
        raise DataError(
            f"{where}: field '{name}' is of type {_json_type(value)}, not a string; "
            "name a field of text"
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: field '{name}' has half a surrogate pair at character {error.start}, "
            "which is no text; write it whole"
        ) from None
    return value


def _decode(raw: bytes, where: str, offset: int) -> str:
    """Return the text of a line that starts at this byte of its file."""
    position = raw.find(b"\0")
    if position >= 0:
        raise DataError(
            f"{where}: a NUL byte at byte {offset + position}; this is binary data or UTF-16, "
            "and UTF-8 text is expected"
        )
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: not UTF-8: byte 0x{raw[error.start]:02x} at byte {offset + error.start}; "
            "convert the file, for example with iconv -f latin1 -t utf-8"
        ) from None


def _column(config: CorpusConfig, key: str, default: int) -> int:
    value = getattr(config, key)
    if value is None:
        return default
    if not isinstance(value, int) or value < 0:
        raise DataError(f"{config.path}: '{key}' is {value!r}; columns are numbers from 0")
    return value


def _json_type(value: object) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number" if isinstance(value, int | float) else "value")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
