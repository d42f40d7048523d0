"""Which keys of a recipe may change when a run goes on."""

from __future__ import annotations

import logging

from seq2seq.config import Config, changed_keys
from seq2seq.errors import ConfigError

log = logging.getLogger(__name__)

_FIXED = {
    "data": "the batches and the vocabulary are made from it",
    "model": "the weights of the checkpoint have its shape",
    "training.seed": "the order of the batches is made from it",
    "training.metric": "the best checkpoint so far was chosen by it",
}
_FREE = (
    "data.cache", "data.processes", "model.dropout", "model.variational_dropout", "model.init"
)  # fmt: skip


def check_changes(saved: Config, given: Config) -> None:
    """Log what is new in a recipe that a run goes on with.

    Raises ConfigError, which names the keys, for a change that would make it another run.
    """
    refused = []
    for key, (old, new) in changed_keys(saved, given).items():
        why = next((why for fixed, why in _FIXED.items() if f"{key}.".startswith(f"{fixed}.")), "")
        if why and key not in _FREE:
            refused.append(f"{key} was {old!r} and is {new!r} ({why})")
        elif key != "run_dir":
            log.info("changed since the run began: %s was %r and is %r", key, old, new)
    if refused:
        raise ConfigError(
            f"--resume: {'; '.join(refused)}: change back, or start a new run in another run_dir"
        )
