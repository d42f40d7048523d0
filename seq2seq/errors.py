"""What a user can mend: each error names the place, what was found there, and the mend."""


class UserError(Exception):
    """A mistake in what the user gave; the command line prints it in one line."""

    exit_code = 2


class ConfigError(UserError):
    """A key of the configuration is unknown, of a wrong type, or does not fit the others."""


class DataError(UserError):
    """A corpus, a row of it, or a tokenizer cannot be used."""


class CheckpointError(UserError):
    """A run directory or a checkpoint is missing, damaged, or of another model."""


class RankLostError(UserError):
    """A process of those that train together has ended; no mistake of the user."""

    exit_code = 1


class WorkerError(UserError):
    """A process of those that share the work was killed; no mistake of the user."""

    exit_code = 1
