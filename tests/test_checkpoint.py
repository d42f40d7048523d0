from __future__ import annotations

import logging
import math
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from seq2seq.errors import CheckpointError
from seq2seq.runs import checkpoint as module
from seq2seq.runs.checkpoint import (
    Checkpoint,
    average_weights,
    best_first,
    intact,
    list_checkpoints,
    load_weights,
    open_checkpoint,
    prune,
    save_checkpoint,
)


def weights(value: float) -> dict[str, Tensor]:
    return {"weight": torch.full((2, 3), float(value)), "bias": torch.full((2,), -float(value))}


def save(folder: Path, step: int, **metrics: float) -> Checkpoint:
    state = {"step": step, **({"validation": metrics} if metrics else {})}
    return save_checkpoint(folder / f"step-{step:06d}", weights(step), {"m": torch.ones(1)}, state)


def test_save_and_load_round_trip(tmp_path: Path) -> None:
    tensors = {"a": torch.randn(3, 4).t(), "b": torch.tensor(7)}
    save_checkpoint(tmp_path / "c", weights(2.0), tensors, {"step": 3, "x": [1, None]})
    found = open_checkpoint(tmp_path / "c").verify()
    assert found.step == 3
    assert found.state["x"] == [1, None]
    assert found.metric("bleu") is None
    assert torch.equal(found.weights()["weight"], torch.full((2, 3), 2.0))
    assert torch.equal(found.training()["a"], tensors["a"])


def test_sha256sum_verifies_a_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 1)
    folder = tmp_path / "step-000001"
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True)
    assert {file.name for file in folder.iterdir()} == {
        "model.safetensors", "training.safetensors", "state.json", "SHA256SUMS",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["model.safetensors", "training.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_damage_is_detected(tmp_path: Path, name: str, damage: str) -> None:
    file = save(tmp_path, 1).path / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    if damage == "remove":
        file.unlink()
    else:
        file.write_bytes(data if damage == "flip" else data[:-1])
    with pytest.raises(CheckpointError, match=rf"step-000001: .*{name}") as caught:
        open_checkpoint(tmp_path / "step-000001").verify()
    assert "\n" not in str(caught.value)


def test_missing_checksums_or_another_format_is_refused(tmp_path: Path) -> None:
    found = save(tmp_path, 1)
    (found.path / "state.json").write_text('{"version": 99}')
    with pytest.raises(CheckpointError, match="checkpoint format 99"):
        open_checkpoint(found.path).verify()
    (found.path / "SHA256SUMS").unlink()
    with pytest.raises(CheckpointError, match="incomplete checkpoint"):
        open_checkpoint(found.path).verify()
    (found.path / "SHA256SUMS").write_text("abc  ../../etc/passwd\n")
    with pytest.raises(CheckpointError, match="incomplete checkpoint"):
        open_checkpoint(found.path).verify()


@pytest.mark.parametrize("words", [('"step": 2', '"step": 9'), ('"step"', '"stop"')])
def test_damaged_state_is_not_listed(
    tmp_path: Path, words: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    for step in (1, 2, 3):
        save(tmp_path, step, bleu=step)
    state = tmp_path / "step-000002/state.json"
    state.write_text(state.read_text().replace(*words))
    assert [c.step for c in list_checkpoints(tmp_path)] == [1, 3]
    assert "step-000002: damaged, state.json does not match its checksum" in caplog.text


def test_damaged_checkpoints_are_skipped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (1, 2, 3, 1_000_000):
        save(tmp_path, step)
    (tmp_path / "step-000002/state.json").unlink()
    (tmp_path / "step-000004").mkdir()
    (tmp_path / ".step-000005.partial").mkdir()
    assert [c.step for c in list_checkpoints(tmp_path)] == [1, 3, 1_000_000]
    assert "step-000002" in caplog.text
    assert "step-000004" in caplog.text
    model = tmp_path / "step-1000000/model.safetensors"
    model.write_bytes(model.read_bytes()[:-1] + b"?")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        found = next(intact(reversed(list_checkpoints(tmp_path))))
    assert found.step == 3
    assert "step-1000000: damaged" in caplog.text


def test_best_first_breaks_ties_by_age(tmp_path: Path) -> None:
    save(tmp_path, 1, bleu=10.0, loss=3.0)
    save(tmp_path, 2, bleu=30.0, loss=2.0)
    save(tmp_path, 3)
    save(tmp_path, 4, bleu=30.0, loss=4.0)
    save(tmp_path, 5, bleu=math.nan, loss=math.nan)
    found = list_checkpoints(tmp_path)
    assert [c.step for c in best_first(found, "bleu")] == [2, 4, 1]
    assert [c.step for c in best_first(found, "loss")] == [2, 1, 4]


def test_prune_keeps_latest_and_best_without_reading_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step, bleu in enumerate((1.0, 9.0, 8.0, 2.0, 3.0, 1.0), start=1):
        save(tmp_path, step, bleu=bleu)
    save_checkpoint(tmp_path / "average", weights(0), {}, {"step": 6})
    (tmp_path / ".step-000007.partial").mkdir()
    (tmp_path / ".step-000001.old").mkdir()
    monkeypatch.setattr(module, "sha256", lambda path: pytest.fail("read all weights"))
    prune(tmp_path, metric="bleu", keep_last=2, keep_best=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "average", "step-000002", "step-000003", "step-000005", "step-000006",
    ]  # fmt: skip


def test_average_weights_is_the_mean(tmp_path: Path) -> None:
    mean = average_weights([save(tmp_path, step) for step in (1, 2, 6)])
    assert torch.equal(mean["weight"], torch.full((2, 3), 3.0))
    assert mean["weight"].dtype == torch.float32


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"weight has the shape \(2, 3\).*\(2, 4\)"):
        load_weights(nn.Linear(4, 2), weights(1), origin=tmp_path)
    with pytest.raises(CheckpointError, match=r"unknown \['bias'\]"):
        load_weights(nn.Linear(3, 2, bias=False), weights(1), origin=tmp_path)
    model = nn.Linear(3, 2)
    load_weights(model, weights(5), origin=tmp_path)
    assert torch.equal(model.bias, torch.full((2,), -5.0))


def test_interrupted_save_leaves_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1)

    def crash(path: Path) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "sha256", crash)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000001"]
