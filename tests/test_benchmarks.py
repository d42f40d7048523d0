"""Speeds of decoding and serving as the benchmark measures them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.decoding import CPU, Kind, decoding_speed, native_kinds
from benchmarks.serving import serving_speed
from benchmarks.training import windows
from seq2seq.errors import CheckpointError, UserError


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


@pytest.mark.parametrize(
    ("pace", "expected", "limit"), [(0.01, 5, 12.1), (0.5, 4, 15), (1, 2, 18), (4, 2, 72)]
)
def test_measuring_takes_about_as_long_as_asked(
    monkeypatch: pytest.MonkeyPatch, pace: float, expected: int, limit: float
) -> None:
    now = 0.0

    def update() -> None:
        nonlocal now
        now += pace

    monkeypatch.setattr("time.perf_counter", lambda: now)
    found = windows([update] * 6, [10] * 6, CPU, seconds=12)
    assert found == pytest.approx([10 / pace] * expected)
    assert now <= limit + 1e-6


def test_missing_run_raises(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not a run directory"):
        decoding_speed(tmp_path, ["gato"])


def test_a_server_answers_one_client_and_several(exported: Path) -> None:
    records = serving_speed(exported, ["gato come", "pan"], clients=(1, 4), seconds=0.5, repeats=2)
    found = {record.name: record for record in records}
    for count in (1, 4):
        name = f"fp32, workers: 1, clients: {count}"
        speed = found.pop(f"{name}, throughput")
        median, longest = found.pop(f"{name}, median"), found.pop(f"{name}, 99th percentile")
        assert (speed.unit, median.unit, longest.unit) == ("requests/s", "ms", "ms")
        assert len(speed.values) == len(median.values) == len(longest.values) == 2
        # Clients that never pause always have a request under way (Little's law).
        assert count / 4 < speed.median * median.median / 1000 < count * 2
        assert all(low <= high for low, high in zip(median.values, longest.values, strict=True))
    assert not found


def test_a_server_that_does_not_start_raises(exported: Path) -> None:
    with pytest.raises(UserError, match=r"did not start.*no-such-precision"):
        serving_speed(exported, ["pan"], precision="no-such-precision")
