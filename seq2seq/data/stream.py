"""Batches of a corpus for training, resumable at any batch.

In an epoch every pair is used once, or as often as the weight of its corpus says. The corpus is
read in windows; a window is shuffled and cut into batches.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from seq2seq.config import DataConfig
from seq2seq.data.batching import Batch, collate
from seq2seq.data.dataset import PreparedPairs
from seq2seq.data.ragged import Ints
from seq2seq.data.tokenizer import EOS, Tokenizer
from seq2seq.data.windows import StreamPosition, Window, Windows
from seq2seq.errors import CheckpointError, DataError
from seq2seq.processes import ordered_map

log = logging.getLogger(__name__)


class BatchStream:
    """Batches of a corpus, epoch after epoch.

    Everything random is drawn from the seed, the epoch and the window. So a stream that resumes
    from a saved position yields exactly the batches that would have followed, in any process.

    `epoch` counts from 0, `position` is the number of batches taken in it; after the last batch of
    an epoch they are the next epoch and 0. `num_pairs` is the number of pairs with at most
    `data.batching.max_length` pieces on each side, `num_skipped` the number of longer ones.
    """

    def __init__(
        self,
        pairs: PreparedPairs,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        config: DataConfig,
        *,
        seed: int,
        processes: int = 1,
    ) -> None:
        """Encode the pairs, or find them in the cache; raises DataError if none of them fits.

        With several `processes`, workers prepare the batches in advance; else this process does.
        """
        self._fingerprint, self._seed, self._processes = pairs.fingerprint, seed, processes
        tokenizers, longest = (source_tokenizer, target_tokenizer), config.batching.max_length
        self._windows = Windows(pairs, tokenizers, config, seed=seed)
        log.info("%s", pairs.cache.summary())
        self.num_pairs = self._windows.num_fitting
        self.num_skipped = len(pairs) - self.num_pairs
        if not self.num_pairs:
            raise DataError(
                f"data.train: none of {len(pairs)} pairs is left to train on; "
                f"data.batching.max_length is {longest} pieces"
            )
        if self.num_skipped:
            log.warning(
                "%d of %d training pairs are skipped: over data.batching.max_length=%d pieces",
                self.num_skipped, len(pairs), longest,
            )  # fmt: skip
        self.position = 0
        self._at, self._taken = StreamPosition(), 0  # the window, and the batches taken from it
        self._kept: tuple[StreamPosition, Window, Iterator[StreamPosition]] | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        return self._at.epoch

    def target_counts(self, vocab_size: int) -> Ints:
        """Return how often each piece is in the targets of the current window, EOS included."""
        labels = self._current()[0].labels
        counts: Ints = np.bincount(labels.flat, minlength=vocab_size)
        counts[EOS] += len(labels.lengths)
        return counts

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches from the current position on, endlessly."""
        window, positions = self._current()
        self._kept = None
        windows = ordered_map(
            self._windows.prepare,
            positions,
            processes=self._processes,
            option="data.processes",
            spawn=True,
        )
        with contextlib.closing(windows):
            while True:
                batch = _collate(window, window.batches[self._taken])
                self._taken, self.position = self._taken + 1, self.position + 1
                if self._taken == len(window.batches):
                    window = next(each for each in windows if each.batches)
                    self._enter(window.position)
                yield batch

    def sample(self, number: int) -> Batch:
        """Return this many different pairs of the current window, drawn at random.

        They are drawn from all its pairs alike: long pairs come in batches of few pairs.
        """
        window, _ = self._current()
        rows = np.random.default_rng(self._seed).permutation(np.concatenate(window.batches))
        _, first = np.unique(window.indices[rows], return_index=True)
        return _collate(window, rows[np.sort(first)[:number]])

    def state_dict(self) -> dict[str, Any]:
        """Return the position, ready for JSON."""
        return {
            "epoch": self.epoch,
            "position": self.position,
            "window": self._at.window,
            "taken": self._taken,
            "pairs": self._fingerprint,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a saved position, in iterators made from now on.

        Raises CheckpointError if the pairs are not the same. Neither may the seed and the settings
        that shape batches have changed (seq2seq.runs.directory.check_changes).
        """
        if state.get("pairs") != self._fingerprint:
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

    def _current(self) -> tuple[Window, Iterator[StreamPosition]]:
        """Return the window of the next batch, and the positions after it; keep both."""
        if self._kept is None or self._kept[0] != self._at:
            positions = self._windows.positions(self._at)
            windows = map(self._windows.prepare, positions)
            self._kept = self._at, next(each for each in windows if each.batches), positions
        return self._kept[1:]


def _collate(window: Window, rows: Ints) -> Batch:
    indices = window.indices[rows].tolist()
    return collate(window.source, window.inputs, window.labels, rows, indices)
