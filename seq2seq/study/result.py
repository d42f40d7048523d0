"""What is known of a finished run: one file in its directory, written whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from seq2seq.config import Config, Section
from seq2seq.data.corpus import Pair
from seq2seq.errors import CheckpointError
from seq2seq.files import write_atomic
from seq2seq.study.spec import Measure

FILE = "result.json"


class Point(Section):
    """A validation while training; a number that is not finite is null."""

    step: int
    minutes: float
    loss: float | None
    bleu: float | None
    chrf: float | None


class Result(Section):
    """A run's recipe, its training, and its measures on the test set."""

    config: Config
    test_sha256: str
    ended: str  # finished, or early
    steps: int
    minutes: float  # of training, validations included
    parameters: int
    curve: tuple[Point, ...]
    measured: tuple[Measure, ...]
    bleu: float
    chrf: float
    signatures: dict[str, str]
    alignment_error: float | None  # in percent; null without attention
    hypotheses: tuple[str, ...]
    torch: str  # its version

    def save(self, directory: Path) -> None:
        """Write the result of a run into its directory."""
        text = json.dumps(self.model_dump(mode="json"), ensure_ascii=False, indent=1)
        write_atomic(directory / FILE, text + "\n")


def load_result(directory: Path) -> Result | None:
    """Return the result of a run, or None where there is none.

    Raises CheckpointError for a file that is not what this program writes.
    """
    path = directory / FILE
    try:
        return Result.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        why = str(error).splitlines()[0]
        raise CheckpointError(
            f"{path}: not a result of this version ({why}); remove it to measure the run again"
        ) from None


def digest(pairs: Sequence[Pair]) -> str:
    """Return a checksum of sentences, references and alignments of a test set."""
    rows = [[p.source, p.target, *p.references, p.alignment or ""] for p in pairs]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()
