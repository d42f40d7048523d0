"""A run directory holds everything that translating needs, so it can be copied elsewhere.

config.yaml  data.json  source.model  target.model  checkpoints/  metrics.jsonl  log.txt
tensorboard/
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from seq2seq.config import Config, changed_keys, dump_config, load_config
from seq2seq.data.sources import PLACES, dump_checksums
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import CheckpointError, ConfigError
from seq2seq.files import remove_directory, sync_directory, write_atomic
from seq2seq.runs.checkpoint import Checkpoint, first_whole, list_checkpoints, rank, tidy

log = logging.getLogger(__name__)

_FIXED = {
    "data": "the batches and the vocabulary are made from it",
    "model": "the weights of the checkpoint have its shape",
    "training.seed": "the order of the batches is made from it",
    **dict.fromkeys(
        ("training.metric", "training.validation_sentences", "training.validation_beam"),
        "the best checkpoint so far was chosen by it",
    ),
}
# Where the data is may change: check_sources knows it again wherever it is.
_FREE = re.compile(
    r"model\.(dropout|variational_dropout|init)"
    r"|data\.(cache|processes|source_language|target_language|test\b.*)"
    rf"|data\.(train\.\d+|valid)\.({'|'.join(PLACES)})"
)


def check_changes(saved: Config, given: Config) -> None:
    """Log what is new in a recipe that a run goes on with.

    Raises ConfigError, which names the keys, for a change that would make it another run.
    """
    refused = []
    for key, (old, new) in changed_keys(saved, given).items():
        why = next((why for fixed, why in _FIXED.items() if f"{key}.".startswith(f"{fixed}.")), "")
        if why and not _FREE.fullmatch(key):
            refused.append(f"{key} was {old!r} and is {new!r} ({why})")
        elif key != "run_dir":
            log.info("changed since the run began: %s was %r and is %r", key, old, new)
    if refused:
        raise ConfigError(
            f"--resume: {'; '.join(refused)}: change back, or start a new run in another run_dir"
        )


class RunLog(logging.FileHandler):
    """Appends what is told, with dates; a disk that refuses it is reported once, in one line.

    Training goes on without its log; a checkpoint that is refused too will end it.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, encoding="utf-8")
        self.setFormatter(logging.Formatter("%(asctime)s  %(message)s"))
        self._refused = False

    def handleError(self, record: logging.LogRecord) -> None:
        """Report the first error of the disk; any other is a mistake in the program."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._refused:
            self._refused = True
            print(f"{self.baseFilename}: cannot be written ({error.strerror})", file=sys.stderr)

    def close(self) -> None:
        """Close the file, even where the disk refuses what is left to write."""
        with contextlib.suppress(OSError):
            super().close()


TOKENIZERS = ("source.model", "target.model")
_LAUNCH = ".launch"


@dataclass(frozen=True)
class RunDirectory:
    """The paths of a run, and what is read from them."""

    path: Path

    @property
    def config_path(self) -> Path:
        """The resolved recipe."""
        return self.path / "config.yaml"

    @property
    def sources_path(self) -> Path:
        """The checksums of the files that it learns from."""
        return self.path / "data.json"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def average_path(self) -> Path:
        """The checkpoint that is the mean of several."""
        return self.checkpoints / "average"

    @property
    def metrics(self) -> Path:
        """One JSON object a line: losses and validations by step."""
        return self.path / "metrics.jsonl"

    @property
    def log_path(self) -> Path:
        """What training told."""
        return self.path / "log.txt"

    def checkpoint_path(self, step: int) -> Path:
        """The folder of the checkpoint of a step."""
        return self.checkpoints / f"step-{step:06d}"

    def exists(self) -> bool:
        """Return whether there is a run, or a part of one that is worth keeping."""
        return self.config_path.exists() or any(self.checkpoints.glob("step-*"))

    def config(self) -> Config:
        """Return the recipe of the run. Raises CheckpointError when this is no run."""
        if not self.config_path.is_file():
            raise CheckpointError(
                f"{self.path}: not a run directory (no config.yaml); train one with "
                f"'seq2seq train CONFIG run_dir={self.path}'"
            )
        try:
            return load_config(self.config_path)
        except ConfigError as error:
            raise CheckpointError(f"run of another version? {error}") from None

    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Return the tokenizers of source and target."""
        source, target = (Tokenizer.load(self.path / name) for name in TOKENIZERS)
        return source, target

    def shares_tokenizers(self, other: RunDirectory) -> bool:
        """Return whether both runs cut text into the same pieces."""
        try:
            return all(
                (self.path / name).read_bytes() == (other.path / name).read_bytes()
                for name in TOKENIZERS
            )
        except OSError as error:
            raise CheckpointError(f"{error.filename}: cannot be read ({error.strerror})") from None

    def create(
        self,
        config: Config,
        source: Tokenizer,
        target: Tokenizer,
        checksums: Mapping[str, str] | None = None,
    ) -> None:
        """Write what all checkpoints share; the config last, so that it marks a whole run."""
        self.clear()
        self.checkpoints.mkdir(parents=True)
        sync_directory(self.path.parent)
        source.save(self.path / TOKENIZERS[0])
        target.save(self.path / TOKENIZERS[1])
        if checksums is not None:
            write_atomic(self.sources_path, dump_checksums(checksums))
        self.update(config)

    def update(self, config: Config) -> None:
        """Write the recipe."""
        write_atomic(self.config_path, dump_config(config))

    def begin_launch(self, name: str) -> None:
        """Note by which launch of several processes the run is being trained, if by any."""
        if name:
            write_atomic(self.path / _LAUNCH, name)
        else:
            (self.path / _LAUNCH).unlink(missing_ok=True)

    def is_of_launch(self, name: str) -> bool:
        """Return whether this launch, and no earlier one, was the last to train the run."""
        path = self.path / _LAUNCH
        return bool(name) and path.is_file() and path.read_text(encoding="utf-8") == name

    def clear(self) -> None:
        """Delete the files of a run and nothing else in the directory."""
        # The config first: what is left after a crash is no run any more.
        names = ("config.yaml", "data.json", *TOKENIZERS, "metrics.jsonl", "log.txt", _LAUNCH)
        for name in names:
            (self.path / name).unlink(missing_ok=True)
            (self.path / f".{name}.partial").unlink(missing_ok=True)
        for name in ("checkpoints", "tensorboard"):
            remove_directory(self.path / name)

    def newest(self) -> Checkpoint:
        """Return the newest whole checkpoint. Raises CheckpointError when there is none."""
        found = first_whole(reversed(list_checkpoints(self.checkpoints)))
        if found is None:
            raise CheckpointError(f"{self.checkpoints}: no whole checkpoint; train the run first")
        return found

    def has_checkpoints(self) -> bool:
        """Return whether there is something to go on from, whole or not.

        Raises CheckpointError when the very folder is gone, which no crash can do.
        """
        if not self.checkpoints.is_dir():
            raise CheckpointError(
                f"{self.checkpoints}: no such folder, so there is no whole checkpoint to go on "
                "from; put it back, or start again with --overwrite"
            )
        names = ("step-*", "unusable-step-*", ".step-*.replaced")
        return any(any(self.checkpoints.glob(name)) for name in names)

    def recover(self) -> Checkpoint | None:
        """Return where to go on, after tidying up; None before the first checkpoint.

        Raises CheckpointError when there are checkpoints, but no whole one.
        """
        if not self.has_checkpoints():
            log.warning("%s: no checkpoint yet: training starts from its beginning", self.path)
            return None
        newest = self.newest()
        tidy(self.checkpoints)
        return newest

    def best(self, metric: str) -> Checkpoint:
        """Return the best validated checkpoint (the average included), else the newest."""
        candidates = list_checkpoints(self.checkpoints)
        candidates += list_checkpoints(self.checkpoints, pattern=self.average_path.name)
        return first_whole(rank(candidates, metric)) or self.newest()

    def check_writable(self) -> None:
        """Raise ConfigError where the run cannot be written; nothing is made for it."""
        folders = (self.path, *self.path.absolute().parents)
        try:
            tempfile.TemporaryFile(dir=next(path for path in folders if path.exists())).close()
        except OSError as error:
            raise self._not_writable(error) from None

    def _not_writable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"run_dir: {self.path} cannot be written ({error.strerror}); choose another"
        )

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run for this process; the system lets go of it when the process ends."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / ".lock").open("a")
        except OSError as error:
            raise self._not_writable(error) from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise CheckpointError(
                    f"{self.path}: another training is writing to this run; end it first, or "
                    "choose another run_dir"
                ) from None
            yield
