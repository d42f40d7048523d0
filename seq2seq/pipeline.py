"""From a recipe to a trained run."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from tqdm import tqdm

from seq2seq.config import Config
from seq2seq.data.cleaning import CleaningReport, HeldOut, clean, normalize_pair
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.data.store import PairStore
from seq2seq.data.stream import BatchStream
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.errors import CheckpointError, DataError
from seq2seq.evaluation.validation import Validator
from seq2seq.model.translation import TranslationModel
from seq2seq.runs.changes import check_changes
from seq2seq.runs.checkpoint import list_checkpoints
from seq2seq.runs.directory import RunDirectory
from seq2seq.runs.log import RunLog
from seq2seq.runs.sources import check_sources, checksum_sources
from seq2seq.training.device import choose_device, choose_dtype
from seq2seq.training.ranks import Ranks, join, was_restarted
from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)


def train(config: Config, *, resume: bool = False, overwrite: bool = False) -> str:
    """Train a recipe into its run directory; return why training ended (see Trainer.train).

    With `resume` it goes on from the newest checkpoint with the tokenizers of the run; a recipe
    that would make another run is refused (seq2seq.runs.changes). With `overwrite` a run that is
    there is deleted, once the new one is ready to be trained.

    Raises UserError for what the user can mend; a run that was there is then as it was.
    """
    with join() as ranks, contextlib.ExitStack() as stack:
        if not ranks.is_first:
            logging.getLogger("seq2seq").setLevel(logging.ERROR)  # rank 0 tells it all
        if config.training.threads:
            torch.set_num_threads(config.training.threads)
        run = RunDirectory(Path(config.run_dir))
        if was_restarted():
            resume = ranks.share(lambda: bool(list_checkpoints(run.checkpoints)))
            overwrite = not resume

        def check() -> None:
            _check_directory(run, config, resume=resume, overwrite=overwrite)

        def lock() -> None:
            stack.enter_context(run.lock())
            if not resume:  # again, for another training may have come and gone
                check()

        def begin() -> None:
            if resume:
                run.update(config)
            else:
                run.create(config, tokenizers[0], tokenizers[1], checksums)
            start_log_file()

        ranks.share(check)
        # Before it is read: what is changed meanwhile is then found when the run goes on.
        checksums = {} if resume else ranks.share(lambda: checksum_sources(config.data))
        start_log_file = stack.enter_context(_log_file(run))
        store, valid = load_pairs(config)
        ranks.share(lock)
        tokenizers = ranks.share(
            run.tokenizers if resume else lambda: train_tokenizers(store, config)
        )
        trainer = _build_trainer(config, run, store, valid, tokenizers, ranks)
        if resume:
            _restore(trainer, run, ranks)
        ranks.share(begin)
        return trainer.train()


def _restore(trainer: Trainer, run: RunDirectory, ranks: Ranks) -> None:
    checkpoint = ranks.share(lambda: (found := run.recover()) and found.in_memory())
    if checkpoint is not None:
        log.info("going on from %s", checkpoint.path)
        trainer.restore(checkpoint)


def _check_directory(run: RunDirectory, config: Config, *, resume: bool, overwrite: bool) -> None:
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


def load_pairs(config: Config) -> tuple[PairStore, list[Pair]]:
    """Read and clean the corpora of a recipe; log what was dropped and why.

    Raises DataError for a corpus that cannot be read and for one that has no pairs.
    """
    data = config.data
    pairs = map(normalize_pair, read_corpus(data.valid))
    valid = [pair for pair in pairs if pair.source and pair.target]
    if not valid:
        raise DataError("data.valid: no pairs with text on both sides; validation needs some")
    held_out = HeldOut()
    held_out.add("valid", valid)
    if data.test is not None:
        held_out.add("test", read_corpus(data.test))
    report = CleaningReport()
    raw = (pair for corpus in data.train for pair in read_corpus(corpus))
    began = time.monotonic()
    store = PairStore(clean(_shown(raw), data.cleaning, held_out, report=report))
    log.info("training data, %.1f s:", time.monotonic() - began)
    for line in report.lines():
        log.info("    %s", line)
    if not len(store):
        raise DataError(
            f"data.train: none of {report.read} pairs is left; loosen data.cleaning, or look at "
            "the data"
        )
    return store, valid


def train_tokenizers(store: PairStore, config: Config) -> tuple[Tokenizer, Tokenizer]:
    """Train the tokenizers of source and target on the train side."""
    settings, seed = config.data.tokenizer, config.training.seed
    began = time.monotonic()

    def texts(side: int) -> Iterator[str]:
        for start in range(0, len(store), 10_000):
            yield from store.texts(range(start, min(start + 10_000, len(store))))[side]

    def trained(texts: Iterable[str], size: int, name: str) -> Tokenizer:
        return train_tokenizer(texts, config=settings, vocab_size=size, seed=seed, name=name)

    if settings.joint:
        both = (text for side in (0, 1) for text in texts(side))
        source = target = trained(both, settings.source_vocab_size, "joint")
    else:
        source = trained(texts(0), settings.source_vocab_size, "source")
        target = trained(texts(1), settings.target_vocab_size, "target")
    log.info(
        "tokenizers, %.1f s: %d source pieces, %d target pieces",
        time.monotonic() - began, source.vocab_size, target.vocab_size,
    )  # fmt: skip
    return source, target


def _build_trainer(
    config: Config,
    run: RunDirectory,
    store: PairStore,
    valid: list[Pair],
    tokenizers: tuple[Tokenizer, Tokenizer],
    ranks: Ranks,
) -> Trainer:
    training = config.training
    device = choose_device(training.device)
    dtype = choose_dtype(training.precision, device)
    torch.manual_seed(training.seed)
    model = TranslationModel(config.model, tokenizers[0].vocab_size, tokenizers[1].vocab_size)
    stream = BatchStream(store, *tokenizers, config.data, seed=training.seed)
    log.info(
        "model: %.1f million weights, %s, %s, %d threads in each of %d processes",
        sum(p.numel() for p in model.parameters()) / 1e6, device, dtype,
        torch.get_num_threads(), ranks.size,
    )  # fmt: skip
    validator = Validator(valid, *tokenizers, config, device=device, dtype=dtype, ranks=ranks)
    return Trainer(model, stream, training, run, validator, ranks)


def _shown(pairs: Iterable[Pair]) -> Iterable[Pair]:
    return tqdm(pairs, "reading", unit=" pairs", disable=None, leave=False, mininterval=0.5)
