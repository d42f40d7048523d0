"""A checkpoint is a directory: weights in safetensors, state in JSON, checksums, no pickle.

step-000500/model.safetensors       the weights for translation (the moving average, if any)
step-000500/training.safetensors    optimizer moments, raw weights
step-000500/state.json              step, metrics, positions of the sampler and the schedule
step-000500/SHA256SUMS              checksums of the other three, in the format of sha256sum

An exported checkpoint has no training.safetensors, and its weights may be int8 (compact). It
translates and can be fine-tuned, but not resumed. Once measured, the cost of int8 on the validation
set is also in state.json.

Functions that return or write tensors import torch themselves; all others work without it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.errors import CheckpointError
from seq2seq.files import (
    before_replaced,
    naming,
    publish_directory,
    remove_directory,
    replaced,
    sha256,
)
from seq2seq.runs import tensors
from seq2seq.runs.tensors import Array

if TYPE_CHECKING:
    from torch import Tensor, nn

log = logging.getLogger(__name__)

MODEL, TRAINING = "model.safetensors", "training.safetensors"
STATE, SUMS = "state.json", "SHA256SUMS"
VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk; `verify` compares its files with their checksums."""

    path: Path
    state: dict[str, Any]

    @property
    def step(self) -> int:
        """The number of updates that led to this checkpoint."""
        return int(self.state["step"])

    @property
    def stopped(self) -> bool:
        """Whether it was saved because of a signal, between regular checkpoints."""
        return bool(self.state.get("stopped", False))

    def metric(self, name: str) -> float | None:
        """Return a validation metric, or None if exactly these weights were not validated."""
        value = self.state.get("validation", {}).get(name)
        return None if value is None else float(value)

    @property
    def weights_sum(self) -> str:
        """The recorded SHA-256 of the weights for translation."""
        return _sums(self.path)[MODEL]

    def verify(self) -> Checkpoint:
        """Return the checkpoint. Raises CheckpointError if a file does not match its checksum."""
        try:
            for name, expected in _sums(self.path).items():
                if sha256(self.path / name) != expected:
                    raise CheckpointError(
                        f"{self.path}: damaged, {name} does not match its checksum; use another "
                        "checkpoint"
                    )
        except OSError as error:
            raise _incomplete(self.path, error) from None
        return self

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the weights for translation, without reading the weights."""
        return tensors.read_shapes(self.path / MODEL)

    def arrays(self) -> dict[str, Array]:
        """Return the weights for translation as NumPy arrays, read without torch."""
        return tensors.read_weights(self.path / MODEL)

    def weights(self) -> dict[str, Tensor]:
        """Return the weights for translation."""
        return _to_torch(self.arrays())

    def training(self) -> dict[str, Tensor]:
        """Return the tensors that only training needs; none before the first update."""
        if not (self.path / TRAINING).exists():
            return {}
        return _to_torch(tensors.read_arrays(self.path / TRAINING))


def _to_torch(arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    import torch

    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def save_checkpoint(
    path: Path, weights: Mapping[str, Tensor], training: Mapping[str, Tensor], state: dict[str, Any]
) -> Checkpoint:
    """Write a checkpoint; it gets its name once all of it is on disk."""

    def write(folder: Path) -> None:
        for name, written in ((MODEL, weights), (TRAINING, training)):
            if written:
                arrays = {key: tensor.detach().cpu().numpy() for key, tensor in written.items()}
                tensors.write_arrays(folder / name, arrays)

    return _save(path, write, state)


def save_arrays(path: Path, arrays: Mapping[str, Array], state: dict[str, Any]) -> Checkpoint:
    """Write a checkpoint of weights alone, fp32 or int8; it cannot be resumed."""
    return _save(path, lambda folder: tensors.write_arrays(folder / MODEL, arrays), state)


def add_to_state(checkpoint: Checkpoint, values: Mapping[str, Any]) -> Checkpoint:
    """Write a checkpoint again with more in its state."""

    def write(folder: Path) -> None:
        for name in (MODEL, TRAINING):
            if (checkpoint.path / name).exists():
                shutil.copyfile(checkpoint.path / name, folder / name)

    return _save(before_replaced(checkpoint.path), write, checkpoint.state | dict(values))


def _save(path: Path, write: Callable[[Path], None], state: dict[str, Any]) -> Checkpoint:
    state = {"version": VERSION, **state}
    with publish_directory(path) as partial:
        write(partial)
        _save_text(partial / STATE, json.dumps(state, indent=1) + "\n")
        sums = [f"{sha256(file)}  {file.name}\n" for file in sorted(partial.iterdir())]
        _save_text(partial / SUMS, "".join(sums))
    return Checkpoint(path, state)


def list_checkpoints(directory: Path, *, pattern: str = "step-*") -> list[Checkpoint]:
    """Return the checkpoints of a folder by step, not yet verified; warn about unusable ones."""
    found = []
    # A crash while a checkpoint was replaced may have left the old one (see publish_directory).
    before = [
        path
        for path in directory.glob(replaced(Path(pattern)).name)
        if not before_replaced(path).exists()
    ]
    for path in sorted([*directory.glob(pattern), *before]):
        try:
            found.append(open_checkpoint(path))
        except CheckpointError as error:
            log.warning("skipped: %s", error)
    return sorted(found, key=lambda checkpoint: checkpoint.step)


def intact(checkpoints: Iterable[Checkpoint]) -> Iterator[Checkpoint]:
    """Yield the checkpoints that pass verification; warn about the others."""
    for checkpoint in checkpoints:
        try:
            yield checkpoint.verify()
        except CheckpointError as error:
            log.warning("skipped: %s", error)


def best_first(checkpoints: list[Checkpoint], metric: str) -> list[Checkpoint]:
    """Return the validated checkpoints, best first, and older first among equals."""
    sign = 1 if metric == "loss" else -1
    scored = [
        (sign * value, checkpoint)
        for checkpoint in checkpoints
        if (value := checkpoint.metric(metric)) is not None and math.isfinite(value)
    ]
    return [c for _, c in sorted(scored, key=lambda pair: (pair[0], pair[1].step))]


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], *, origin: Path) -> None:
    """Copy weights into a model. Raises CheckpointError if names or shapes do not match."""
    parameters = dict(model.named_parameters())
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    check_shapes(parameters, found, origin=origin)
    for name, parameter in parameters.items():
        parameter.data.copy_(weights[name])


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


def average_weights(checkpoints: list[Checkpoint]) -> dict[str, Tensor]:
    """Return the mean of the weights of several checkpoints."""
    total: dict[str, Tensor] = {}
    for checkpoint in checkpoints:
        for name, tensor in checkpoint.weights().items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(checkpoints)).float() for name, tensor in total.items()}


def open_checkpoint(path: Path) -> Checkpoint:
    """Return a checkpoint, its weights not verified. Raises CheckpointError for a damaged one."""
    try:
        sums = _sums(path)
        missing = sorted({MODEL, STATE} - sums.keys())
        missing += [name for name in sums if not (path / name).is_file()]
        if missing:
            raise CheckpointError(f"{path}: incomplete checkpoint, {missing[0]} is missing")
        if TRAINING not in sums and (path / TRAINING).exists():
            raise CheckpointError(f"{path}: damaged, {SUMS} does not list {TRAINING}")
        text = (path / STATE).read_bytes()
        state = json.loads(text)
    except OSError as error:
        raise _incomplete(path, error) from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: damaged, {STATE}: {error}") from None
    version = state.get("version") if isinstance(state, dict) else None
    if version != VERSION:
        raise CheckpointError(
            f"{path}: checkpoint format {version}, but this program reads format {VERSION}; "
            "retrain, or use the program that wrote it"
        )
    # The state is verified at once, unlike the weights: it decides which checkpoints are kept.
    if hashlib.sha256(text).hexdigest() != sums[STATE]:
        raise CheckpointError(f"{path}: damaged, {STATE} does not match its checksum")
    _check_state(path, state)
    return Checkpoint(path, state)


def _check_state(path: Path, state: Any) -> None:
    """Raise CheckpointError if step or metrics in a checkpoint's state have the wrong type."""
    step = state.get("step")
    metrics = state.get("validation", {})
    numbers = list(metrics.values()) if isinstance(metrics, dict) else [None]
    if type(step) is not int or any(type(value) not in (int, float) for value in numbers):
        raise CheckpointError(
            f"{path}: damaged, its step or validation metrics are not numbers; use another "
            "checkpoint"
        )


def _save_text(path: Path, text: str) -> None:
    with naming(path):
        path.write_text(text, encoding="utf-8")


def _incomplete(path: Path, error: OSError) -> CheckpointError:
    name = Path(error.filename).name if error.filename else path.name
    return CheckpointError(f"{path}: incomplete checkpoint ({name}: {error.strerror})")


def _sums(path: Path) -> dict[str, str]:
    """Return the checksums by file name, ignoring names outside the checkpoint."""
    lines = (path / SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    pairs = [line.partition("  ") for line in lines]
    return {name: expected for expected, _, name in pairs if name and Path(name).name == name}


def prune(directory: Path, *, metric: str, keep_last: int, keep_best: int) -> None:
    """Delete all but the latest and best checkpoints; only their states are read.

    A checkpoint saved because of a signal is deleted as soon as there is a later one. Leftovers of
    a crash are deleted, too.
    """
    checkpoints = list_checkpoints(directory)
    _remove_leftovers(directory, checkpoints)
    regular = [checkpoint for checkpoint in checkpoints if not checkpoint.stopped]
    best = best_first(checkpoints, metric)[:keep_best]
    kept = {c.path for c in [*regular[-keep_last:], *checkpoints[-1:], *best]}
    for checkpoint in checkpoints:
        if checkpoint.path not in kept:
            remove_directory(checkpoint.path)


def set_aside_damaged(directory: Path) -> None:
    """Rename damaged checkpoints, with a warning, and delete leftovers of a crash.

    Damaged checkpoints would otherwise count among the latest or best and displace intact ones.
    """
    checkpoints = list_checkpoints(directory)
    _remove_leftovers(directory, checkpoints)
    for path in {*directory.glob("step-*")} - {c.path for c in intact(checkpoints)}:
        unusable = path.with_name(f"unusable-{path.name}")
        log.warning("%s renamed to %s; delete it if you do not need it", path, unusable.name)
        remove_directory(unusable)
        path.replace(unusable)


def _remove_leftovers(directory: Path, checkpoints: list[Checkpoint]) -> None:
    """Delete leftovers of interrupted writing, replacing or removing, except usable checkpoints."""
    hidden = {*directory.glob(".step-*"), *directory.glob(".average.*")}
    for leftover in hidden - {checkpoint.path for checkpoint in checkpoints}:
        with naming(leftover):
            shutil.rmtree(leftover)
