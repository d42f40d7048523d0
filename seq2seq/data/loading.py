"""From the corpora of a recipe to clean pairs and tokenizers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator

from tqdm import tqdm

from seq2seq.config import Config
from seq2seq.data.cleaning import CleaningReport, HeldOut, clean, normalize_pair
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.data.store import PairStore
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.errors import DataError

log = logging.getLogger(__name__)


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


def _shown(pairs: Iterable[Pair]) -> Iterable[Pair]:
    return tqdm(pairs, "reading", unit=" pairs", disable=None, leave=False, mininterval=0.5)
