"""Batches of a corpus for training: every pair once an epoch, resumable at any batch."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from seq2seq.config import DataConfig
from seq2seq.data.batching import Batch, Ints, Ragged, collate, cut_batches
from seq2seq.data.store import PairStore
from seq2seq.data.streaming import StreamedPairs, StreamedWindows
from seq2seq.data.tokenizer import EOS, UNK, Tokenizer
from seq2seq.data.windows import Place, StoredWindows, Windows
from seq2seq.errors import CheckpointError


@dataclass(frozen=True)
class _Prepared:
    """A window that has batches, and what they are cut from."""

    place: Place
    following: Place
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
    from a saved position with exactly the batches that it would have given, in any process.

    `epoch` counts from 0, `position` is the number of batches taken in it; with the last batch of
    an epoch they become the next epoch and 0. `num_pairs` and `num_skipped` count the pairs with
    at most, and with more than, `data.batching.max_length` pieces on each side; of a streamed
    corpus, those that were read so far in an epoch.
    """

    def __init__(
        self,
        pairs: PairStore | StreamedPairs,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        config: DataConfig,
        *,
        seed: int,
    ) -> None:
        """Encode stored pairs, or find them encoded; raises DataError when none of them fits."""
        tokenizers = source_tokenizer, target_tokenizer
        self._windows: Windows
        if isinstance(pairs, PairStore):
            self._windows = StoredWindows(pairs, tokenizers, config, seed=seed)
        else:
            self._windows = StreamedWindows(pairs, tokenizers, config)
        self._config = config
        self._seed = seed
        self.position = 0
        self._place, self._taken = Place(), 0  # the window, and the batches taken from it

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        return self._place.epoch

    @property
    def num_pairs(self) -> int:
        """The pairs that fit."""
        return self._windows.num_pairs

    @property
    def num_skipped(self) -> int:
        """The pairs that are too long."""
        return self._windows.num_skipped

    def target_counts(self, vocab_size: int) -> Ints:
        """Return how often each piece is in the targets of the present window, with their ends."""
        labels = self._prepare(self._place).labels
        counts: Ints = np.bincount(labels.flat, minlength=vocab_size)
        counts[EOS] += len(labels.lengths)
        return counts

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches from the present position on, for ever; a thread prepares the next."""
        with ThreadPoolExecutor(1, thread_name_prefix="batches") as pool:
            ahead: Future[_Prepared] = pool.submit(self._prepare, self._place)
            while True:
                window = ahead.result()
                ahead = pool.submit(self._prepare, window.following)
                for number in range(self._taken, len(window.batches)):
                    batch = window.batch(number)
                    self._taken, self.position = number + 1, self.position + 1
                    if self._taken == len(window.batches):
                        self._enter(ahead.result().place)
                    yield batch

    def state_dict(self) -> dict[str, Any]:
        """Return the position, ready for JSON."""
        return {
            "epoch": self.epoch,
            "position": self.position,
            "window": self._place.window,
            "reader": self._place.reader,
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
        self._place = Place(state["epoch"], state["window"], state["reader"])
        self.position, self._taken = state["position"], state["taken"]

    def _made_for(self) -> dict[str, Any]:
        return {
            "training.seed": self._seed,
            "data.train": self._windows.fingerprint(),
            **{f"data.batching.{key}": value for key, value in self._config.batching},
            "data.tokenizer.sampling_alpha": self._config.tokenizer.sampling_alpha,
            "data.word_dropout": self._config.word_dropout,
        }

    def _enter(self, place: Place) -> None:
        """Go on to the next window that has batches."""
        if place.epoch > self._place.epoch:
            self.position = 0
        self._place, self._taken = place, 0

    def _prepare(self, place: Place) -> _Prepared:
        """Return the window at a place, or else the next one that has batches."""
        batching = self._config.batching
        while True:
            generator = np.random.default_rng((self._seed, place.epoch, place.window + 1))
            window = self._windows.read(place, generator)
            rows = generator.permutation(window.fitting)  # pairs of the same length are mixed
            cuts = cut_batches(
                window.source.lengths[rows] + 1,
                window.target.lengths[rows] + 1,
                unit=batching.unit,
                size=batching.size,
            )
            if cuts:
                break
            place = window.following
        batches = [rows[cut] for cut in cuts]
        generator.shuffle(batches)
        source, inputs = (self._drop(side, generator) for side in (window.source, window.target))
        return _Prepared(
            place, window.following, window.indices, source, inputs, window.target, batches
        )

    def _drop(self, rows: Ragged, generator: np.random.Generator) -> Ragged:
        """Replace a share of the ids by UNK."""
        share = self._config.word_dropout
        if not share:
            return rows
        dropped = generator.random(len(rows.flat)) < share
        return Ragged(np.where(dropped, np.int32(UNK), rows.flat), rows.offsets)
