"""Decoding speed of a run: all sentences at once, one at a time, and from a cold start."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from benchmarks.measuring import Record
from seq2seq.device import multiplies_bf16
from seq2seq.inference.translator import Translator
from seq2seq.model.prepared.product import multiplies_int8

CPU = torch.device("cpu")
ALONE = 100  # how many sentences are translated one at a time
CLOCKS = {"": time.perf_counter, ", CPU time": time.process_time}


def decoding_speed(
    run: str | Path,
    sentences: Sequence[str],
    *,
    device: torch.device = CPU,
    precisions: Sequence[str] | None = None,
    beam: int = 5,
    repeats: int = 5,
    threads: int = 1,
    cold: bool = True,
) -> list[Record]:
    """Return how fast a run translates, greedily and with a beam, in each precision.

    The default precisions are those the device has instructions for. `all at once`: sentences per
    second, translated by one call. `one at a time`: milliseconds per sentence, each translated by a
    call of its own. `cold start`: seconds that `seq2seq translate` takes for one sentence with the
    beam, including the start of the process. CPU time is given beside wall time, since other
    programs affect it less. Precisions and searches take turns, so that a disturbance hits all.
    """
    torch.set_num_threads(threads)
    precisions = precisions or native_precisions(device)
    kinds = {
        f"{search}, {precision}": (translator, translator.options(beam_size=beam_size))
        for precision in precisions
        for translator in [Translator.load(run, device=str(device), precision=precision)]
        for search, beam_size in (("greedy", 1), (f"beam {beam}", beam))
    }
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for repeat in range(repeats + 1):
        for kind, (translator, options) in kinds.items():
            times = _times(translator.translate, sentences, options)
            if repeat:  # the first round only warms up
                for clock, seconds in times.items():
                    speed = len(sentences) / seconds
                    found[f"{kind}, all at once{clock}", "sentences/s"].append(speed)
    for sentence in sentences[:ALONE]:
        for kind, (translator, options) in kinds.items():
            for clock, seconds in _times(translator.translate, [sentence], options).items():
                found[f"{kind}, one at a time{clock}", "ms"].append(1000 * seconds)
    for _ in range(repeats if cold else 0):
        for precision in precisions:
            seconds = _cold_start(run, sentences[0], device, precision, beam, threads)
            found[f"cold start, {precision}", "s"].append(seconds)
    return [Record(name, unit, tuple(values)) for (name, unit), values in found.items()]


def native_precisions(device: torch.device) -> list[str]:
    """Return the precisions that the device has instructions for."""
    kinds = {"fp32": True, "bf16": multiplies_bf16(device), "int8": multiplies_int8(device)}
    return [name for name, native in kinds.items() if native]


def _times(work: Callable[..., object], *arguments: object) -> dict[str, float]:
    """Return the seconds that a call takes by each clock."""
    before = {name: clock() for name, clock in CLOCKS.items()}
    work(*arguments)
    return {name: clock() - before[name] for name, clock in CLOCKS.items()}


def _cold_start(
    run: str | Path, sentence: str, device: torch.device, precision: str, beam: int, threads: int
) -> float:
    options = ("--device", str(device), "--precision", precision)
    numbers = ("--beam", str(beam), "--threads", str(threads))
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "seq2seq", "translate", str(run), *options, *numbers],
        input=f"{sentence}\n",
        encoding="utf-8",
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - began
