"""Measured values as a table and as JSON, the machine they belong to, and its matrix products."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from seq2seq.device import cpu_flags
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
        """Return the median of the values."""
        return statistics.median(self.values)

    def as_json(self) -> dict[str, Any]:
        """Return the values with their median and range."""
        lowest, highest = min(self.values), max(self.values)
        return asdict(self) | {"median": self.median, "lowest": lowest, "highest": highest}


def table(records: Sequence[Record], earlier: dict[str, float] | None = None) -> str:
    """Return one line per record, with its ratio to the median of an earlier run if given."""
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
    """Return the medians of an earlier run by name. Raises DataError if the file is not one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {record["name"]: float(record["median"]) for record in found["records"]}
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f"{path}: not a result of this benchmark; give a file written with --output"
        ) from None


def _short(value: float) -> str:
    """Return a number with three or four significant digits."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


FEATURES = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_bf16")
# Rows, inner size, columns: large, a step of the decoder's GRU, a slice of the vocabulary.
PRODUCTS = {
    "2048 x 2048 x 2048": (2048, 2048, 2048),
    "128 x 512 x 1536": (128, 512, 1536),
    "512 x 512 x 8000": (512, 512, 8000),
}


def describe(device: torch.device) -> dict[str, Any]:
    """Return what speeds depend on: processor, cores, features, threads, torch, the GPU if used."""
    found: dict[str, Any] = {
        "processor": _processor() or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "features": [name for name in FEATURES if name in cpu_flags()],
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    if device.type == "cuda":
        found["gpu"] = torch.cuda.get_device_name(device)
    return found


def _processor() -> str:
    """Return the name of the processor by /proc/cpuinfo; nothing without that file."""
    path = Path("/proc/cpuinfo")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    names = re.findall(r"^model name\s*: (.*)", text, re.MULTILINE)
    return next(iter(names), "")


def timed(call: Callable[[], object], device: torch.device) -> float:
    """Return the seconds that a call takes, on a GPU measured by its events."""
    if device.type != "cuda":
        began = time.perf_counter()
        call()
        return time.perf_counter() - began
    with torch.cuda.device(device):  # the events are recorded in its stream
        first = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        last = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        first.record()
        call()
        last.record()
        torch.cuda.synchronize()
        return float(first.elapsed_time(last)) / 1000


def product_rates(device: torch.device, dtype: torch.dtype, *, repeats: int = 7) -> list[Record]:
    """Return GFLOP/s of matrix products of a few shapes."""
    kind = str(dtype).removeprefix("torch.")
    records = []
    for name, (rows, inner, columns) in PRODUCTS.items():
        left = torch.randn(rows, inner, device=device).to(dtype)
        right = torch.randn(columns, inner, device=device).to(dtype)
        calls = max(1, int(2e9 / (rows * inner * columns)))  # some milliseconds in all

        def multiply(
            left: torch.Tensor = left, right: torch.Tensor = right, calls: int = calls
        ) -> None:
            for _ in range(calls):
                left @ right.t()

        multiply()
        operations = 2e-9 * rows * inner * columns * calls
        rates = tuple(operations / timed(multiply, device) for _ in range(repeats))
        records.append(Record(f"product {kind} {name}", "GFLOP/s", rates))
    return records
