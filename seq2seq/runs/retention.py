"""Which checkpoints of a run are kept."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from seq2seq.errors import CheckpointError
from seq2seq.files import naming, remove_directory
from seq2seq.runs.checkpoint import Checkpoint, list_checkpoints, rank

log = logging.getLogger(__name__)


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
