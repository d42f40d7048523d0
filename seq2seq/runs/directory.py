"""A run directory: everything that translating or resuming needs, in one folder to copy or move.

config.yaml  data.json  source.model  target.model  checkpoints/  metrics.jsonl  log.txt
tensorboard/  written.txt

A run may come from anyone. Loading one executes no code (YAML without Python tags, JSON,
safetensors, SentencePiece), opens no path outside it, and takes no more memory than its files
account for.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from seq2seq import config as recipes
from seq2seq.data.sources import PLACES
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import CheckpointError, ConfigError
from seq2seq.files import locked, remove_directory, sync_directory, write_atomic
from seq2seq.hub import cache_of
from seq2seq.runs.checkpoint import (
    MODEL,
    Checkpoint,
    best_first,
    intact,
    list_checkpoints,
    open_checkpoint,
    set_aside_damaged,
)

if TYPE_CHECKING:
    from seq2seq.config import Config

log = logging.getLogger(__name__)

_FIXED = {
    "data": "batches and vocabulary depend on it",
    "model": "the checkpoint's weights have its shape",
    "training.seed": "the order of batches depends on it",
    "training.initial": "training began with its weights",
    **dict.fromkeys(
        ("training.metric", "training.validation_sentences", "training.validation_beam"),
        "the best checkpoint so far was chosen with it",
    ),
}
# Data may move: check_sources recognizes files by their checksums.
_FREE = re.compile(
    r"model\.(dropout|variational_dropout|init)"
    r"|data\.(cache|processes|source_language|target_language|test\b.*)"
    rf"|data\.(train\.\d+|valid)\.({'|'.join(PLACES)})"
)


def check_changes(saved: Config, given: Config) -> None:
    """Log the keys that changed since a run was started with `saved`.

    Raises ConfigError, naming the keys, for changes that would make it a different run.
    """
    refused = []
    for key, (old, new) in recipes.changed_keys(saved, given).items():
        why = next((why for fixed, why in _FIXED.items() if f"{key}.".startswith(f"{fixed}.")), "")
        if why and not _FREE.fullmatch(key):
            refused.append(f"{key} was {old!r} and is {new!r} ({why})")
        elif key != "run_dir":
            log.info("changed since the last start: %s was %r and is %r", key, old, new)
    if refused:
        raise ConfigError(
            f"--resume: {'; '.join(refused)}; change it back, or start a new run in another run_dir"
        )


TOKENIZERS = ("source.model", "target.model")
_LAUNCH = ".launch"
# The files and folders of every run. The config comes first: if `clear` crashes, no run is left.
_CONTENTS = (
    "config.yaml",
    "data.json",
    *TOKENIZERS,
    "metrics.jsonl",
    "log.txt",
    _LAUNCH,
    "checkpoints",
)
_GRAPHS = "graph"  # ONNX files, in exports and in runs of earlier versions
_REPORTS = (*(f"{name}.id" for name in get_args(recipes.TrackerName)), "tensorboard", "wandb")
MAX_TEXT_BYTES = 1 << 24  # config, state, checksums
MAX_TOKENIZER_BYTES = 1 << 28
# By suffix; else MAX_TEXT_BYTES.
_MAX_BYTES = {".model": MAX_TOKENIZER_BYTES, ".safetensors": None}


class RunDirectory:
    """The paths of a run, and their contents."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_path = path / "config.yaml"  # the complete recipe
        self.sources_path = path / "data.json"  # checksums of training and validation files
        self.checkpoints = path / "checkpoints"
        self.average_path = self.checkpoints / "average"  # the mean of several checkpoints
        self.graphs = path / _GRAPHS  # never read here
        self.metrics = path / "metrics.jsonl"  # losses and validations by step
        self.log_path = path / "log.txt"
        # The names of the run's files. Not hidden, so that whoever deletes them deletes it, too.
        self.written_path = path / "written.txt"

    def checkpoint_path(self, step: int) -> Path:
        """Return the folder of the checkpoint of a step."""
        return self.checkpoints / f"step-{step:06d}"

    def tracked(self, tracker: str) -> Path:
        """Return the path of the file with a tracker's id of the run."""
        return self.path / f"{tracker}.id"

    def exists(self) -> bool:
        """Return whether there is a run, or at least checkpoints of one."""
        return self.config_path.exists() or any(self.checkpoints.glob("step-*"))

    def foreign(self, config: Config) -> list[str]:
        """Return the names of other files here that a run of the recipe would overwrite."""
        names = set(_names(config)) - set(self._written())
        return sorted(name for name in names if os.path.lexists(self.path / name))

    def _written(self) -> list[str]:
        """Return the names that the run here has written, or is about to."""
        names = (*_CONTENTS, *_REPORTS, _GRAPHS)
        if self.written_path.is_file():
            written = self.written_path.read_text(encoding="utf-8", errors="replace").split()
            return [name for name in names if name in written]
        # A run of an earlier version has no such file; some of its files together identify it.
        begun = all((self.path / name).is_file() for name in ("data.json", *TOKENIZERS))
        saved = any(self.checkpoints.glob("step-*/SHA256SUMS"))
        if not self.config_path.exists() or not (begun or saved):
            return []
        return [name for name in names if name != "wandb" or self.tracked(name).exists()]

    def _claim(self, config: Config) -> None:
        """Record the names that a run of the recipe writes, except those of other files here."""
        ours = {*self._written(), *_names(config)} - {*self.foreign(config)}
        write_atomic(self.written_path, "".join(f"{name}\n" for name in sorted(ours)))

    def config(self) -> Config:
        """Return the recipe of the run. Raises CheckpointError if this is not a run."""
        if not self.config_path.is_file():
            raise CheckpointError(
                f"{self.path}: not a run directory (no config.yaml); train one with "
                f"'seq2seq train CONFIG run_dir={self.path}'"
            )
        try:
            return recipes.load_config(self.config_path)
        except ConfigError as error:
            raise CheckpointError(f"{error} (trained by another version?)") from None

    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Return the source and target tokenizers."""
        source, target = (Tokenizer.load(self.path / name) for name in TOKENIZERS)
        return source, target

    def shares_tokenizers(self, other: RunDirectory) -> bool:
        """Return whether both runs have the same tokenizers."""
        try:
            return all(
                (self.path / name).read_bytes() == (other.path / name).read_bytes()
                for name in TOKENIZERS
            )
        except OSError as error:
            raise CheckpointError(f"{error.filename}: cannot be read ({error.strerror})") from None

    def create(
        self, config: Config, source: Tokenizer, target: Tokenizer, checksums: Mapping[str, str]
    ) -> None:
        """Write what all checkpoints share; the config comes last and marks a complete run."""
        self.clear()
        self.path.mkdir(parents=True, exist_ok=True)
        self._claim(config)
        self.checkpoints.mkdir()
        sync_directory(self.path.parent)
        source.save(self.path / TOKENIZERS[0])
        target.save(self.path / TOKENIZERS[1])
        write_atomic(self.sources_path, json.dumps(checksums, indent=1) + "\n")
        write_atomic(self.config_path, recipes.dump_config(config))

    def update(self, config: Config) -> None:
        """Write the recipe to resume with."""
        self._claim(config)
        write_atomic(self.config_path, recipes.dump_config(config))

    def record_launch(self, name: str) -> None:
        """Record the torchrun launch that trains the run, if there is one."""
        if name:
            write_atomic(self.path / _LAUNCH, name)
        else:
            (self.path / _LAUNCH).unlink(missing_ok=True)

    def is_of_launch(self, name: str) -> bool:
        """Return whether the named launch was the last one to train the run."""
        path = self.path / _LAUNCH
        return bool(name) and path.is_file() and path.read_text(encoding="utf-8") == name

    def clear(self) -> None:
        """Delete what the run has written, and nothing else in the directory."""
        for path in map(self.path.joinpath, self._written()):
            if os.path.lexists(path) and not path.is_dir():
                path.unlink()
            else:
                remove_directory(path)
        self.written_path.unlink(missing_ok=True)

    def newest(self) -> Checkpoint:
        """Return the latest intact checkpoint. Raises CheckpointError if there is none."""
        found = next(intact(reversed(list_checkpoints(self.checkpoints))), None)
        if found is None:
            raise CheckpointError(f"{self.checkpoints}: no intact checkpoint; train the run first")
        return found

    def has_checkpoints(self) -> bool:
        """Return whether there are checkpoints to resume from, intact or damaged.

        Raises CheckpointError if their folder is gone; no crash can cause that.
        """
        if not self.checkpoints.is_dir():
            raise CheckpointError(
                f"{self.checkpoints}: no such folder, so there is no intact checkpoint to resume "
                "from; put it back, or start over with --overwrite"
            )
        names = ("step-*", "unusable-step-*", ".step-*.replaced")
        return any(any(self.checkpoints.glob(name)) for name in names)

    def recover(self) -> Checkpoint | None:
        """Set damaged checkpoints aside and return the latest one; None if there is none yet.

        Raises CheckpointError if there are checkpoints but none is intact.
        """
        if not self.has_checkpoints():
            log.warning("%s: no checkpoint yet; training starts from the beginning", self.path)
            return None
        newest = self.newest()
        set_aside_damaged(self.checkpoints)
        return newest

    def candidates(self, metric: str) -> list[Checkpoint]:
        """Return the checkpoints, not yet verified: validated ones, best first, then the latest.

        The average of several checkpoints is among them.
        """
        found = list_checkpoints(self.checkpoints)
        average = list_checkpoints(self.checkpoints, pattern=self.average_path.name)
        return best_first(found + average, metric) + found[::-1]

    def best(self, metric: str) -> Checkpoint:
        """Return the best validated checkpoint, the average included, or else the latest.

        Raises CheckpointError if none is intact.
        """
        return next(intact(self.candidates(metric)), None) or self.newest()

    def check_writable(self) -> None:
        """Raise ConfigError if the run directory cannot be written; create nothing."""
        folders = (self.path, *self.path.absolute().parents)
        try:
            tempfile.TemporaryFile(dir=next(path for path in folders if path.exists())).close()
        except OSError as error:
            raise self._not_writable(error) from None

    def _not_writable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"run_dir: {self.path} cannot be written ({error.strerror}); choose another run_dir"
        )

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the run for this process; the system releases the lock when the process ends."""
        with contextlib.ExitStack() as stack:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(self.path / ".lock", wait=False))
            except BlockingIOError:
                raise CheckpointError(
                    f"{self.path}: another process is training this run; stop it first, or choose "
                    "another run_dir"
                ) from None
            except OSError as error:
                raise self._not_writable(error) from None
            yield


def _names(config: Config) -> list[str]:
    """Return the names that a run of the recipe writes."""
    training = config.training
    reports = [f"{name}.id" for name in training.trackers]
    reports += ["tensorboard"] * training.tensorboard + ["wandb"] * ("wandb" in training.trackers)
    return [*_CONTENTS, *reports]


def check_files(run: Path, *folders: Path) -> None:
    """Check every file that loading a run may open, without opening any.

    `folders` are those of checkpoints. Raises CheckpointError for a link that leads out of the
    run, for anything that is not a file or folder (reading a pipe would block), and for a text file
    of absurd size.
    """
    for path in (*(run / name for name in ("config.yaml", *TOKENIZERS)), *folders):
        _check_path(path, run)
    for folder in folders:
        for parent, inner, files in os.walk(folder):  # follows no links
            for name in (*inner, *files):
                _check_path(Path(parent, name), run)


def _check_path(path: Path, run: Path) -> None:
    try:
        found = path.stat()
        inside = path.resolve().is_relative_to((cache_of(run) or run).resolve())
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


def run_of(path: Path) -> RunDirectory:
    """Return the run of a path to the run itself or to one of its checkpoints.

    Raises CheckpointError for a file.
    """
    if path.is_file():
        run = next(
            (each for each in path.parents if RunDirectory(each).exists()), "a run directory"
        )
        raise CheckpointError(f"{path}: a file where a directory is expected; give {run}")
    if (path / MODEL).is_file():
        return RunDirectory(path.resolve().parent.parent)
    return RunDirectory(path)


def find_checkpoint(path: Path, *, verified: bool = True) -> Checkpoint:
    """Return the checkpoint that a path names, or the best one of the run that it names.

    Raises CheckpointError if it is missing, damaged (unless it need not be verified) or unsafe
    (check_files).
    """
    run = run_of(path)
    if (path / MODEL).is_file():
        check_files(run.path, path)
        found = open_checkpoint(path)
        return found.verify() if verified else found
    check_files(run.path, run.checkpoints)
    if run.graphs.exists() and not run.checkpoints.exists():
        raise CheckpointError(
            f"{run.path}: has ONNX files for other programs, but no weights; use the run that they "
            "were exported from"
        )
    metric = run.config().training.metric
    candidates = [] if verified else run.candidates(metric)
    return candidates[0] if candidates else run.best(metric)
