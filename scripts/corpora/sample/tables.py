"""Read the word tables: TSV files in words/ with comment lines, a header and a row per word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from seq2seq.errors import DataError

WORDS = Path(__file__).parent / "words"
Item = TypeVar("Item")


def read_table(
    name: str, columns: str, build: Callable[..., Item], *, folder: Path = WORDS
) -> tuple[Item, ...]:
    """Return `build(*fields)` for each row of a table; empty columns may be left out at its end.

    Raises DataError, naming file and line, for another header than `columns`, for too many
    columns, and where `build` raises KeyError or ValueError.
    """
    path = folder / f"{name}.tsv"
    expected = columns.split()
    header: list[str] = []
    found: list[Item] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        where = f"{path}:{number}"
        fields = line.split("\t")
        if not header:
            header = fields
            if header != expected:
                raise DataError(f"{where}: wrong header; expected the columns {columns}")
            continue
        if len(fields) > len(header):
            raise DataError(f"{where}: {len(fields)} columns; the header has {len(header)}")
        try:
            found.append(build(*fields, *[""] * (len(header) - len(fields))))
        except KeyError as error:
            raise DataError(f"{where}: unknown name {error}; correct its spelling") from None
        except ValueError as error:
            raise DataError(f"{where}: {error}") from None
    return tuple(found)
