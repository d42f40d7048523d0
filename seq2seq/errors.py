"""Errors that a command reports in one line, and their exit codes.

Exit code 2 is for what the user can fix: a UserError, or a path that is missing, of the wrong kind,
or not permitted. Exit code 1 is for faults that are not the user's: a full disk, lack of memory, a
lost process. Any other exception is a bug and is shown with its traceback.

A message names the place, what is wrong there, and how to fix it.
"""

import difflib
import errno
from collections.abc import Iterable

from seq2seq.wings import WINGS

EXIT_FAULT, EXIT_USER = 1, 2

# System errors about a path that was given; all others are faults.
_PATH_ERRORS = {
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS,
    errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO,
}  # fmt: skip
# Packages that a plain installation lacks, by the extra of pyproject.toml that installs them.
_EXTRAS = {
    "train": "torch datasets tensorboard",
    "serve": "fastapi prometheus_client py3langid python_multipart starlette uvicorn",
    "plot": "matplotlib",
    "corpora": "pooch requests polib markdown_it",
    "hub": "huggingface_hub",
    "mlflow": "mlflow",
    "wandb": "wandb",
}
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory")  # torch's messages, GPU and CPU


class UserError(Exception):
    """The user gave something that cannot be used; the message is one line."""

    exit_code = EXIT_USER

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class ConfigError(UserError):
    """A configuration key is unknown, has the wrong type, or conflicts with another."""


class DataError(UserError):
    """A corpus, a row of it, or a tokenizer cannot be used."""


class CheckpointError(UserError):
    """A run directory or checkpoint is missing, damaged, or of another model."""


class DiskError(UserError):
    """A disk is full, broken or read-only; not the user's fault."""

    exit_code = EXIT_FAULT


class RankLostError(UserError):
    """Another rank died; not the user's fault."""

    exit_code = EXIT_FAULT


class WorkerError(UserError):
    """A worker process was killed; not the user's fault."""

    exit_code = EXIT_FAULT


def exit_status(error: Exception) -> tuple[int, str] | None:
    """Return the exit code of an error and its message in one line; None if it is a bug."""
    if isinstance(error, UserError):
        return error.exit_code, str(error)
    if isinstance(error, OSError):
        return EXIT_USER if error.errno in _PATH_ERRORS else EXIT_FAULT, system_error(error)
    if line := missing_package(error):
        return EXIT_USER, line
    if isinstance(error, MemoryError) or any(words in str(error) for words in _OUT_OF_MEMORY):
        return EXIT_FAULT, (
            "out of memory; reduce data.batching.size, inference.batch_tokens, --beam or "
            "--samples, or use a smaller model"
        )
    return None


def missing_package(error: Exception) -> str | None:
    """Return how to install the package that could not be imported, if an extra has it."""
    name = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    if name in WINGS:
        return f"this needs {name}, which this copy of the program lacks; install all of it"
    package = name.partition(".")[0]
    for extra, packages in _EXTRAS.items():
        if package in packages.split():
            what = "PyTorch" if package == "torch" else package
            install = f"pip install 'attentional-seq2seq[{extra}]'"
            return f"this needs {what}, which is not installed; install it with: {install}"
    return None


def system_error(error: OSError) -> str:
    """Return the path and the reason of a system error as one line."""
    return one_line(": ".join(str(p) for p in (error.filename, error.strerror or error) if p))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown word: the known one that is closest, if any."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def one_line(text: str) -> str:
    """Return the text as one line, with escapes for characters that could control a terminal."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
