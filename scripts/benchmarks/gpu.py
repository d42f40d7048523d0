"""What only a GPU can show: its tests, kernels and waits, speeds with CUDA graphs, and texts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.measuring import Record
from benchmarks.training import Shape, Update, training_speed
from seq2seq.config import load_config
from seq2seq.data.batching import Batch
from seq2seq.inference.translator import Translator
from seq2seq.model import kernels
from seq2seq.pipeline import train
from seq2seq.runs.directory import RunDirectory
from seq2seq.runs.logs import read_metrics

TESTS = tuple(f"tests/test_{name}.py" for name in ("replay", "kernels", "optimizer", "devices"))
STYLES = ("conditional", "bahdanau")
TOKENS = (2048, 8192, 32768)
UPDATES = 500  # of the quick start
Checks = Iterator[list[Record]]


def gpu_checks(
    device: torch.device,
    batches: Callable[[int], list[Batch]],
    run: str | None,
    sentences: Sequence[str],
    *,
    seconds: float = 3.0,
) -> Checks:
    """Yield the results of all checks; one that fails is reported, and the next one follows.

    `batches` returns batches of this many tokens. Without a GPU, only the tests run.
    """
    yield from _reported("tests", _tests)
    if device.type != "cuda":
        print("kernels, waits, speeds, updates, texts: skipped, since this is no GPU")
        return
    torch.cuda.set_stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]
    yield from _reported("kernels", lambda: _kernels(device, batches(TOKENS[0])[0]))
    yield from _reported("waits", lambda: _waits(device, batches(TOKENS[0])[0]))
    for tokens in TOKENS:
        yield from _reported("speeds", partial(_speeds, device, batches, tokens, seconds))
    yield from _reported("updates", _updates)
    if run:
        yield from _reported("texts", lambda: _texts(run, sentences))


def _reported(name: str, check: Callable[[], Checks]) -> Checks:
    """Yield the results of a check, and how long it took or why it ended."""
    began = time.perf_counter()
    try:
        yield from check()
    except Exception:
        print(traceback.format_exc(), file=sys.stderr, flush=True)
        reason = traceback.format_exc(limit=-1).splitlines()[-1]
        yield [Record(f"{name}: failed", "", (0.0,), reason)]
    yield [Record(f"{name}: time", "s", (time.perf_counter() - began,))]


def _tests() -> Checks:
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", *TESTS]
    try:
        found = subprocess.run(command, capture_output=True, timeout=300, check=False)
        code, output = found.returncode, found.stdout
    except subprocess.TimeoutExpired as error:
        code, output = 1, error.stdout or b""
    text = output.decode(errors="replace")
    print(text[-6000:])
    yield [Record("tests: exit code", "", (code,), text.strip().rpartition("\n")[2])]


@contextlib.contextmanager
def _cell(*, fused: bool) -> Iterator[None]:
    """Let a GPU compute the gates with ATen's fused cell, or in separate kernels."""
    before = kernels.FusedCell
    if not fused:
        kernels.FusedCell = kernels.SeparateCell  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        kernels.FusedCell = before  # type: ignore[misc]


def _kernels(device: torch.device, batch: Batch) -> Checks:
    """Count the kernels of an update, and how long the GPU is busy with them."""
    for style in STYLES:
        for fused in (False, True):
            with _cell(fused=fused):
                update = Update(Shape(style=style), device, torch.bfloat16)
                for _ in range(3):
                    update(batch)
                torch.cuda.synchronize()
                with profile(activities=[ProfilerActivity.CUDA]) as profiler:
                    update(batch)
                    torch.cuda.synchronize()
            events = [e for e in profiler.events() if e.device_type.name == "CUDA"]
            busy = sum(event.self_device_time_total for event in events) / 1000
            name = f"update, {style}{', fused cell' if fused else ''}"
            yield [
                Record(f"{name}: kernels", "", (len(events),)),
                Record(f"{name}: busy", "ms", (busy,)),
            ]


def _waits(device: torch.device, batch: Batch) -> Checks:
    """Make passes and an update in a mode in which a wait is an error."""
    for style in STYLES:
        update = Update(Shape(style=style), device, torch.bfloat16)
        update(batch)
        torch.cuda.set_sync_debug_mode("error")
        try:
            update(batch)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        yield [Record(f"update, {style}: waits", "", (0,))]


def _speeds(
    device: torch.device, batches: Callable[[int], list[Batch]], tokens: int, seconds: float
) -> Checks:
    chosen = batches(tokens)
    for style in STYLES:
        for kind, graphs, fused in (
            ("eager", False, False), ("graphs", True, False), ("graphs, fused cell", True, True),
        ):  # fmt: skip
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            name = f"training, {style}, {tokens:,} tokens, {kind}"
            shape = replace(Shape(style=style), batch_tokens=tokens)
            with _cell(fused=fused):
                speed = training_speed(
                    name, shape, device, torch.bfloat16,
                    batches=chosen, seconds=seconds, graphs=graphs,
                )  # fmt: skip
            peaks = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
            used, reserved = (peak / 2**30 for peak in peaks)
            note = f"{speed.note}, peak memory {used:.1f} GiB of {reserved:.1f} reserved"
            yield [replace(speed, note=note)]


def _updates() -> Checks:
    """Train with and without graphs; their losses should agree within a hundredth."""
    losses = {}
    for graphs in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            config = load_config(
                "configs/quickstart.yaml",
                [f"run_dir={folder}/run", f"training.max_steps={UPDATES}", "training.device=cuda",
                 f"training.cuda_graphs={str(graphs).lower()}", "training.tensorboard=false",
                 f"training.validate_every={UPDATES}"],
            )  # fmt: skip
            train(config)
            run = RunDirectory(Path(folder, "run"))
            records = read_metrics(run.metrics)
            if "recording failed" in run.log_path.read_text(encoding="utf-8"):
                raise RuntimeError("no graph was recorded; see the warning above")
        trained = [record for record in records if record["kind"] == "train"]
        losses[graphs] = trained[-1]["loss"]
        name = f"quick start, {UPDATES} updates, {'graphs' if graphs else 'eager'}"
        speeds = tuple(record["tokens_per_second"] for record in trained)
        yield [Record(f"{name}: loss", "nats", (losses[graphs],)), Record(name, "tokens/s", speeds)]
    yield [Record("quick start: loss with graphs / eager", "", (losses[True] / losses[False],))]


def _texts(run: str, sentences: Sequence[str]) -> Checks:
    """Translate on the GPU and on the CPU, and count the texts that differ."""
    torch.set_num_threads(os.cpu_count() or 1)
    for beam in (1, 5):
        texts = {}
        for device, precision in (("cpu", "fp32"), ("cuda", "fp32"), ("cuda", "bf16")):
            translator = Translator.load(run, device=device, precision=precision, backend="torch")
            options = translator.options(beam_size=beam)
            speeds = []
            for _ in range(3 if device == "cuda" else 1):
                began = time.perf_counter()
                found = translator.translate(list(sentences), options)
                speeds.append(len(sentences) / (time.perf_counter() - began))
            texts[device, precision] = [best.text for best, *_ in found]
            name = f"decoding, beam {beam}, {device} {precision}"
            yield [Record(name, "sentences/s", tuple(speeds[-2:]))]
        pairs = zip(texts["cpu", "fp32"], texts["cuda", "fp32"], strict=True)
        differing = sum(one != other for one, other in pairs)
        yield [Record(f"decoding, beam {beam}: texts that differ", "", (differing,))]
