"""Decoding speed as the benchmark measures it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.decoding import CPU, decoding_speed, native_precisions
from seq2seq.errors import CheckpointError


def test_every_search_and_precision_is_measured(trained: Path) -> None:
    sentences = ["gato come", "pan", "él ve agua"]
    records = decoding_speed(trained, sentences, beam=2, repeats=2, cold=False)
    found = {record.name: record for record in records}
    assert len(found) == len(records)
    for precision in native_precisions(CPU):
        for search in ("greedy", "beam 2"):
            for clock in ("", ", CPU time"):
                at_once = found.pop(f"{search}, {precision}, all at once{clock}")
                assert (at_once.unit, len(at_once.values)) == ("sentences/s", 2)
                alone = found.pop(f"{search}, {precision}, one at a time{clock}")
                assert (alone.unit, len(alone.values)) == ("ms", len(sentences))
                assert min(*at_once.values, *alone.values) > 0
    assert not found


def test_cold_start_runs_in_its_own_process(trained: Path) -> None:
    *_, record = decoding_speed(trained, ["gato"], precisions=["fp32"], beam=2, repeats=1)
    assert (record.name, record.unit) == ("cold start, fp32", "s")
    assert record.median > 0.3  # importing torch alone takes longer


def test_missing_run_raises(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not a run directory"):
        decoding_speed(tmp_path, ["gato"])
