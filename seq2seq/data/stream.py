"""Batches of a corpus for training, resumable at any batch.

In an epoch every pair is used once, or as often as the weight of its corpus says. The corpus is
read in windows; a window is shuffled and cut into batches.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from seq2seq.config import DataConfig
from seq2seq.data.arrow import lengths, to_ragged
from seq2seq.data.augmentation import augment
from seq2seq.data.batching import Batch, collate, cut_batches
from seq2seq.data.dataset import PreparedPairs
from seq2seq.data.ragged import Ints, Ragged
from seq2seq.data.tokenizer import EOS, UNK, Tokenizer
from seq2seq.errors import CheckpointError, DataError

log = logging.getLogger(__name__)

_WINDOW_STRETCHES = 64  # at least: with fewer, the same pairs meet again in every epoch


@dataclass(frozen=True)
class StreamPosition:
    """Where a window begins; windows are counted from 0 in each epoch."""

    epoch: int = 0
    window: int = 0


@dataclass(frozen=True)
class Window:
    """A window of encoded pairs, cut into batches, of which there is at least one."""

    position: StreamPosition
    following: StreamPosition
    indices: Ints  # positions of the pairs in the corpus
    source: Ragged
    inputs: Ragged
    labels: Ragged
    batches: list[Ints]

    def batch(self, number: int) -> Batch:
        """Return one of the batches, padded."""
        rows = self.batches[number]
        return collate(self.source, self.inputs, self.labels, rows, self.indices[rows].tolist())


class BatchStream:
    """Batches of a corpus, epoch after epoch.

    Everything random is drawn from the seed, the epoch and the window, so that a stream resumes
    from a saved position with exactly the batches that it would have given, in any process.

    `epoch` counts from 0, `position` is the number of batches taken in it; with the last batch of
    an epoch they become the next epoch and 0. `num_pairs` and `num_skipped` count the pairs with
    at most, and with more than, `data.batching.max_length` pieces on each side.
    """

    def __init__(
        self,
        pairs: PreparedPairs,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        config: DataConfig,
        *,
        seed: int,
    ) -> None:
        """Encode the pairs, or find them in the cache; raises DataError if none of them fits."""
        batching = config.batching
        self._pairs, self._tokenizers = pairs, (source_tokenizer, target_tokenizer)
        self._config, self._seed = config, seed
        self._ids = pairs.encode(self._tokenizers, processes=config.processes)
        log.info("%s", pairs.cache.summary())
        fits = [
            np.maximum(*map(lengths, batch.columns)) <= batching.max_length
            for batch in self._ids.batches()
        ]
        self.num_pairs = int(sum(map(np.sum, fits)))
        self.num_skipped = len(pairs) - self.num_pairs
        if not self.num_pairs:
            raise DataError(
                f"data.train: none of {len(pairs)} pairs is left to train on; "
                f"data.batching.max_length is {batching.max_length} pieces"
            )
        if self.num_skipped:
            log.warning(
                "%d of %d training pairs are skipped: over data.batching.max_length=%d pieces",
                self.num_skipped, len(pairs), batching.max_length,
            )  # fmt: skip
        # How often each pair is seen in an epoch, of all pairs; None: once.
        self._weights: npt.NDArray[np.float32] | None = None
        seen = self.num_pairs
        if any(corpus.weight != 1 for corpus in config.train):
            of_corpora = np.array([corpus.weight for corpus in config.train], np.float32)
            self._weights = of_corpora[pairs.corpora()]
            seen = max(1, round(float(self._weights[np.concatenate(fits)].sum(dtype=np.float64))))
        # Windows of equal size: a small last one would be cut into batches with much padding.
        self._num_windows = -(-seen // batching.window)
        # The pairs of a window are stretches of this many rows, at random places in the corpus.
        self._rows = 1 << (max(1, batching.window // _WINDOW_STRETCHES).bit_length() - 1)
        self._num_windows = min(self._num_windows, -(-len(pairs) // self._rows))
        self._order: tuple[int, Ints] = (-1, np.zeros(0, np.int64))  # of an epoch's stretches
        self.position = 0
        self._at, self._taken = StreamPosition(), 0  # the window, and the batches taken from it

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        return self._at.epoch

    def target_counts(self, vocab_size: int) -> Ints:
        """Return how often each piece is in the targets of the current window, EOS included."""
        labels = self._prepare(self._at).labels
        counts: Ints = np.bincount(labels.flat, minlength=vocab_size)
        counts[EOS] += len(labels.lengths)
        return counts

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches from the current position on, endlessly; a thread works ahead."""
        with ThreadPoolExecutor(1, thread_name_prefix="batches") as pool:
            ahead: Future[Window] = pool.submit(self._prepare, self._at)
            while True:
                window = ahead.result()
                ahead = pool.submit(self._prepare, window.following)
                for number in range(self._taken, len(window.batches)):
                    batch = window.batch(number)
                    self._taken, self.position = number + 1, self.position + 1
                    if self._taken == len(window.batches):
                        self._enter(ahead.result().position)
                    yield batch

    def sample(self, number: int) -> Batch:
        """Return this many different pairs of the current window, drawn at random.

        They have the proportions of the window: its batches have fewer pairs the longer they are.
        """
        window = self._prepare(self._at)
        rows = np.random.default_rng(self._seed).permutation(np.concatenate(window.batches))
        _, first = np.unique(window.indices[rows], return_index=True)
        rows = rows[np.sort(first)[:number]]
        indices = window.indices[rows].tolist()
        return collate(window.source, window.inputs, window.labels, rows, indices)

    def state_dict(self) -> dict[str, Any]:
        """Return the position, ready for JSON."""
        return {
            "epoch": self.epoch,
            "position": self.position,
            "window": self._at.window,
            "taken": self._taken,
            "pairs": self._pairs.fingerprint,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a saved position, in iterators made from now on.

        Raises CheckpointError where the pairs are others. The seed and the settings that shape
        batches must be the same, too (seq2seq.runs.directory.check_changes).
        """
        if state.get("pairs") != self._pairs.fingerprint:
            raise CheckpointError(
                "the batches cannot be resumed: the pairs of data.train are not those that the run "
                "began with; put the old data back, or start a new run"
            )
        self._at = StreamPosition(state["epoch"], state["window"])
        self.position, self._taken = state["position"], state["taken"]

    def _enter(self, position: StreamPosition) -> None:
        """Move to the next window that has batches."""
        if position.epoch > self._at.epoch:
            self.position = 0
        self._at, self._taken = position, 0

    def _prepare(self, position: StreamPosition) -> Window:
        """Return the first window from a position on that has batches, cut into them."""
        batching = self._config.batching
        while True:
            generator = np.random.default_rng((self._seed, position.epoch, position.window + 1))
            indices, source, labels, used = self._read(position, generator)
            rows = generator.permutation(used)  # pairs of the same length are mixed
            cuts = cut_batches(
                source.lengths[rows] + 1,
                labels.lengths[rows] + 1,
                unit=batching.unit,
                size=batching.size,
            )
            following = StreamPosition(position.epoch, position.window + 1)
            if following.window == self._num_windows:
                following = StreamPosition(position.epoch + 1)
            if cuts:
                break
            position = following
        batches = [rows[cut] for cut in cuts]
        generator.shuffle(batches)
        source, inputs = (self._drop(side, generator) for side in (source, labels))
        return Window(position, following, indices, source, inputs, labels, batches)

    def _read(
        self, position: StreamPosition, generator: np.random.Generator
    ) -> tuple[Ints, Ragged, Ragged, Ints]:
        """Return the pairs of a window: their places in the corpus, both sides, the rows to use.

        A row is used as often as its weight says; changed pairs are further rows. Only weights and
        augmentation draw from the generator.
        """
        if self._order[0] != position.epoch:
            order = np.random.default_rng((self._seed, position.epoch, 0))
            starts = np.arange(0, len(self._pairs), self._rows)
            self._order = position.epoch, order.permutation(starts)
        starts = np.array_split(self._order[1], self._num_windows)[position.window]
        indices = (starts[:, None] + np.arange(self._rows)).ravel()
        indices = indices[indices < len(self._pairs)]
        table = self._ids.stretches(starts.tolist(), self._rows)
        source, target = to_ragged(table.column(0)), to_ragged(table.column(1))
        longer = np.maximum(source.lengths, target.lengths)
        used = np.flatnonzero(longer <= self._config.batching.max_length)
        if self._weights is not None:
            times = self._weights[indices[used]]
            used = np.repeat(used, (times + generator.random(len(used))).astype(np.int64))
        if not len(used) or self._config.augmentation is None:
            return indices, source, target, used
        texts = self._pairs.read(starts.tolist(), self._rows)
        changed = augment(*texts, used.tolist(), self._config.augmentation, generator)
        source_tokenizer, target_tokenizer = self._tokenizers
        places, rows, sources, targets = [], [], [], []
        for place, pair in changed.items():
            ids = source_tokenizer.encode(pair.source), target_tokenizer.encode(pair.target)
            if max(map(len, ids)) <= self._config.batching.max_length:  # others stay as they are
                places.append(place)
                rows.append(pair.row)
                sources.append(ids[0])
                targets.append(ids[1])
        used[places] = len(indices) + np.arange(len(places))
        indices = np.concatenate([indices, indices[rows]])
        return indices, source.extended(sources), target.extended(targets), used

    def _drop(self, rows: Ragged, generator: np.random.Generator) -> Ragged:
        """Replace a share of the ids with UNK."""
        share = self._config.word_dropout
        if not share:
            return rows
        dropped = generator.random(len(rows.flat)) < share
        return Ragged(np.where(dropped, np.int32(UNK), rows.flat), rows.offsets)
