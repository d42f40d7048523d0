"""Which keys of a recipe may change when a run goes on."""

from __future__ import annotations

import logging
import re

from seq2seq.config import Config, changed_keys
from seq2seq.errors import ConfigError
from seq2seq.runs.sources import PLACES

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
