"""From a recipe to a trained run, from random weights or from another run (fine-tuning).

A fine-tuned run takes over the weights of the other run, its tokenizers and the shape of its model.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from seq2seq.config import Config, DataConfig, InitialConfig, ModelConfig, Section, changed_keys
from seq2seq.data.corpus import Pair
from seq2seq.data.dataset import PreparedPairs, load_pairs, train_tokenizers
from seq2seq.data.sources import check_directions, check_sources, checksum_sources
from seq2seq.data.stream import BatchStream
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.device import choose_device, choose_dtype
from seq2seq.errors import CheckpointError, ConfigError
from seq2seq.evaluation.validation import Validator
from seq2seq.export import measure_trained
from seq2seq.languages import check_code
from seq2seq.model.translation_model import TranslationModel
from seq2seq.packaged import find_run
from seq2seq.processes import Ranks, cores, init_process_group, launch_name, num_restarts
from seq2seq.runs.checkpoint import load_weights
from seq2seq.runs.directory import RunDirectory, check_changes, find_checkpoint, run_of
from seq2seq.runs.logs import RunLog
from seq2seq.training.monitor import check_tracker
from seq2seq.training.trainer import Trainer
from seq2seq.training.transfer import transfer

log = logging.getLogger(__name__)

SectionT = TypeVar("SectionT", bound=Section)

_MOST_FEEDING = 4  # processes: 200,000 pairs a second, or 2 million tokens (docs/speed.md)
_LANGUAGES = ("source_language", "target_language")
# The keys that the parent's weights and tokenizers determine, except some that may differ.
_INHERITED = re.compile(r"(?!model\.(dropout|variational_dropout|init)$)(model|data\.tokenizer)\.")
_INHERITED_SHAPE = re.compile(
    r"(?!model\.(dropout|variational_dropout|init|joint_embeddings)$)model\."
)


@dataclass(frozen=True)
class Initial:
    """What a run takes over from its parent, the run that it starts from."""

    path: Path  # of the checkpoint
    weights: dict[str, Tensor]
    tokenizers: tuple[Tokenizer, Tokenizer]
    model: ModelConfig
    new_tokenizers: bool  # to be trained
    languages: tuple[str, str]


def train(config: Config, *, resume: bool = False, overwrite: bool = False) -> str:
    """Train a recipe into its run directory; return why training ended (see Trainer.train).

    With `resume`, continue from the latest checkpoint with the run's tokenizers; a recipe that
    would make another run is refused (check_changes). With `overwrite`, delete an existing run as
    soon as the new one is ready to be trained. With `training.initial` in the recipe, start from
    the weights and tokenizers of another run (load_initial). Raises UserError for anything that the
    user can fix; an existing run is then left as it was.
    """
    with init_process_group() as ranks, contextlib.ExitStack() as stack:
        if config.training.threads:
            torch.set_num_threads(config.training.threads)
        run = RunDirectory(Path(config.run_dir))
        # After a restart by torchrun, continue the run that this launch began. What to do with the
        # run of another launch is the user's decision, as at the first start.
        launch = launch_name() if num_restarts() else ""
        if ranks.on_rank0(run.is_of_launch, launch):
            resume = ranks.on_rank0(run.has_checkpoints)
            overwrite = not resume
        config, initial = ranks.on_rank0(check_start, config, resume=resume, overwrite=overwrite)
        # Before the data is read, so that --resume notices files that change meanwhile.
        checksums = {} if resume else ranks.on_rank0(checksum_sources, config.data)
        run_log = stack.enter_context(RunLog(run.log_path))

        pairs, valid = load_pairs(config)
        ranks.on_rank0(stack.enter_context, run.lock())
        checkpoint = None
        if resume:
            checkpoint = ranks.on_rank0(run.recover)
            tokenizers = ranks.on_rank0(run.tokenizers)
        else:
            # Again: another process may have trained a run here meanwhile.
            ranks.on_rank0(_check_directory, config, resume=False, overwrite=overwrite)
            tokenizers = ranks.on_rank0(_new_tokenizers, pairs, config, initial)
            ranks.on_rank0(check_directions, config, tokenizers, valid)
        begins = checkpoint is None
        trainer = _build_trainer(config, run, pairs, valid, tokenizers, ranks, initial, begins)
        del initial  # frees its weights

        if resume:
            if checkpoint is not None:
                log.info("resuming from %s", checkpoint.path)
                trainer.restore(checkpoint)
            ranks.on_rank0(run.update, config)
        else:
            for name in config.training.trackers:
                ranks.on_rank0(check_tracker, name)
            ranks.on_rank0(run.create, config, *tokenizers, checksums)
        ranks.on_rank0(run.record_launch, launch_name())
        ranks.on_rank0(run_log.start)
        ended = trainer.train()
        if ended in ("finished", "early"):
            ranks.on_rank0(measure_trained, run, valid)
        return ended


def show_pairs(config: Config, number: int) -> Iterator[tuple[Pair, Pair]]:
    """Yield pairs, each as training will see it and as it is in the corpus.

    They are different pairs from the first window of training; if it has fewer, all of them. The
    run directory is neither read nor written; tokenizers are cached for the training. Raises
    UserError as `train` does for the corpora.
    """
    initial = None
    _check_languages(config)
    if config.training.initial is not None:
        config, initial = load_initial(config)
    pairs, _ = load_pairs(config)
    source, target = _new_tokenizers(pairs, config, initial)
    stream = BatchStream(pairs, source, target, config.data, seed=config.training.seed)
    batch = stream.sample(number)
    sources = map(source.decode, batch.source_BS.tolist())
    targets = map(target.decode, batch.labels_BT.tolist())
    for text, translation, index in zip(sources, targets, batch.indices, strict=True):
        yield Pair(text, translation), pairs.store[index]


def _new_tokenizers(
    pairs: PreparedPairs, config: Config, initial: Initial | None
) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of a run that begins: those of another run, or new ones."""
    if initial and not initial.new_tokenizers:
        return initial.tokenizers
    return train_tokenizers(pairs, config)


def check_start(config: Config, *, resume: bool, overwrite: bool) -> tuple[Config, Initial | None]:
    """Return the complete recipe and, if training starts from another run, what it takes over.

    With `resume`, nothing is taken over if the run has checkpoints of its own. Raises UserError if
    `train` would refuse the recipe, its run directory, or the run to start from.
    """
    run = RunDirectory(Path(config.run_dir))
    if resume:
        config = resumed(config, run.config())
    else:
        _check_languages(config)
    _check_directory(config, resume=resume, overwrite=overwrite)
    if config.training.initial is None or (resume and run.has_checkpoints()):
        return config, None
    return load_initial(config)


def _check_languages(config: Config) -> None:
    """Raise ConfigError unless a recipe to train names both languages, or the run it starts from.

    Existing runs keep theirs.
    """
    for key in _LANGUAGES:
        if key in config.data.model_fields_set:
            check_code(f"data.{key}", getattr(config.data, key))
        elif config.training.initial is None:
            raise ConfigError(
                f"data.{key}: missing required key; set it to the ISO 639 code of the language, "
                "such as es"
            )


def _check_directory(config: Config, *, resume: bool, overwrite: bool) -> None:
    run = RunDirectory(Path(config.run_dir))
    run.check_writable()
    if resume:
        check_changes(run.config(), config)
        check_sources(run.sources_path, config.data)
        if run.has_checkpoints():
            newest = run.newest()
            if "progress" not in newest.state:
                raise CheckpointError(
                    f"{newest.path}: exported, so --resume cannot continue it; use --from"
                )
    elif foreign := run.foreign(config):
        raise CheckpointError(
            f"{run.path}: has {', '.join(foreign)}, not written by training; move that away, or "
            "choose another run_dir"
        )
    elif not overwrite and run.exists():
        how = "continue it with --resume, " if run.config_path.exists() else ""
        raise CheckpointError(
            f"{run.path}: a run already exists; {how}replace it with --overwrite, or choose "
            "another run_dir"
        )


def _build_trainer(
    config: Config,
    run: RunDirectory,
    pairs: PreparedPairs,
    valid: list[Pair],
    tokenizers: tuple[Tokenizer, Tokenizer],
    ranks: Ranks,
    initial: Initial | None,
    begins: bool,
) -> Trainer:
    training = config.training
    device = choose_device(training.device)
    dtype = choose_dtype(training.precision, device)
    torch.manual_seed(training.seed)
    model = TranslationModel(config.model, tokenizers[0].vocab_size, tokenizers[1].vocab_size)
    processes = _feeding_processes(config.data, device, ranks)
    stream = BatchStream(pairs, *tokenizers, config.data, seed=training.seed, processes=processes)
    ranks.wait_for_preparation()
    if initial and not initial.new_tokenizers:
        load_weights(model, initial.weights, origin=initial.path)
    elif initial:
        sizes = (tokenizer.vocab_size for tokenizer in initial.tokenizers)
        old = TranslationModel(initial.model, *sizes)
        load_weights(old, initial.weights, origin=initial.path)
        transfer(old, initial.tokenizers, model, tokenizers)
    languages = config.data.languages
    if initial:
        new = ", with new tokenizers" * initial.new_tokenizers
        log.info("starting from %s%s", initial.path, new)
        if initial.languages != languages:
            both = *initial.languages, *languages
            log.info("that model translates %s to %s, this run %s to %s", *both)
    inherits = initial and not initial.new_tokenizers and initial.languages[1] == languages[1]
    if begins and not inherits:
        model.init_output_bias(torch.from_numpy(stream.target_counts(tokenizers[1].vocab_size)))
    threads = torch.get_num_threads()
    log.info(
        "model: %.1f million weights, %s, %s, %d process%s, %d thread%s each",
        sum(p.numel() for p in model.parameters()) / 1e6, device, dtype,
        ranks.size, "es" * (ranks.size != 1), threads, "s" * (threads != 1),
    )  # fmt: skip
    validator = Validator(valid, *tokenizers, config, device=device, dtype=dtype, ranks=ranks)
    return Trainer(model, stream, training, run, validator, ranks)


def _feeding_processes(data: DataConfig, device: torch.device, ranks: Ranks) -> int:
    """Return how many processes prepare the batches of a rank; 1 is this process itself.

    Augmentation in this process would delay the kernels of a GPU. Without augmentation, batches
    take little time, and on a CPU the training needs the cores.
    """
    if device.type != "cuda" or data.augmentation is None or not hasattr(os, "fork"):
        return 1
    return data.processes or min(_MOST_FEEDING, max(2, cores() // ranks.size - 1))


def load_initial(config: Config) -> tuple[Config, Initial]:
    """Return the recipe, completed from the run that it starts from, and that run's best weights.

    The recipe names the run in `training.initial`. Keys of `model`, `inference` and
    `data.tokenizer` and the languages are taken from the run if the recipe leaves them out; the
    checksum of the weights is recorded.

    Raises CheckpointError if the run is missing, damaged, unsafe or without weights, or if their
    checksum is not the recorded one; ConfigError if the recipe asks for another shape or other
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
    config = _inherit(config, parent, initial.model_copy(update={"weights": found}))
    inherited = _INHERITED_SHAPE if initial.new_tokenizers else _INHERITED
    for key, (theirs, ours) in changed_keys(parent, config).items():
        if inherited.match(key):
            raise ConfigError(
                f"{key}: the recipe has {ours!r}, but training starts from the weights and "
                f"tokenizers of {initial.run}, which has {theirs!r}; remove the key, or train "
                "without --from"
            )
    return config, Initial(
        checkpoint.path,
        checkpoint.weights(),
        run.tokenizers(),
        parent.model,
        initial.new_tokenizers,
        parent.data.languages,
    )


def resumed(config: Config, saved: Config) -> Config:
    """Return the recipe to resume a run with; what it leaves out is as in the run.

    That is, the languages and, if the run began from another one, the keys that it took from there.
    """
    began, given = saved.training.initial, config.training.initial
    if began is None:
        return config.model_copy(update={"data": _with_languages(config, saved)})
    return _inherit(config, saved, _filled(given, began) if given else began)


def _inherit(config: Config, parent: Config, initial: InitialConfig) -> Config:
    """Return the recipe with the parent's values for keys that it leaves out."""
    data = _with_languages(config, parent)
    if not initial.new_tokenizers:
        tokenizer = _filled(data.tokenizer, parent.data.tokenizer)
        data = data.model_copy(update={"tokenizer": tokenizer})
    completed = config.model_copy(
        update={
            "data": data,
            "model": _filled(config.model, parent.model),
            "inference": _filled(config.inference, parent.inference),
            "training": config.training.model_copy(update={"initial": initial}),
        }
    )
    return Config.model_validate(completed.model_dump())


def _with_languages(config: Config, other: Config) -> DataConfig:
    """Return the data section with the languages of another recipe where it names none."""
    missing = set(_LANGUAGES) - config.data.model_fields_set
    return config.data.model_copy(update={key: getattr(other.data, key) for key in missing})


def _filled(section: SectionT, other: SectionT) -> SectionT:
    """Return a section with the other's values for keys that were not set in it."""
    given = {key: getattr(section, key) for key in section.model_fields_set}
    for key, value in given.items():
        if isinstance(value, Section):
            given[key] = _filled(value, getattr(other, key))
    return other.model_copy(update=given)
