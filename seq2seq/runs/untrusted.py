"""Validate an untrusted run before it is loaded.

Loading a run executes no code (YAML without Python tags, JSON, safetensors, SentencePiece), opens
no path outside it, and takes no more memory than its files account for.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor


MAX_TEXT_BYTES = 1 << 24  # config, state, checksums
MAX_TOKENIZER_BYTES = 1 << 28
MAX_GRAPH_BYTES = 1 << 31  # of a protocol buffer
_MAX_BYTES = {
    ".model": MAX_TOKENIZER_BYTES,
    ".safetensors": None,
    ".onnx": MAX_GRAPH_BYTES,
}  # by suffix; else MAX_TEXT_BYTES


def check_files(run: Path, *folders: Path) -> None:
    """Check every file that loading a run may open, without opening any.

    The folders are those of checkpoints or graphs. Raises CheckpointError for a link that leads out
    of the run, for anything that is not a file or folder (reading a pipe would block), and for a
    text file of absurd size.
    """
    for path in (
        *(run / name for name in ("config.yaml", "source.model", "target.model")),
        *folders,
    ):
        _check_path(path, run)
    for folder in folders:
        for parent, inner, files in os.walk(folder):  # follows no links
            for name in (*inner, *files):
                _check_path(Path(parent, name), run)


def _check_path(path: Path, run: Path) -> None:
    try:
        found = path.stat()
        inside = path.resolve().is_relative_to(run.resolve())
    except FileNotFoundError:
        if path.is_symlink():
            raise CheckpointError(f"{path}: broken link; put the file itself there") from None
        return
    except (OSError, RuntimeError) as error:  # RuntimeError: a cycle of links
        raise CheckpointError(f"{path}: cannot be read ({error})") from None
    if not inside:
        raise CheckpointError(
            f"{path}: a link that leads out of the run directory; put the file itself there"
        )
    if stat.S_ISDIR(found.st_mode):
        return
    if not stat.S_ISREG(found.st_mode):
        raise CheckpointError(f"{path}: not a regular file; a run holds only files and folders")
    limit = _MAX_BYTES.get(path.suffix, MAX_TEXT_BYTES)
    if limit is not None and found.st_size > limit:
        raise CheckpointError(
            f"{path}: {found.st_size} bytes, more than the limit of {limit}; training did not "
            "write this file"
        )


def check_state(path: Path, state: Any) -> None:
    """Raise CheckpointError if step or metrics in a checkpoint's state have the wrong type."""
    step = state.get("step")
    metrics = state.get("validation", {})
    numbers = list(metrics.values()) if isinstance(metrics, dict) else [None]
    if type(step) is not int or any(type(value) not in (int, float) for value in numbers):
        raise CheckpointError(
            f"{path}: damaged, its step or validation metrics are not numbers; use another "
            "checkpoint"
        )


def check_shapes(
    expected: Mapping[str, Tensor], found: Mapping[str, tuple[int, ...]], *, origin: Path
) -> None:
    """Raise CheckpointError if names or shapes of weights are not those of the model."""
    missing = sorted(expected.keys() - found.keys())
    unknown = sorted(found.keys() - expected.keys())
    if missing or unknown:
        raise CheckpointError(
            f"{origin}: weights do not match the config: "
            f"missing {missing[:3]}, unknown {unknown[:3]}"
        )
    for name, parameter in expected.items():
        if tuple(parameter.shape) != found[name]:
            raise CheckpointError(
                f"{origin}: {name} has the shape {found[name]}, but the config asks for "
                f"{tuple(parameter.shape)}"
            )
