"""Compare two runs bit by bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from seq2seq.runs.checkpoint import list_checkpoints
from seq2seq.runs.directory import RunDirectory

TIMES = ("minutes", "tokens_per_second")


def records(path: Path) -> list[dict[str, Any]]:
    """Return the records of metrics.jsonl without their times."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{key: line[key] for key in line if key not in TIMES} for line in lines]


def assert_same(first: Path, second: Path) -> None:
    """Assert that two runs have the same checkpoints, weights, moments and records."""
    assert records(first) == records(second)
    ones, others = (
        list_checkpoints(RunDirectory(path).checkpoints)
        + list_checkpoints(RunDirectory(path).checkpoints, pattern="average")
        for path in (first, second)
    )
    assert [c.path.name for c in ones] == [c.path.name for c in others]
    for one, other in zip(ones, others, strict=True):
        for kind in ("weights", "training"):
            tensors, twins = (getattr(c.verify(), kind)() for c in (one, other))
            assert tensors.keys() == twins.keys()
            assert all(torch.equal(tensors[name], twins[name]) for name in tensors)
        for key in one.state.keys() - {"progress"}:
            assert one.state[key] == other.state[key]
        assert _progress(one.state) == _progress(other.state)


def _progress(state: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in state.get("progress", {}).items() if k != "minutes"}
