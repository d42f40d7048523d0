"""Batches of a corpus for training: every pair once an epoch, resumable at any batch."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from seq2seq.config import DataConfig
from seq2seq.data.batching import Batch, Ints, Ragged, collate, cut_batches
from seq2seq.data.store import PairStore
from seq2seq.data.tokenizer import UNK, Tokenizer
from seq2seq.errors import CheckpointError, DataError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Window:
    """Encoded pairs and the batches they are cut into."""

    indices: Ints
    source: Ragged
    inputs: Ragged
    labels: Ragged
    batches: list[Ints]

    def batch(self, number: int) -> Batch:
        rows = self.batches[number]
        return collate(self.source, self.inputs, self.labels, rows, self.indices[rows].tolist())


class BatchStream:
    """Batches of a corpus, epoch after epoch, each pair once an epoch.

    All that is random comes from the seed, the epoch and the window, so that a stream goes on
    from a saved position with exactly the batches that it would have given.

    `epoch` counts from 0, `position` is the number of batches taken in it; with the last batch of
    an epoch they become the next epoch and 0. `num_pairs` and `num_skipped` count the pairs with
    at most, and with more than, `data.batching.max_length` pieces on each side.
    """

    def __init__(
        self,
        store: PairStore,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        config: DataConfig,
        *,
        seed: int,
    ) -> None:
        """Find the pairs that fit; raises DataError when there are none."""
        self._store = store
        self._tokenizers = (source_tokenizer, target_tokenizer)
        self._config = config
        self._seed = seed
        self._kept = self._find_fitting()
        self.num_pairs = len(self._kept)
        self.num_skipped = len(store) - self.num_pairs
        if not self.num_pairs:
            raise DataError(
                f"data.train: none of {len(store)} pairs is left to train on; "
                f"data.batching.max_length is {config.batching.max_length} pieces"
            )
        if self.num_skipped:
            log.warning(
                "%d of %d training pairs are skipped: over data.batching.max_length=%d pieces",
                self.num_skipped,
                len(store),
                config.batching.max_length,
            )
        # Windows of equal size: a small last one would be cut into batches with much padding.
        self._num_windows = -(-self.num_pairs // config.batching.window)
        self._order: tuple[int, Ints] = (-1, self._kept)
        self.epoch, self.position = 0, 0
        self._window, self._taken = 0, 0  # the window, and the batches taken from it

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches from the present position on, for ever; a thread prepares the next."""
        with ThreadPoolExecutor(1, thread_name_prefix="batches") as pool:
            ahead: Future[_Window] = pool.submit(self._prepare, self.epoch, self._window)
            while True:
                window = ahead.result()
                following = self._following()
                ahead = pool.submit(self._prepare, *following)
                for number in range(self._taken, len(window.batches)):
                    batch = window.batch(number)
                    self._taken, self.position = number + 1, self.position + 1
                    if self._taken == len(window.batches):
                        self.position = 0 if following[0] > self.epoch else self.position
                        (self.epoch, self._window), self._taken = following, 0
                    yield batch

    def state_dict(self) -> dict[str, Any]:
        """Return the position, ready for JSON."""
        return {
            "epoch": self.epoch,
            "position": self.position,
            "window": self._window,
            "taken": self._taken,
            "made_for": self._made_for(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved position, in iterators made from now on.

        Raises CheckpointError when the corpus or a setting that shapes batches is another one.
        """
        saved, present = state["made_for"], self._made_for()
        for key, value in present.items():
            if saved.get(key) != value:
                raise CheckpointError(
                    f"the batches cannot go on where they stopped: {key} was {saved.get(key)} "
                    f"and is {value}; change it back, or start a new run"
                )
        self.epoch, self.position = state["epoch"], state["position"]
        self._window, self._taken = state["window"], state["taken"]

    def _made_for(self) -> dict[str, Any]:
        return {
            "training.seed": self._seed,
            "data.train": self._store.fingerprint(),
            **{f"data.batching.{key}": value for key, value in self._config.batching},
            "data.tokenizer.sampling_alpha": self._config.tokenizer.sampling_alpha,
            "data.word_dropout": self._config.word_dropout,
        }

    def _following(self) -> tuple[int, int]:
        last = self._window + 1 == self._num_windows
        return (self.epoch + 1, 0) if last else (self.epoch, self._window + 1)

    def _find_fitting(self) -> Ints:
        """Return the positions of the pairs whose sides, not sampled, have max_length at most."""
        most = self._config.batching.max_length
        # A text has at most one piece for each byte and one for the space before it.
        long = np.flatnonzero(self._store.num_bytes() + 1 > most)
        fits = np.ones(len(self._store), dtype=bool)
        for start in range(0, len(long), 10_000):
            part = long[start : start + 10_000]
            for tokenizer, texts in zip(
                self._tokenizers, self._store.texts(part.tolist()), strict=True
            ):
                fits[part] &= [len(ids) <= most for ids in tokenizer.encode_batch(texts)]
        return np.flatnonzero(fits)

    def _generator(self, epoch: int, number: int) -> np.random.Generator:
        return np.random.default_rng((self._seed, epoch, number))

    def _prepare(self, epoch: int, window: int) -> _Window:
        if self._order[0] != epoch:
            self._order = epoch, self._generator(epoch, 0).permutation(self._kept)
        indices = np.array_split(self._order[1], self._num_windows)[window]
        generator = self._generator(epoch, window + 1)
        source, target = (
            Ragged.from_lists(self._encode(tokenizer, texts, generator))
            for tokenizer, texts in zip(
                self._tokenizers, self._store.texts(indices.tolist()), strict=True
            )
        )
        batching = self._config.batching
        batches = cut_batches(
            source.lengths + 1, target.lengths + 1, unit=batching.unit, size=batching.size
        )
        generator.shuffle(batches)
        return _Window(
            indices, self._drop(source, generator), self._drop(target, generator), target, batches
        )

    def _encode(
        self, tokenizer: Tokenizer, texts: list[str], generator: np.random.Generator
    ) -> list[list[int]]:
        alpha, most = self._config.tokenizer.sampling_alpha, self._config.batching.max_length
        if not alpha:
            return tokenizer.encode_batch(texts)
        seed = int(generator.integers(2**32 - 1))
        rows = tokenizer.sample_batch(texts, alpha=alpha, seed=seed)
        long = [row for row, ids in enumerate(rows) if len(ids) > most]
        plain = tokenizer.encode_batch([texts[row] for row in long])
        for row, ids in zip(long, plain, strict=True):
            rows[row] = ids
        return rows

    def _drop(self, rows: Ragged, generator: np.random.Generator) -> Ragged:
        """Replace a share of the ids by UNK."""
        share = self._config.word_dropout
        if not share:
            return rows
        dropped = generator.random(len(rows.flat)) < share
        return Ragged(np.where(dropped, np.int32(UNK), rows.flat), rows.offsets)
