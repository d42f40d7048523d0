"""Readers of tab-separated, CSV, aligned, JSON-lines and Hugging Face corpora, packed or not."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

from seq2seq.errors import DataError, missing_package
from seq2seq.packaged import find_data

if TYPE_CHECKING:
    from seq2seq.config import CorpusConfig

Row = TypeVar("Row")
Parsed = TypeVar("Parsed")

MAX_RATIO = 100  # of the unpacked size to the packed; text is packed to a third or a fifth
FREE_BYTES = 1 << 26  # allowed at any ratio, as small files can repeat one sentence many times
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)

COMPRESSED: dict[str, Any] = {
    ".gz": gzip.open, ".tgz": gzip.open,
    ".bz2": bz2.open, ".tbz2": bz2.open,
    ".xz": lzma.open, ".txz": lzma.open,
}  # fmt: skip
_BUILDERS = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".json": "json",
    ".jsonl": "json",
    ".csv": "csv",
}
_SAVED = ("state.json", "dataset_dict.json")
MAX_LINE_BYTES = 1 << 24

_NAMED = 10  # malformed lines in one error
_BOM = codecs.BOM_UTF8
_OTHER_BOMS = {  # the longer ones first, as one begins like a shorter one
    codecs.BOM_UTF32_LE: "UTF-32", codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16",
}  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """A source sentence and its translation, unchanged from the corpus."""

    source: str
    target: str
    references: tuple[str, ...] = ()  # in addition to target
    alignment: str | None = None
    corpus: int = 0  # its number in data.train


class Line(NamedTuple):
    """A line without its line end, and its `file:line` for error messages."""

    where: str
    text: str


def read_corpus(config: CorpusConfig) -> Iterator[Pair]:
    """Yield the pairs of a corpus in order, in constant memory.

    Blank lines of tsv, manythings, csv and jsonl are skipped. Raises DataError, naming the file and
    its first malformed lines, what was found there, and how to fix it; no pairs follow the first of
    these lines.
    """
    if config.format == "aligned":
        return _read_aligned(str(config.source_path), str(config.target_path))
    if config.format == "csv":
        return _read_csv(config)
    if config.format == "jsonl":
        return _read_jsonl(config)
    if config.format == "huggingface":
        return _read_huggingface(config)
    return parse_columns(read_lines(str(config.path)), config)


def read_lines(path: str) -> Iterator[Line]:
    """Yield the lines of a UTF-8 file, unpacked if its name ends in .gz, .bz2 or .xz.

    Raises DataError if it is missing, empty, damaged, binary or not UTF-8, or unpacks to far more
    than text would.
    """
    try:
        with open_unpacked(path) as stream:
            yield from decode_lines(stream, path)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check the path") from None
    except IsADirectoryError:
        raise DataError(f"{path}: a directory; name a file in it") from None
    except DAMAGED as error:
        raise DataError(
            f"{path}: damaged compressed data ({error}); download or compress the file again"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None


def decode_lines(stream: BinaryIO, name: str) -> Iterator[Line]:
    """Yield the lines of an open file; they end in LF or CR LF.

    Raises DataError, with the given name of the file, if it is empty or not UTF-8 text.
    """
    return parse_rows(_split_lines(stream, name), _decode)


def _split_lines(stream: BinaryIO, name: str) -> Iterator[tuple[str, tuple[bytes, int]]]:
    """Yield for each line its `file:line`, its bytes, and the file's offset of the first one."""
    offset = number = 0
    while raw := stream.readline(MAX_LINE_BYTES):
        number += 1
        where = f"{name}:{number}"
        if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
            raise DataError(
                f"{where}: more than {MAX_LINE_BYTES} bytes without a line feed; "
                "one sentence per line is expected"
            )
        start = len(_BOM) if number == 1 and raw.startswith(_BOM) else 0
        yield where, (raw[start:].removesuffix(b"\n").removesuffix(b"\r"), offset + start)
        offset += len(raw)
    if not number:
        raise DataError(f"{name}: an empty file; one sentence pair per line is expected")


def parse_rows(
    rows: Iterable[tuple[str, Row]],
    parse: Callable[[str, Row], Parsed | None],
    expected: str | None = None,
) -> Iterator[Parsed]:
    """Yield what `parse` returns for each place and row, except None, up to a malformed row.

    `parse` raises DataError for a malformed row. Rows are read to the end, and one DataError names
    all malformed ones. It is also raised if rows are `expected` and `parse` returned None for all.
    """
    malformed: list[tuple[str, str]] = []
    number, where, is_blank = 0, "", True
    for where, row in rows:
        try:
            parsed = parse(where, row)
        except DataError as error:
            number += 1
            if number <= _NAMED:
                malformed.append((where, str(error)))
            continue
        if parsed is not None and not number:
            is_blank = False
            yield parsed
    if malformed:
        raise DataError(_name_malformed(malformed, number))
    if expected and is_blank:
        raise DataError(f"{where}: blank lines only; {expected}")


def _name_malformed(first: Sequence[tuple[str, str]], number: int) -> str:
    """Return the first error in full and, if there are more, the lines and their number."""
    message, before, named = first[0][1], "", []
    if number == 1:
        return message
    for where, error in first:
        reason = error.removeprefix(f"{where}: ").partition("; ")[0]
        line = where.rpartition(":")[2].strip()
        named.append(line if before in ("", reason) else f"{line} ({reason})")
        before = reason
    more = ", ..." if number > len(first) else ""
    return f"{message}; {number} lines are malformed: {', '.join(named)}{more}"


def parse_columns(lines: Iterable[Line], config: CorpusConfig) -> Iterator[Pair]:
    """Yield the pairs of tab-separated lines in the layout of format tsv or manythings.

    Raises DataError if rows are too short, or if there are none.
    """
    source, target = map(int, config.columns)  # the schema permits no names in these formats
    alignment = None if config.alignment is None else int(config.alignment)
    last, key = max((source, "source"), (target, "target"), (alignment or 0, "alignment"))

    def parse(where: str, text: str) -> Pair | None:
        if not text:
            return None
        columns = text.split("\t")
        if len(columns) <= last:
            raise DataError(
                f"{where}: {count(len(columns), 'column')}, but '{key}: {last}' needs {last + 1}, "
                "as the first is number 0; separate columns by tabs, or change source, target or "
                "alignment"
            )
        references: tuple[str, ...] = ()
        if config.references:
            further = enumerate(columns[target + 1 :], target + 1)
            references = tuple(text for index, text in further if text and index != source)
        return Pair(
            source=columns[source],
            target=columns[target],
            references=references,
            alignment=None if alignment is None else columns[alignment],
        )

    return parse_rows(lines, parse, "rows of tab-separated columns are expected")


def _read_csv(config: CorpusConfig) -> Iterator[Pair]:
    path = str(config.path)
    rows = _split_csv(path)
    where, header = next(((where, row) for where, row in rows if row), (path, []))
    if isinstance(header, csv.Error):
        _check_delimiter(where, next(csv.reader(text for _, text in read_lines(path))))
        raise _not_csv(where, header)
    if not header:
        raise DataError(f"{where}: blank lines only; a header and rows are expected")
    _check_delimiter(where, header)
    source, target = (
        _find_column(where, header, key, column)
        for key, column in zip(("source", "target"), config.columns, strict=True)
    )
    alignment = config.alignment
    if alignment is not None:
        alignment = _find_column(where, header, "alignment", alignment)

    def parse(where: str, row: list[str] | csv.Error) -> Pair | None:
        if isinstance(row, csv.Error):
            raise _not_csv(where, row)
        if not row:
            return None
        if len(row) != len(header):
            raise DataError(
                f"{where}: {count(len(row), 'column')}, but the header has {len(header)}; "
                f"{_CSV_QUOTES}"
            )
        links = None if alignment is None else row[alignment]
        return Pair(row[source], row[target], alignment=links)

    below = chain([(where, [])], rows)
    yield from parse_rows(below, parse, "rows below the header are expected")


def _check_delimiter(where: str, header: Sequence[str]) -> None:
    """Raise DataError if the columns of a header are not separated by commas."""
    for delimiter, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and delimiter in header[0]:
            raise DataError(
                f"{where}: columns separated by {name}, and commas are expected; save it with "
                "commas, or convert it: python3 -c 'import csv, sys; csv.writer(sys.stdout)."
                f"writerows(csv.reader(sys.stdin, delimiter={json.dumps(delimiter)}))' "
                "< OLD.csv > NEW.csv"
            )


_CSV_QUOTES = "put text with commas, quotes or line ends in quotes, and double quotes inside it"


def _split_csv(path: str) -> Iterator[tuple[str, list[str] | csv.Error]]:
    """Yield the `file:line` at which each row begins, and the row or the error in it."""
    reader = csv.reader((f"{text}\n" for _, text in read_lines(path)), strict=True)
    row: list[str] | csv.Error | None = []
    while row is not None:
        where = f"{path}:{reader.line_num + 1}"
        try:
            row = next(reader, None)
        except csv.Error as error:
            row = error
        if row is not None:
            yield where, row


def _not_csv(where: str, error: csv.Error) -> DataError:
    return DataError(f"{where}: not CSV ({error}); {_CSV_QUOTES}")


def _find_column(where: str, header: Sequence[str], key: str, column: str | int) -> int:
    """Return the place of a column, given by its name or number, in a header."""
    places = [n for n, name in enumerate(header) if column in (n, name.strip())]
    if len(places) != 1:
        known = ", ".join(name.strip() for name in header)
        raise DataError(
            f"{where}: {len(places) or 'no'} column{'s' * (len(places) > 1)} {column!r} in the "
            f"header ({known}); set '{key}' to the name of a column, or to its number from 0"
        )
    return places[0]


def _read_aligned(source_path: str, target_path: str) -> Iterator[Pair]:
    sources = targets = 0
    for source, target in zip_longest(read_lines(source_path), read_lines(target_path)):
        sources += source is not None
        targets += target is not None
        if sources == targets:
            yield Pair(source.text, target.text)
    if sources != targets:
        raise DataError(
            f"{source_path} has {count(sources, 'line')} but {target_path} has "
            f"{count(targets, 'line')}; line n of one must translate line n of the other"
        )


def _read_jsonl(config: CorpusConfig) -> Iterator[Pair]:
    def parse(where: str, text: str) -> Pair | None:
        if not text.strip():
            return None
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not JSON ({error}); one object a line is expected") from None
        if not isinstance(row, dict):
            raise DataError(
                f"{where}: a JSON {_json_type(row)}, not an object; one object a line is expected"
            )
        return _pair_of_fields(where, row, config)

    expected = "one JSON object a line is expected"
    return parse_rows(read_lines(str(config.path)), parse, expected)


def _read_huggingface(config: CorpusConfig) -> Iterator[Pair]:
    fields = [config.source, config.target, config.alignment]
    columns = sorted({str(field).partition(".")[0] for field in fields if field is not None})
    where = f"{config.name} {config.split}"
    dataset = _load(str(config.name), config.subset, str(config.split))
    for column in columns:
        if column not in dataset.column_names:
            known = ", ".join(dataset.column_names)
            raise DataError(f"{where}: no column '{column}'; columns: {known}")
    rows = ((f"{where}: row {n}", row) for n, row in enumerate(dataset.select_columns(columns)))
    yield from parse_rows(rows, lambda where, row: _pair_of_fields(where, row, config))


def _pair_of_fields(where: str, row: dict[str, Any], config: CorpusConfig) -> Pair:
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
            "name a text field"
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: field '{name}' has half a surrogate pair at character {error.start}, "
            "which is not text; write both halves"
        ) from None
    return value


def dataset_files(config: CorpusConfig) -> list[Path]:
    """Return the files of a dataset of the Hugging Face hub, downloaded if need be."""
    dataset = _load(str(config.name), config.subset, str(config.split))
    return [Path(file["filename"]) for file in dataset.cache_files]


def _load(name: str, subset: str | None, split: str) -> Any:
    """Return a split, mapped into memory. Raises DataError if it cannot be loaded."""
    try:
        return _find(name, subset, split)
    except Exception as error:  # the library raises whatever its builders and filesystems raise
        if missing_package(error):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{name} {split}: the dataset cannot be loaded: {reason}; check name, subset, split"
        ) from None


def _find(name: str, subset: str | None, split: str) -> Any:
    import datasets  # seconds, and only this format needs it

    path = Path(name)
    if path.is_file() and path.suffix in _BUILDERS:
        return datasets.load_dataset(_BUILDERS[path.suffix], data_files=name, split=split)
    if any((path / marker).is_file() for marker in _SAVED):
        saved = datasets.load_from_disk(name)
        splits = saved if isinstance(saved, datasets.DatasetDict) else {saved.split or split: saved}
        if split not in splits:
            raise ValueError(f"no split '{split}' on disk; splits: {', '.join(map(str, splits))}")
        return splits[split]
    return datasets.load_dataset(name, subset, split=split)


@contextmanager
def open_unpacked(path: str | Path, *, most: int | None = None) -> Iterator[BinaryIO]:
    """Open a file as a stream, unpacked if its name ends in .gz, .bz2, .xz or .t*.

    Reading raises DataError if it unpacks to more than `most` bytes, or to more than FREE_BYTES and
    MAX_RATIO times its size; OSError or one of DAMAGED if the compressed data is damaged.
    """
    with open(find_data(path), "rb") as file:
        unpack = COMPRESSED.get(Path(path).suffix)
        if unpack is None:
            yield file
        else:
            yield io.BufferedReader(_Watched(unpack(file), file, str(path), most), 1 << 16)


class _Watched(io.RawIOBase):
    """An unpacked stream; compares its length with the part of the packed file that was read."""

    def __init__(self, stream: Any, file: BinaryIO, name: str, most: int | None) -> None:
        self._stream, self._file, self._name, self._most = stream, file, name, most
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count: int = self._stream.readinto(buffer)
        self._size += count
        if self._size > max(FREE_BYTES, MAX_RATIO * self._file.tell()):
            raise DataError(
                f"{self._name}: unpacks to more than {MAX_RATIO} times its size, unlike any text; "
                "if you trust it, unpack it yourself"
            )
        if self._most is not None and self._size > self._most:
            raise DataError(
                f"{self._name}: unpacks to more than the limit of {self._most} bytes; if you trust "
                "it, unpack it yourself"
            )
        return count


def _decode(where: str, line: tuple[bytes, int]) -> Line:
    """Return a line, given its bytes and the offset of the first one in the file."""
    raw, offset = line
    start = b"" if offset else raw
    position = raw.find(b"\0")
    if position >= 0 and not encoding_mark(start):
        raise DataError(
            f"{where}: a NUL byte at byte {offset + position}; this is binary data or UTF-16, "
            "and UTF-8 text is expected; convert text with iconv -f UTF-16LE (or UTF-16BE) -t UTF-8"
        )
    try:
        return Line(where, raw.decode())
    except UnicodeDecodeError as error:
        found = f"byte 0x{raw[error.start]:02x} at byte {offset + error.start}"
        raise DataError(f"{where}: not UTF-8: {found}; {conversion(start)}") from None


def conversion(start: bytes) -> str:
    """Return how to convert a file that is not UTF-8 and starts with these bytes."""
    if name := encoding_mark(start):
        return f"it is {name}: convert it with iconv -f {name} -t UTF-8 < OLD > NEW"
    return (
        "convert it with iconv -f ENCODING -t UTF-8 < OLD > NEW, where ENCODING is what it was "
        "saved in, such as latin1, shift_jis or gb18030"
    )


def encoding_mark(start: bytes) -> str:
    """Return the encoding of the byte order mark that a file starts with, or ""."""
    return next((name for mark, name in _OTHER_BOMS.items() if start.startswith(mark)), "")


def _json_type(value: object) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number" if isinstance(value, int | float) else "value")


def count(number: int, noun: str) -> str:
    """Return a number of things in words: 1 line, 2 lines."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
