"""What goes wrong: each error names the place, what was found there, and the mend.

A command ends with 2 and one line for what the user can mend in what was given: a UserError, or a
path that is missing, of another kind, or not allowed. It ends with 1 and one line for a fault,
which is none of the user's: a full disk, no memory left, a process that was lost. Whatever else is
raised is a mistake in the program itself, and is shown with its traceback.
"""

import errno

EXIT_FAULT, EXIT_USER = 1, 2

# What the system says of a path that was given; all else that it says is a fault.
_OF_PATHS = {
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS,
    errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO,
}  # fmt: skip
_NO_MEMORY = ("out of memory", "can't allocate memory")  # torch's words, of a GPU and of the host


class UserError(Exception):
    """A mistake in what the user gave, in one line."""

    exit_code = EXIT_USER

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class ConfigError(UserError):
    """A key of the configuration is unknown, of a wrong type, or does not fit the others."""


class DataError(UserError):
    """A corpus, a row of it, or a tokenizer cannot be used."""


class CheckpointError(UserError):
    """A run directory or a checkpoint is missing, damaged, or of another model."""


class DiskError(UserError):
    """A disk is full, is broken, or takes no more writing; no mistake of the user."""

    exit_code = 1


class RankLostError(UserError):
    """A process of those that work together has ended; no mistake of the user."""

    exit_code = EXIT_FAULT


class WorkerError(UserError):
    """A process of those that share the work was killed; no mistake of the user."""

    exit_code = EXIT_FAULT


def verdict(error: Exception) -> tuple[int, str] | None:
    """Return the exit code and the line that tell of an error; None for one of the program."""
    if isinstance(error, UserError):
        return error.exit_code, str(error)
    if isinstance(error, OSError):
        line = ": ".join(str(part) for part in (error.filename, error.strerror or error) if part)
        return EXIT_USER if error.errno in _OF_PATHS else EXIT_FAULT, one_line(line)
    if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
        return EXIT_FAULT, (
            "out of memory; less is needed with a smaller data.batching.size, "
            "inference.batch_tokens, --beam or --samples, or a smaller model"
        )
    return None


def one_line(text: str) -> str:
    """Return the text in one line, with escapes for what could steer a terminal."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
