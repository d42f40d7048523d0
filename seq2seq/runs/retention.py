"""Which checkpoints of a run are kept."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from seq2seq.errors import CheckpointError
from seq2seq.files import remove_directory
from seq2seq.runs.checkpoint import list_checkpoints, rank

log = logging.getLogger(__name__)


def prune(directory: Path, *, metric: str, keep_last: int, keep_best: int) -> None:
    """Delete all but the newest and the best checkpoints, by their states alone.

    One that a signal made goes as soon as there is a newer one. So does what a crash left half
    written or half deleted.
    """
    checkpoints = list_checkpoints(directory)
    regular = [checkpoint for checkpoint in checkpoints if not checkpoint.stopped]
    best = rank(checkpoints, metric)[:keep_best]
    kept = {c.path for c in [*regular[-keep_last:], *checkpoints[-1:], *best]}
    for leftover in {*directory.glob(".step-*"), *directory.glob(".average.*")} - kept:
        shutil.rmtree(leftover)
    for checkpoint in checkpoints:
        if checkpoint.path not in kept:
            remove_directory(checkpoint.path)


def set_unusable_aside(directory: Path) -> None:
    """Rename the checkpoints that are not as they were written, with a warning.

    They would count among the newest and the best that are kept, and push out whole ones.
    """
    whole = set()
    for checkpoint in list_checkpoints(directory):
        try:
            whole.add(checkpoint.verify().path)
        except CheckpointError as error:
            log.warning("%s", error)
    for path in set(directory.glob("step-*")) - whole:
        aside = path.with_name(f"unusable-{path.name}")
        log.warning("%s is now %s: delete it when you have no use for it", path, aside.name)
        remove_directory(aside)
        path.replace(aside)
