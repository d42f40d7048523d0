"""Decoding speed as the benchmark measures it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.decoding import CPU, Kind, decoding_speed, native_kinds
from seq2seq.errors import CheckpointError


def test_every_search_and_precision_is_measured(trained: Path) -> None:
    sentences = ["gato come", "pan", "él ve agua"]
    records = decoding_speed(trained, sentences, beam=2, repeats=2, cold=False)
    found = {record.name: record for record in records}
    assert len(found) == len(records)
    for backend, precision in native_kinds(CPU):
        for search in ("greedy", "beam 2"):
            for clock in ("", ", CPU time"):
                at_once = found.pop(f"{search}, {backend} {precision}, all at once{clock}")
                assert (at_once.unit, len(at_once.values)) == ("sentences/s", 2)
                alone = found.pop(f"{search}, {backend} {precision}, one at a time{clock}")
                assert (alone.unit, len(alone.values)) == ("ms", len(sentences))
                assert min(*at_once.values, *alone.values) > 0
    assert not found


def test_cold_start_runs_in_its_own_process(trained: Path) -> None:
    kinds: list[Kind] = [("onnx", "fp32"), ("torch", "fp32")]
    *_, onnx, memory, plain, more = decoding_speed(
        trained, ["gato"], kinds=kinds, beam=2, repeats=1
    )
    assert (onnx.name, onnx.unit) == ("cold start, onnx fp32", "s")
    assert (memory.name, memory.unit) == ("cold start, onnx fp32, peak resident memory", "MiB")
    assert 0.05 < onnx.median < plain.median  # which imports torch
    assert 20 < memory.median < more.median


def test_missing_run_raises(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not a run directory"):
        decoding_speed(tmp_path, ["gato"])
