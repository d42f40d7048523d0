"""A checkpoint is a directory: weights in safetensors, state in JSON, checksums, no pickle.

step-000500/model.safetensors       the weights that translate (the moving average, if any)
step-000500/training.safetensors    moments of the optimizer, raw weights
step-000500/state.json              step, metrics, the places of the sampler and the schedule
step-000500/SHA256SUMS              of the three, as the tool sha256sum reads it
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import math
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from seq2seq.errors import CheckpointError
from seq2seq.files import naming, publish_directory, remove_directory, replaced, sha256
from seq2seq.runs.untrusted import check_shapes, check_state, read_shapes

log = logging.getLogger(__name__)

MODEL, TRAINING, STATE, SUMS = (
    "model.safetensors",
    "training.safetensors",
    "state.json",
    "SHA256SUMS",
)
VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk; `verify` compares it with its checksums."""

    path: Path
    state: dict[str, Any]
    tensors: dict[str, dict[str, Tensor]] | None = None  # by file; read from disk without

    @property
    def step(self) -> int:
        """The number of updates that made it."""
        return int(self.state["step"])

    @property
    def stopped(self) -> bool:
        """Whether a signal made it, out of turn; a run that was not stopped would not have it."""
        return bool(self.state.get("stopped", False))

    def metric(self, name: str) -> float | None:
        """Return a validation metric of these very weights, or None when not validated."""
        value = self.state.get("validation", {}).get(name)
        return None if value is None else float(value)

    def verify(self) -> Checkpoint:
        """Return the checkpoint. Raises CheckpointError when a file of it is not as written."""
        try:
            for name, expected in _sums(self.path).items():
                if sha256(self.path / name) != expected:
                    raise CheckpointError(
                        f"{self.path}: damaged, {name} does not have its checksum; use another one"
                    )
        except OSError as error:
            raise _not_whole(self.path, error) from None
        return self

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the weights that translate, without reading them."""
        return read_shapes(self.path / MODEL)

    def weights(self) -> dict[str, Tensor]:
        """Return the weights that translate."""
        return self._load(MODEL)

    def training(self) -> dict[str, Tensor]:
        """Return the tensors that only training needs; before the first update there are none."""
        return self._load(TRAINING)

    def in_memory(self) -> Checkpoint:
        """Return the checkpoint with its tensors, for a process that cannot see its files."""
        return replace(self, tensors={MODEL: self.weights(), TRAINING: self.training()})

    def _load(self, name: str) -> dict[str, Tensor]:
        if self.tensors is not None:
            return self.tensors[name]
        if name == TRAINING and not (self.path / name).exists():
            return {}
        try:
            return dict(load_file(self.path / name))
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{self.path / name}: cannot be read ({error})") from None


def save_checkpoint(
    path: Path, weights: Mapping[str, Tensor], training: Mapping[str, Tensor], state: dict[str, Any]
) -> Checkpoint:
    """Write a checkpoint; it has its name only once all of it is on disk."""
    state = {"version": VERSION, **state}
    with publish_directory(path) as aside:
        for name, tensors in ((MODEL, weights), (TRAINING, training)):
            if tensors:
                _save_tensors(aside / name, tensors)
        _save_text(aside / STATE, json.dumps(state, indent=1) + "\n")
        sums = [f"{sha256(file)}  {file.name}\n" for file in sorted(aside.iterdir())]
        _save_text(aside / SUMS, "".join(sums))
    return Checkpoint(path, state)


def load_checkpoint(path: Path) -> Checkpoint:
    """Verify a checkpoint and return it. Raises CheckpointError when it is not whole."""
    return _open(path).verify()


def list_checkpoints(directory: Path, *, pattern: str = "step-*") -> list[Checkpoint]:
    """Return the checkpoints of a folder by step, not yet verified; warn of useless ones."""
    found = []
    # A crash may have left one under its other name, see publish_directory.
    before = [
        path
        for path in directory.glob(replaced(Path(pattern)).name)
        if not path.with_name(path.name[1:].removesuffix(".replaced")).exists()
    ]
    for path in sorted([*directory.glob(pattern), *before]):
        try:
            found.append(_open(path))
        except CheckpointError as error:
            log.warning("skipped: %s", error)
    return sorted(found, key=lambda checkpoint: checkpoint.step)


def first_whole(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """Return the first checkpoint whose checksums are right; warn of those before it."""
    for checkpoint in checkpoints:
        try:
            return checkpoint.verify()
        except CheckpointError as error:
            log.warning("skipped: %s", error)
    return None


def rank(checkpoints: list[Checkpoint], metric: str) -> list[Checkpoint]:
    """Return the validated checkpoints, best first; of equals, the oldest."""
    scored = [(c.metric(metric), c) for c in checkpoints]
    sign = 1 if metric == "loss" else -1
    known = [
        (sign * value, checkpoint.step, place)
        for place, (value, checkpoint) in enumerate(scored)
        if value is not None and math.isfinite(value)
    ]
    return [checkpoints[place] for *_, place in sorted(known)]


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], *, origin: Path) -> None:
    """Copy weights into a model. Raises CheckpointError when names or sizes do not match."""
    parameters = dict(model.named_parameters())
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    check_shapes(parameters, found, origin=origin)
    for name, parameter in parameters.items():
        parameter.data.copy_(weights[name])


def average(checkpoints: list[Checkpoint]) -> dict[str, Tensor]:
    """Return the mean of the weights of several checkpoints."""
    total: dict[str, Tensor] = {}
    for checkpoint in checkpoints:
        for name, tensor in checkpoint.weights().items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(checkpoints)).float() for name, tensor in total.items()}


def _open(path: Path) -> Checkpoint:
    try:
        sums = _sums(path)
        missing = sorted({MODEL, STATE} - sums.keys())
        missing += [name for name in sums if not (path / name).is_file()]
        if missing:
            raise CheckpointError(f"{path}: not a whole checkpoint, {missing[0]} is missing")
        if TRAINING not in sums and (path / TRAINING).exists():
            raise CheckpointError(f"{path}: damaged, {SUMS} does not have {TRAINING}")
        text = (path / STATE).read_bytes()
        state = json.loads(text)
    except OSError as error:
        raise _not_whole(path, error) from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: damaged, {STATE}: {error}") from None
    version = state.get("version") if isinstance(state, dict) else None
    if version != VERSION:
        raise CheckpointError(
            f"{path}: written by version {version} of the format, this program reads "
            f"version {VERSION}"
        )
    # At once, and not as late as that of the weights: the state alone decides what is kept.
    if hashlib.sha256(text).hexdigest() != sums[STATE]:
        raise CheckpointError(f"{path}: damaged, {STATE} does not have its checksum")
    check_state(path, state)
    return Checkpoint(path, state)


def _save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    on_host = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(on_host, path)
    except SafetensorError as error:
        # The library tells what the system said in words alone.
        found = re.search(r"os error (\d+)", str(error))
        number = int(found[1]) if found else errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from None


def _save_text(path: Path, text: str) -> None:
    with naming(path):
        path.write_text(text, encoding="utf-8")


def _not_whole(path: Path, error: OSError) -> CheckpointError:
    name = Path(error.filename).name if error.filename else path.name
    return CheckpointError(f"{path}: not a whole checkpoint ({name}: {error.strerror})")


def _sums(path: Path) -> dict[str, str]:
    """Return checksums by file name, of names that stay within the checkpoint only."""
    lines = (path / SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    pairs = [line.partition("  ") for line in lines]
    return {name: expected for expected, _, name in pairs if name and Path(name).name == name}


def prune(directory: Path, *, metric: str, keep_last: int, keep_best: int) -> None:
    """Delete all but the newest and the best checkpoints, by their states alone.

    One that a signal made goes as soon as there is a newer one. So does what a crash left half
    written or half deleted.
    """
    checkpoints = list_checkpoints(directory)
    _remove_leftovers(directory, checkpoints)
    regular = [checkpoint for checkpoint in checkpoints if not checkpoint.stopped]
    best = rank(checkpoints, metric)[:keep_best]
    kept = {c.path for c in [*regular[-keep_last:], *checkpoints[-1:], *best]}
    for checkpoint in checkpoints:
        if checkpoint.path not in kept:
            remove_directory(checkpoint.path)


def tidy(directory: Path) -> None:
    """Delete what a crash left, and rename, with a warning, what is not as it was written.

    Damaged checkpoints would count among the newest and the best, and push out whole ones.
    """
    checkpoints = list_checkpoints(directory)
    _remove_leftovers(directory, checkpoints)
    whole = set()
    for checkpoint in checkpoints:
        try:
            whole.add(checkpoint.verify().path)
        except CheckpointError as error:
            log.warning("%s", error)
    for path in set(directory.glob("step-*")) - whole:
        aside = path.with_name(f"unusable-{path.name}")
        log.warning("%s is now %s: delete it when you have no use for it", path, aside.name)
        remove_directory(aside)
        path.replace(aside)


def _remove_leftovers(directory: Path, checkpoints: list[Checkpoint]) -> None:
    """Delete what writing, replacing and removing checkpoints left, but for one of them itself."""
    hidden = {*directory.glob(".step-*"), *directory.glob(".average.*")}
    for leftover in hidden - {checkpoint.path for checkpoint in checkpoints}:
        with naming(leftover):
            shutil.rmtree(leftover)
