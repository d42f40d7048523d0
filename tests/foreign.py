"""Runs as an attacker could make them: altered, with matching checksums."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seq2seq.files import sha256

NAMES = ("model.safetensors", "training.safetensors", "state.json")


def copy_run(run: Path, path: Path) -> Path:
    """Return a copy with only the last checkpoint."""
    shutil.copytree(run, path, ignore=shutil.ignore_patterns("average", "step-000050", "step-*100"))
    return path


def checkpoint_of(run: Path) -> Path:
    return run / "checkpoints/step-000150"


def seal(checkpoint: Path) -> None:
    """Update the checksums."""
    sums = [f"{sha256(checkpoint / n)}  {n}\n" for n in NAMES if (checkpoint / n).is_file()]
    (checkpoint / "SHA256SUMS").write_text("".join(sums))


def alter_state(run: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the checkpoint's state, in place or to the returned value."""
    path = checkpoint_of(run) / "state.json"
    state = json.loads(path.read_text())
    changed = change(state)
    path.write_text(json.dumps(state if changed is None else changed))
    seal(checkpoint_of(run))


def alter_header(run: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the header of the weights but not their bytes."""
    path = checkpoint_of(run) / "model.safetensors"
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + size :])
    seal(checkpoint_of(run))


def alter_config(run: Path, old: str, new: str) -> None:
    path = run / "config.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
