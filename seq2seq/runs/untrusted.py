"""What is checked of a run before it is believed, for it may come from anyone.

Loading one runs no code (YAML without tags of Python, JSON, safetensors, SentencePiece), opens no
path outside of it, and takes the memory that its files account for.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.overrides import TorchFunctionMode

from seq2seq.config import ModelConfig
from seq2seq.errors import CheckpointError
from seq2seq.model.model import TranslationModel

MAX_TEXT_BYTES = 1 << 24  # of config, state and checksums
MAX_TOKENIZER_BYTES = 1 << 28
_MOST_BYTES = {".model": MAX_TOKENIZER_BYTES, ".safetensors": None}  # else MAX_TEXT_BYTES


def check_files(run: Path, checkpoints: Path) -> None:
    """Look at all that loading can open of a run, without opening it.

    `checkpoints` is the folder of them, or one of them. Raises CheckpointError for a link that
    leads out of the run, for what is neither a file nor a folder, such as a pipe that would be
    waited for, and for a text of an absurd size.
    """
    for name in ("config.yaml", "source.model", "target.model"):
        _check_path(run / name, run)
    _check_path(checkpoints, run)
    for folder, folders, files in os.walk(checkpoints):  # follows no links
        for name in (*folders, *files):
            _check_path(Path(folder, name), run)


def _check_path(path: Path, run: Path) -> None:
    try:
        found = path.stat()
        inside = path.resolve().is_relative_to(run.resolve())
    except FileNotFoundError:
        if path.is_symlink():
            raise CheckpointError(f"{path}: a link to what is not there") from None
        return
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise CheckpointError(f"{path}: cannot be read ({error})") from None
    if not inside:
        raise CheckpointError(
            f"{path}: a link that leads out of the run directory; put the file itself there"
        )
    if stat.S_ISDIR(found.st_mode):
        return
    if not stat.S_ISREG(found.st_mode):
        raise CheckpointError(f"{path}: not a file; a run holds files and folders only")
    most = _MOST_BYTES.get(path.suffix, MAX_TEXT_BYTES)
    if most is not None and found.st_size > most:
        raise CheckpointError(
            f"{path}: {found.st_size} bytes, more than the limit of {most}; this was not written "
            "by training"
        )


def check_state(path: Path, state: Any) -> None:
    """Raise CheckpointError where the state of a checkpoint is not of the kind that is written."""
    step = state.get("step")
    metrics = state.get("validation", {})
    numbers = list(metrics.values()) if isinstance(metrics, dict) else [None]
    if type(step) is not int or any(type(value) not in (int, float) for value in numbers):
        raise CheckpointError(
            f"{path}: damaged, its step or its validation is no number; use another checkpoint"
        )


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes in the header of a safetensors file, which fit the size of the file.

    Raises CheckpointError where they do not, or where the header is damaged or too large.
    """
    try:
        with safe_open(path, framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from None


def check_shapes(
    expected: Mapping[str, Tensor], found: Mapping[str, tuple[int, ...]], *, origin: Path
) -> None:
    """Raise CheckpointError where names or sizes of weights are not those of a model."""
    missing = sorted(expected.keys() - found.keys())
    foreign = sorted(found.keys() - expected.keys())
    if missing or foreign:
        raise CheckpointError(
            f"{origin}: weights do not match the config: "
            f"missing {missing[:3]}, unknown {foreign[:3]}"
        )
    for name, parameter in expected.items():
        if tuple(parameter.shape) != found[name]:
            raise CheckpointError(
                f"{origin}: {name} has the size {found[name]}, the config asks for "
                f"{tuple(parameter.shape)}"
            )


def shapes_of(config: ModelConfig, source_vocab: int, target_vocab: int) -> dict[str, Tensor]:
    """Return the parameters of a model as tensors without memory."""
    with torch.device("meta"), _Undrawn():
        return dict(_Unfilled(config, source_vocab, target_vocab).named_parameters())


class _Unfilled(TranslationModel):
    """A model whose weights are never drawn."""

    def reset_parameters(self) -> None:
        """Draw nothing."""


class _Undrawn(TorchFunctionMode):
    """Leaves out what nn.Embedding draws: for tensors without memory torch needs seconds for it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return None if func is torch.nn.init.normal_ else func(*args, **(kwargs or {}))
