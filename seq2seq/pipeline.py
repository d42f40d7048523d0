"""From a recipe to a trained run."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator

import torch
from tqdm import tqdm

from seq2seq.config import Config
from seq2seq.data.batching import BatchStream, PairStore
from seq2seq.data.cleaning import CleaningReport, HeldOut, clean, normalize_pair
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.errors import CheckpointError, DataError
from seq2seq.evaluation.validation import Validator
from seq2seq.model.translation import TranslationModel
from seq2seq.runs.checkpoint import whole_checkpoints
from seq2seq.runs.directory import RunDirectory
from seq2seq.training.device import choose_device, choose_dtype
from seq2seq.training.trainer import Trainer

log = logging.getLogger(__name__)


def train(config: Config, *, resume: bool = False, overwrite: bool = False) -> str:
    """Train a recipe into its run directory; return why training ended (see Trainer.train).

    Raises UserError for what the user can mend; the run directory is then as it was.
    """
    run = _prepare_directory(config, resume=resume, overwrite=overwrite)
    if config.training.threads:
        torch.set_num_threads(config.training.threads)
    store, valid = load_pairs(config)
    with run.lock():
        if resume:
            source, target = run.tokenizers()
        else:
            if overwrite:
                run.clear()
            source, target = train_tokenizers(store, config)
            run.create(config, source, target)
        trainer = _build_trainer(config, run, store, valid, (source, target))
        if resume:
            checkpoint = whole_checkpoints(run.checkpoints)[-1]
            log.info("going on from %s", checkpoint.path)
            trainer.restore(checkpoint)
        return trainer.train()


def _prepare_directory(config: Config, *, resume: bool, overwrite: bool) -> RunDirectory:
    run = RunDirectory.at(config.run_dir)
    if resume:
        run.config()
        if not whole_checkpoints(run.checkpoints):
            raise CheckpointError(
                f"{run.checkpoints}: no checkpoint to resume from; use --overwrite"
            )
    elif run.config_path.exists() and not overwrite:
        raise CheckpointError(
            f"{run.path}: there is a run already; go on with --resume, replace it with "
            "--overwrite, or choose another run_dir"
        )
    return run


def load_pairs(config: Config) -> tuple[PairStore, list[Pair]]:
    """Read and clean the corpora of a recipe; log what was dropped and why."""
    data = config.data
    valid = [pair for pair in map(normalize_pair, read_corpus(data.valid)) if pair.source]
    if not valid:
        raise DataError("data.valid: no pairs; validation needs some")
    held_out = HeldOut()
    held_out.add("valid", valid)
    if data.test is not None:
        held_out.add("test", read_corpus(data.test))
    report = CleaningReport()
    pairs = (pair for corpus in data.train for pair in read_corpus(corpus))
    began = time.monotonic()
    store = PairStore(clean(_shown(pairs), data.cleaning, held_out, report=report))
    log.info("training data, %.1f s:", time.monotonic() - began)
    for line in report.lines():
        log.info("    %s", line)
    if not len(store):
        raise DataError(f"data.train: none of {report.read} pairs is left after cleaning")
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
        source = target = trained(both, settings.source_vocab_size, "source")
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
) -> Trainer:
    training = config.training
    device = choose_device(training.device)
    dtype = choose_dtype(training.precision, device)
    torch.manual_seed(training.seed)
    model = TranslationModel(config.model, tokenizers[0].vocab_size, tokenizers[1].vocab_size)
    stream = BatchStream(store, *tokenizers, config.data, seed=training.seed)
    if stream.num_skipped:
        log.info(
            "%d of %d pairs are longer than data.batching.max_length (%d pieces): not used",
            stream.num_skipped, len(store), config.data.batching.max_length,
        )  # fmt: skip
    log.info(
        "model: %.1f million weights, %s, %s, %d threads",
        sum(p.numel() for p in model.parameters()) / 1e6, device, dtype, torch.get_num_threads(),
    )  # fmt: skip
    validator = Validator(valid, *tokenizers, config, device=device, dtype=dtype)
    return Trainer(model, stream, training, run, validator)


def _shown(pairs: Iterable[Pair]) -> Iterable[Pair]:
    return tqdm(pairs, "reading", unit=" pairs", disable=None, leave=False, mininterval=0.5)
