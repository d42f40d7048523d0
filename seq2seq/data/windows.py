"""Windows of a stored corpus: encoded pairs that are shuffled and cut into batches together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from seq2seq.config import DataConfig
from seq2seq.data.batching import Ints, Ragged
from seq2seq.data.blocks import BLOCK_ROWS
from seq2seq.data.store import PairStore, Tokenizers
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import DataError

log = logging.getLogger(__name__)

_STRETCHES = 64  # of a window, at least: the fewer, the more the same pairs meet again


@dataclass(frozen=True)
class Place:
    """Where a window begins; its number counts from 0 in each epoch."""

    epoch: int = 0
    window: int = 0
    reader: Any = None  # what else leads back to it, ready for JSON


@dataclass(frozen=True)
class Window:
    """Encoded pairs, those of them that fit, and where the next ones are."""

    indices: Ints  # positions of the pairs in the corpus
    source: Ragged
    target: Ragged
    fitting: Ints  # rows that have max_length pieces at most on both sides
    following: Place


class Windows(Protocol):
    """A corpus as one window after the other, for ever."""

    num_pairs: int  # that were found to fit, so far
    num_skipped: int  # that were found not to

    def read(self, place: Place, generator: np.random.Generator) -> Window:
        """Return the window at a place; only subword sampling draws from the generator."""

    def fingerprint(self) -> str:
        """Return what tells the corpus from another."""


class StoredWindows:
    """Windows of random stretches of a PairStore, every pair in one of them each epoch."""

    def __init__(
        self, store: PairStore, tokenizers: Tokenizers, config: DataConfig, *, seed: int
    ) -> None:
        """Encode the pairs, or find them encoded; raises DataError when none of them fits."""
        batching = config.batching
        self._store = store
        self._ids = store.encode(tokenizers, processes=config.processes)
        log.info("%s", store.cache.summary())
        self._segmenter = Segmenter(tokenizers, config)
        self._seed = seed
        self.num_pairs = self._ids.count_fitting(batching.max_length)
        self.num_skipped = len(store) - self.num_pairs
        if not self.num_pairs:
            raise DataError(
                f"data.train: none of {len(store)} pairs is left to train on; "
                f"data.batching.max_length is {batching.max_length} pieces"
            )
        if self.num_skipped:
            log.warning(
                "%d of %d training pairs are skipped: over data.batching.max_length=%d pieces",
                self.num_skipped, len(store), batching.max_length,
            )  # fmt: skip
        # Windows of equal size: a small last one would be cut into batches with much padding.
        self._number = -(-self.num_pairs // batching.window)
        self._rows = min(BLOCK_ROWS, 1 << (max(1, batching.window // _STRETCHES).bit_length() - 1))
        self._order: tuple[int, Ints] = (-1, np.zeros(0, np.int64))

    def fingerprint(self) -> str:
        """Return what tells the corpus from another."""
        return self._store.fingerprint()

    def read(self, place: Place, generator: np.random.Generator) -> Window:
        """Return the window at a place; only subword sampling draws from the generator."""
        if self._order[0] != place.epoch:
            order = np.random.default_rng((self._seed, place.epoch, 0))
            starts = np.arange(0, len(self._store), self._rows)
            self._order = place.epoch, order.permutation(starts)
        starts = np.array_split(self._order[1], self._number)[place.window]
        indices = (starts[:, None] + np.arange(self._rows)).ravel()
        indices = indices[indices < len(self._store)]
        source, target = self._ids.read(starts.tolist(), self._rows)
        fitting = self._segmenter.fitting(source, target)
        if self._segmenter.samples:
            texts = self._store.read(starts.tolist(), self._rows)
            source, target = self._segmenter.sample(texts, fitting, generator)
            indices, fitting = indices[fitting], np.arange(len(fitting))
        last = place.window + 1 == self._number
        following = Place(place.epoch + 1) if last else Place(place.epoch, place.window + 1)
        return Window(indices, source, target, fitting, following)


class Segmenter:
    """Texts as ids, the best or a random segmentation of each."""

    def __init__(self, tokenizers: Tokenizers, config: DataConfig) -> None:
        self._tokenizers = tokenizers
        self._alpha = config.tokenizer.sampling_alpha
        self._most = config.batching.max_length

    @property
    def samples(self) -> bool:
        """Whether segmentations are drawn anew each epoch."""
        return self._alpha > 0

    def fitting(self, source: Ragged, target: Ragged) -> Ints:
        """Return the rows that have max_length pieces at most on both sides."""
        return np.flatnonzero(np.maximum(source.lengths, target.lengths) <= self._most)

    def encode(self, texts: tuple[Sequence[str], Sequence[str]]) -> tuple[Ragged, Ragged]:
        """Return the best segmentations of sources and targets."""
        source, target = (
            Ragged.from_lists(tokenizer.encode_batch(side))
            for tokenizer, side in zip(self._tokenizers, texts, strict=True)
        )
        return source, target

    def sample(
        self,
        texts: tuple[Sequence[str], Sequence[str]],
        rows: Ints,
        generator: np.random.Generator,
    ) -> tuple[Ragged, Ragged]:
        """Return random segmentations of some rows, the best of those that would be too long."""
        source, target = (
            Ragged.from_lists(self._sample(tokenizer, [side[row] for row in rows], generator))
            for tokenizer, side in zip(self._tokenizers, texts, strict=True)
        )
        return source, target

    def _sample(
        self, tokenizer: Tokenizer, texts: list[str], generator: np.random.Generator
    ) -> list[list[int]]:
        seed = int(generator.integers(2**32 - 1))
        found = tokenizer.sample_batch(texts, alpha=self._alpha, seed=seed)
        long = [row for row, ids in enumerate(found) if len(ids) > self._most]
        plain = tokenizer.encode_batch([texts[row] for row in long])
        for row, ids in zip(long, plain, strict=True):
            found[row] = ids
        return found
