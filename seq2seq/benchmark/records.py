"""What was measured: medians with their spread, as a table, as JSON, beside an earlier run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seq2seq.errors import DataError
from seq2seq.files import write_atomic


@dataclass(frozen=True)
class Record:
    """One quantity, measured several times."""

    name: str
    unit: str
    values: tuple[float, ...]
    note: str = ""

    @property
    def median(self) -> float:
        """The middle of the values."""
        return statistics.median(self.values)

    def as_json(self) -> dict[str, Any]:
        """Return the values with their median and range."""
        lowest, highest = min(self.values), max(self.values)
        return asdict(self) | {"median": self.median, "lowest": lowest, "highest": highest}


def table(records: Sequence[Record], earlier: dict[str, float] | None = None) -> str:
    """Return a line a record; with the medians of an earlier run, also the ratio to them."""
    width = max((len(record.name) for record in records), default=0)
    lines = []
    for record in records:
        low, high = min(record.values), max(record.values)
        line = f"{record.name:<{width}}  {_short(record.median):>8} {record.unit}"
        if high > low:
            line += f"  ({_short(low)} - {_short(high)})"
        if record.note:
            line += f"  {record.note}"
        if earlier and earlier.get(record.name):
            line += f"  x{record.median / earlier[record.name]:.2f} of the earlier run"
        lines.append(line)
    return "\n".join(lines)


def write(path: Path, machine: dict[str, Any], records: Sequence[Record]) -> None:
    """Write machine and records as JSON."""
    found = {"machine": machine, "records": [record.as_json() for record in records]}
    write_atomic(path, json.dumps(found, indent=1) + "\n")


def read_medians(path: Path) -> dict[str, float]:
    """Return the medians of an earlier run by name. Raises DataError for another file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {record["name"]: float(record["median"]) for record in found["records"]}
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path}: not a benchmark's JSON; give one that it wrote") from None


def _short(value: float) -> str:
    """Return a number with three or four digits that count."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
