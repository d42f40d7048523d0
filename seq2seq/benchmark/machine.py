"""The machine: its processor, and how fast it multiplies matrices."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from seq2seq.benchmark.records import Record

FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
# Rows, inner size, columns: large, a step of the decoder's GRU, a slice of the vocabulary.
PRODUCTS = {
    "2048 x 2048 x 2048": (2048, 2048, 2048),
    "128 x 512 x 1536": (128, 512, 1536),
    "512 x 512 x 8000": (512, 512, 8000),
}


def describe(device: torch.device) -> dict[str, Any]:
    """Return what figures have to name: processor, cores, features, torch, the GPU if used."""
    cpu = _cpu()
    found: dict[str, Any] = {
        "processor": cpu.get("model name") or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "features": [name for name in FEATURES if name in cpu.get("flags", "").split()],
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    if device.type == "cuda":
        found["gpu"] = torch.cuda.get_device_name(device)
    return found


def _cpu() -> dict[str, str]:
    """Return what Linux tells of the first core."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    first = path.read_text(encoding="utf-8").split("\n\n")[0]
    pairs = [line.partition(":") for line in first.splitlines()]
    return {name.strip(): value.strip() for name, _, value in pairs}


def timed(call: Callable[[], object], device: torch.device) -> float:
    """Return the seconds of a call, on a GPU by its own events."""
    if device.type != "cuda":
        began = time.perf_counter()
        call()
        return time.perf_counter() - began
    with torch.cuda.device(device):  # whose stream the events are recorded in
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
        calls = max(1, int(2e9 / (rows * inner * columns)))  # some milliseconds each time

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
