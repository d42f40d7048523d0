"""A run directory holds everything that translating needs, so it can be copied elsewhere.

config.yaml  source.model  target.model  checkpoints/  metrics.jsonl  log.txt  tensorboard/
"""

from __future__ import annotations

import fcntl
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from seq2seq.config import Config, dump_config, load_config
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import CheckpointError, ConfigError
from seq2seq.runs.checkpoint import Checkpoint, load_checkpoint, rank, whole_checkpoints
from seq2seq.runs.files import write_atomic


@dataclass(frozen=True)
class RunDirectory:
    """The paths of a run, and what is read from them."""

    path: Path

    @classmethod
    def at(cls, path: str | Path) -> RunDirectory:
        """Return the run at a path, which need not exist yet."""
        return cls(Path(path))

    @property
    def config_path(self) -> Path:
        """The resolved recipe."""
        return self.path / "config.yaml"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        """One JSON object a line: losses and validations by step."""
        return self.path / "metrics.jsonl"

    def checkpoint_path(self, step: int) -> Path:
        """The folder of the checkpoint of a step."""
        return self.checkpoints / f"step-{step:06d}"

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
        return Tokenizer.load(self.path / "source.model"), Tokenizer.load(
            self.path / "target.model"
        )

    def create(self, config: Config, source: Tokenizer, target: Tokenizer) -> None:
        """Write what all checkpoints share; the config last, so that it marks a whole run."""
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        source.save(self.path / "source.model")
        target.save(self.path / "target.model")
        write_atomic(self.config_path, dump_config(config))

    def clear(self) -> None:
        """Delete the files of a run and nothing else in the directory."""
        for name in ("checkpoints", "tensorboard"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        for name in ("config.yaml", "source.model", "target.model", "metrics.jsonl", "log.txt"):
            (self.path / name).unlink(missing_ok=True)

    def best(self, metric: str) -> Checkpoint:
        """Return the best validated checkpoint (the average included), else the newest."""
        checkpoints = whole_checkpoints(self.checkpoints)
        averaged = self.checkpoints / "average"
        if averaged.is_dir():
            checkpoints.append(load_checkpoint(averaged))
        if not checkpoints:
            raise CheckpointError(f"{self.checkpoints}: no whole checkpoint; train the run first")
        return (rank(checkpoints, metric) or checkpoints[-1:])[0]

    def lock(self) -> IO[str]:
        """Hold the run for this process; the system lets go of it when the process ends."""
        self.path.mkdir(parents=True, exist_ok=True)
        file = (self.path / ".lock").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise CheckpointError(
                f"{self.path}: another training is writing to this run; end it first, or choose "
                "another run_dir"
            ) from None
        return file
