"""From a recipe to a trained run."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from seq2seq.config import Config
from seq2seq.data.corpus import Pair
from seq2seq.data.dataset import Pairs, load_pairs, train_tokenizers
from seq2seq.data.sources import check_sources, checksum_sources
from seq2seq.data.stream import BatchStream
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.device import choose_device, choose_dtype
from seq2seq.errors import CheckpointError
from seq2seq.evaluation.validation import Validator
from seq2seq.model.model import TranslationModel
from seq2seq.parallel import Ranks, join, launch_name, was_restarted
from seq2seq.runs.directory import RunDirectory, RunLog, check_changes
from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)


def train(config: Config, *, resume: bool = False, overwrite: bool = False) -> str:
    """Train a recipe into its run directory; return why training ended (see Trainer.train).

    With `resume` it goes on from the newest checkpoint with the tokenizers of the run; a recipe
    that would make another run is refused (seq2seq.runs.directory). With `overwrite` a run that is
    there is deleted, once the new one is ready to be trained.

    Raises UserError for what the user can mend; a run that was there is then as it was.
    """
    with join() as ranks, contextlib.ExitStack() as stack:
        if config.training.threads:
            torch.set_num_threads(config.training.threads)
        run = RunDirectory(Path(config.run_dir))
        # What another launch left behind is for the user to decide on, as at the first start.
        if ranks.share(lambda: was_restarted() and run.is_of_launch(launch_name())):
            resume = ranks.share(run.has_checkpoints)
            overwrite = not resume

        def check() -> None:
            check_directory(config, resume=resume, overwrite=overwrite)

        def lock() -> None:
            stack.enter_context(run.lock())
            if not resume:  # again, for another training may have come and gone
                check()

        def begin() -> None:
            if resume:
                run.update(config)
            else:
                run.create(config, tokenizers[0], tokenizers[1], checksums)
            run.begin_launch(launch_name())
            start_log_file()

        ranks.share(check)
        # Before it is read: what is changed meanwhile is then found when the run goes on.
        checksums = {} if resume else ranks.share(lambda: checksum_sources(config.data))
        start_log_file = stack.enter_context(_log_file(run))
        pairs, valid = load_pairs(config)
        ranks.wait()
        ranks.share(lock)
        tokenizers = ranks.share(
            run.tokenizers if resume else lambda: train_tokenizers(pairs, config)
        )
        trainer = _build_trainer(config, run, pairs, valid, tokenizers, ranks)
        ranks.wait()
        if resume:
            _restore(trainer, run, ranks)
        ranks.share(begin)
        return trainer.train()


def _restore(trainer: Trainer, run: RunDirectory, ranks: Ranks) -> None:
    checkpoint = ranks.share(lambda: (found := run.recover()) and found.in_memory())
    if checkpoint is not None:
        log.info("going on from %s", checkpoint.path)
        trainer.restore(checkpoint)


def check_directory(config: Config, *, resume: bool, overwrite: bool) -> None:
    """Raise UserError where `train` would refuse the run directory of a recipe as it is."""
    run = RunDirectory(Path(config.run_dir))
    run.check_writable()
    if resume:
        check_changes(run.config(), config)
        check_sources(run.sources_path, config.data)
        if run.has_checkpoints():
            run.newest()
    elif run.exists() and not overwrite:
        go_on = "go on with --resume, " if run.config_path.exists() else ""
        raise CheckpointError(
            f"{run.path}: there is a run already; {go_on}replace it with --overwrite, or choose "
            "another run_dir"
        )


@contextlib.contextmanager
def _log_file(run: RunDirectory) -> Iterator[Callable[[], None]]:
    """Collect what is logged until the returned function is called, then write it to log.txt."""
    handler = logging.handlers.MemoryHandler(10_000, logging.CRITICAL + 1, flushOnClose=False)
    package = logging.getLogger("seq2seq")
    package.addHandler(handler)
    files = []

    def start() -> None:
        file = RunLog(str(run.log_path))
        files.append(file)
        package.addHandler(file)
        package.removeHandler(handler)
        handler.setTarget(file)
        handler.flush()

    try:
        yield start
    finally:
        for each in (handler, *files):
            package.removeHandler(each)
            each.close()


def _build_trainer(
    config: Config,
    run: RunDirectory,
    pairs: Pairs,
    valid: list[Pair],
    tokenizers: tuple[Tokenizer, Tokenizer],
    ranks: Ranks,
) -> Trainer:
    training = config.training
    device = choose_device(training.device)
    dtype = choose_dtype(training.precision, device)
    torch.manual_seed(training.seed)
    model = TranslationModel(config.model, tokenizers[0].vocab_size, tokenizers[1].vocab_size)
    stream = BatchStream(pairs, *tokenizers, config.data, seed=training.seed)
    model.init_output_bias(torch.from_numpy(stream.target_counts(tokenizers[1].vocab_size)))
    log.info(
        "model: %.1f million weights, %s, %s, %d threads in each of %d processes",
        sum(p.numel() for p in model.parameters()) / 1e6, device, dtype,
        torch.get_num_threads(), ranks.size,
    )  # fmt: skip
    validator = Validator(valid, *tokenizers, config, device=device, dtype=dtype, ranks=ranks)
    return Trainer(model, stream, training, run, validator, ranks)
