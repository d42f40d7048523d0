from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from seq2seq.analysis.plots import curve, read_records
from seq2seq.errors import DataError

TRAIN = {"kind": "train", "loss": 2.5, "learning_rate": 0.1}


def write(run: Path, *records: dict[str, Any], end: str = "") -> Path:
    run.mkdir(exist_ok=True)
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (run / "metrics.jsonl").write_text(lines + end, encoding="utf-8")
    return run


def records() -> list[dict[str, Any]]:
    return [
        {**TRAIN, "step": 10, "perplexity": 7.0, "tokens": 1_000_000, "minutes": 1.0},
        {"kind": "validation", "step": 15, "loss": 1.5, "bleu": 20.0, "chrf": 30.0, "minutes": 1.6},
        {**TRAIN, "step": 20, "perplexity": None, "tokens": 3_000_000, "minutes": 2.0},
        {"kind": "average", "step": 20, "steps": [15], "loss": 1.4, "bleu": 22.0, "chrf": 31.0},
    ]


def test_curves_hold_the_records(tmp_path: Path) -> None:
    found = read_records(write(tmp_path / "run", *records()))
    loss = curve(found, "train", "loss", "steps")
    assert loss[0] == [10, 20]
    # From the perplexity, so without label smoothing; a value that was not finite is nan.
    assert loss[1][0] == pytest.approx(math.log(7))
    assert math.isnan(loss[1][1])
    assert curve(found, "validation", "bleu", "steps")[1] == [20]
    assert curve(found, "average", "bleu", "steps")[0] == [20]
    assert curve(found, "train", "chrf", "steps")[0] == []


def test_minutes_and_tokens_of_validations(tmp_path: Path) -> None:
    found = read_records(write(tmp_path / "run", *records()))
    assert curve(found, "validation", "bleu", "minutes")[0] == [1.6]
    # Halfway between the records of training at steps 10 and 20, in millions.
    assert curve(found, "validation", "bleu", "tokens")[0] == [2.0]
    assert curve(found, "average", "bleu", "minutes")[0] == [2.0]
    assert curve(found, "train", "learning_rate", "tokens")[0] == [1.0, 3.0]


def test_incomplete_last_line_is_skipped(tmp_path: Path) -> None:
    found = read_records(write(tmp_path / "run", *records(), end='{"kind": "tra'))
    assert [record["step"] for record in found if record["kind"] == "train"] == [10, 20]


def test_curves_of_a_trained_run(trained: Path) -> None:
    found = read_records(trained)
    assert curve(found, "validation", "bleu", "steps")[0] == [50, 100, 150]
    assert len(curve(found, "average", "bleu", "tokens")[0]) == 1
    loss = curve(found, "train", "loss", "steps")
    assert loss[1][0] > loss[1][-1] > 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no records yet"),
        ("{}\n{}\n", r"metrics.jsonl:1: not a training record: \{\}"),
        ('{"kind": "other", "step": 1}\n\n', "metrics.jsonl:1: not a training record"),
        ('{"kind": "train", "step": "x"}\n\n', "metrics.jsonl:1: not a training record"),
        ("\xff\n\n", "not a training record"),
    ],
)
def test_invalid_record_raises(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_records(write(tmp_path / "run", end=text))


def test_unreadable_metrics_raise(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot be read .* name the run directory"):
        read_records(tmp_path / "none")
    (tmp_path / "metrics.jsonl").write_bytes(b"\xff\n")
    with pytest.raises(DataError, match="not UTF-8"):
        read_records(tmp_path)
