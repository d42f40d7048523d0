"""Decoding speed of a run: all sentences at once, one at a time, and from a cold start."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import torch

from benchmarks.measuring import Record
from seq2seq.device import multiplies_bf16, multiplies_int8
from seq2seq.inference.translator import Translator

Kind = tuple[Literal["onnx", "torch"], str]  # backend and precision

CPU = torch.device("cpu")
ALONE = 100  # how many sentences are translated one at a time
CLOCKS = {"": time.perf_counter, ", CPU time": time.process_time}


def decoding_speed(
    run: str | Path,
    sentences: Sequence[str],
    *,
    device: torch.device = CPU,
    kinds: Sequence[Kind] | None = None,
    beam: int = 5,
    repeats: int = 5,
    threads: int = 1,
    cold: bool = True,
) -> list[Record]:
    """Return how fast a run translates, greedily and with a beam, by backend and precision.

    By default all that the device has instructions for. `all at once`: sentences per second,
    translated by one call. `one at a time`: milliseconds per sentence, each translated by a call of
    its own. `cold start`: seconds and peak resident memory of `seq2seq translate` for one sentence
    with the beam, including the start of the process. CPU time is given beside wall time, since
    other programs affect it less. All kinds take turns, so that a disturbance hits all.
    """
    torch.set_num_threads(threads)
    kinds = kinds or native_kinds(device)
    searches = {
        f"{search}, {backend} {precision}": (translator, translator.options(beam_size=beam_size))
        for backend, precision in kinds
        for translator in [
            Translator.load(
                run, device=str(device), precision=precision, backend=backend, threads=threads
            )
        ]
        for search, beam_size in (("greedy", 1), (f"beam {beam}", beam))
    }
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for repeat in range(repeats + 1):
        for kind, (translator, options) in searches.items():
            times = _times(translator.translate, sentences, options)
            if repeat:  # the first round only warms up
                for clock, seconds in times.items():
                    speed = len(sentences) / seconds
                    found[f"{kind}, all at once{clock}", "sentences/s"].append(speed)
    for sentence in sentences[:ALONE]:
        for kind, (translator, options) in searches.items():
            for clock, seconds in _times(translator.translate, [sentence], options).items():
                found[f"{kind}, one at a time{clock}", "ms"].append(1000 * seconds)
    for _ in range(repeats if cold else 0):
        for backend, precision in kinds:
            name = f"cold start, {backend} {precision}"
            where = ("--device", str(device), "--precision", precision, "--backend", backend)
            how = ("--beam", str(beam), "--threads", str(threads))
            seconds, mebibytes = _cold_start(run, sentences[0], *where, *how)
            found[name, "s"].append(seconds)
            found[f"{name}, peak resident memory", "MiB"].append(mebibytes)
    return [Record(name, unit, tuple(values)) for (name, unit), values in found.items()]


def native_kinds(device: torch.device) -> list[Kind]:
    """Return the backends and precisions that the device has instructions for."""
    on_cpu = device.type == "cpu"
    kinds: dict[Kind, bool] = {
        ("onnx", "fp32"): on_cpu,
        ("onnx", "int8"): on_cpu and multiplies_int8(),
        ("torch", "fp32"): True,
        ("torch", "bf16"): multiplies_bf16(device),
    }
    return [kind for kind, native in kinds.items() if native]


def _times(work: Callable[..., object], *arguments: object) -> dict[str, float]:
    """Return the seconds that a call takes by each clock."""
    before = {name: clock() for name, clock in CLOCKS.items()}
    work(*arguments)
    return {name: clock() - before[name] for name, clock in CLOCKS.items()}


# A small process of its own: what a process has used before it becomes another program counts.
_LAUNCHER = """
import resource, subprocess, sys, time
began = time.perf_counter()
subprocess.run(sys.argv[1:], check=True)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.perf_counter() - began, usage.ru_maxrss)
"""


def _cold_start(run: str | Path, sentence: str, *options: str) -> tuple[float, float]:
    """Return the seconds and the peak resident MiB of a process that translates one sentence."""
    command = [sys.executable, "-m", "seq2seq", "translate", str(run), *options]
    found = subprocess.run(
        [sys.executable, "-c", _LAUNCHER, *command],
        input=f"{sentence}\n",
        encoding="utf-8",
        capture_output=True,
        check=True,
    )
    seconds, kibibytes = found.stdout.split()[-2:]
    return float(seconds), int(kibibytes) / 1024
