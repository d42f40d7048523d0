"""Start training from another run: its weights, its tokenizers and the shape of its model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from seq2seq.config import Config, InitialConfig, Section, changed_keys
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import CheckpointError, ConfigError
from seq2seq.packaged import find_run
from seq2seq.runs.directory import find_checkpoint, run_of

if TYPE_CHECKING:
    from torch import Tensor

SectionT = TypeVar("SectionT", bound=Section)

_LANGUAGES = ("source_language", "target_language")
# What the weights and tokenizers decide, and what in it they leave open.
_FIXED = re.compile(
    r"(?!model\.(dropout|variational_dropout|init)$)(?!data\.tokenizer\.sampling_alpha$)"
    r"(model|data\.tokenizer)\."
)


@dataclass(frozen=True)
class Initial:
    """What a run hands to the training that starts from it."""

    path: Path  # of the checkpoint
    weights: dict[str, Tensor]
    tokenizers: tuple[Tokenizer, Tokenizer]


def load_initial(config: Config) -> tuple[Config, Initial]:
    """Return a recipe completed by the run that it starts from, and that run's best weights.

    The recipe names the run in `training.initial`. Keys of `model`, `inference` and
    `data.tokenizer` that it leaves out, and the languages, are those of the run; the checksum of
    the weights is recorded.

    Raises CheckpointError if the run is missing, damaged, unsafe or without weights, or if they are
    not those of the recorded checksum; ConfigError if the recipe asks for another shape or other
    tokenizers, or would be trained into the directory of that run.
    """
    initial = config.training.initial
    assert initial is not None
    path = find_run(initial.run)
    run = run_of(path)
    if run.path.resolve() == Path(config.run_dir).resolve():
        raise ConfigError(
            f"run_dir: {config.run_dir} is the run that training starts from; choose another "
            "run_dir"
        )
    checkpoint, parent = find_checkpoint(path), run.config()
    found = checkpoint.weights_sum
    if initial.weights not in (None, found):
        raise CheckpointError(
            f"{checkpoint.path}: not the weights that training.initial.weights names (SHA-256 "
            f"{found[:12]}... instead of {str(initial.weights)[:12]}...); name their checkpoint in "
            "training.initial.run, or remove the key to start from these"
        )
    config = _inherit(config, parent, InitialConfig(run=initial.run, weights=found))
    for key, (theirs, ours) in changed_keys(parent, config).items():
        if _FIXED.match(key):
            raise ConfigError(
                f"{key}: the recipe has {ours!r}, but {initial.run}, whose weights and tokenizers "
                f"training starts from, has {theirs!r}; remove the key, or train without --from"
            )
    return config, Initial(checkpoint.path, checkpoint.weights(), run.tokenizers())


def resumed(config: Config, saved: Config) -> Config:
    """Return the recipe to resume a run with: completed by the run's own if it had a start."""
    began, given = saved.training.initial, config.training.initial
    if began is None:
        return config
    return _inherit(config, saved, _filled(given, began) if given else began)


def _inherit(config: Config, parent: Config, initial: InitialConfig) -> Config:
    """Return the recipe with the parent's values for keys that it leaves out."""
    data = config.data
    named: dict[str, Any] = {
        key: getattr(parent.data, key) for key in _LANGUAGES if key not in data.model_fields_set
    }
    named["tokenizer"] = _filled(data.tokenizer, parent.data.tokenizer)
    completed = config.model_copy(
        update={
            "data": data.model_copy(update=named),
            "model": _filled(config.model, parent.model),
            "inference": _filled(config.inference, parent.inference),
            "training": config.training.model_copy(update={"initial": initial}),
        }
    )
    return Config.model_validate(completed.model_dump())


def _filled(section: SectionT, other: SectionT) -> SectionT:
    """Return a section with the other's values for keys that were not set in it."""
    given = {key: getattr(section, key) for key in section.model_fields_set}
    for key, value in given.items():
        if isinstance(value, Section):
            given[key] = _filled(value, getattr(other, key))
    return other.model_copy(update=given)
