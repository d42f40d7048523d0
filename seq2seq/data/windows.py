"""Windows of an encoded corpus: read in blocks at random places, augmented, and cut into batches.

Everything random in a window is drawn from the seed, the epoch and the window's number, so any
process can prepare it. Worker processes do not need PyTorch, so this module does not import it.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from seq2seq.config import DataConfig
from seq2seq.data.augmentation import applies, augment
from seq2seq.data.dataset import PreparedPairs, encode
from seq2seq.data.ragged import Ints, Ragged, concat, cut_batches, take
from seq2seq.data.tokenizer import UNK, Tokenizer
from seq2seq.languages import UNDETERMINED, language

log = logging.getLogger(__name__)

_ROWS = 1 << 13  # read at once to find out how long they are
_WINDOW_BLOCKS = 64  # at least; with fewer, a window has the same pairs together in every epoch


@dataclass(frozen=True)
class StreamPosition:
    """The position of a window; windows are counted from 0 in each epoch."""

    epoch: int = 0
    window: int = 0


@dataclass(frozen=True)
class Window:
    """A window of encoded pairs, cut into batches; there may be none."""

    position: StreamPosition
    indices: Ints  # positions of the pairs in the corpus
    source: Ragged
    inputs: Ragged
    labels: Ragged
    batches: list[Ints]


class Windows:
    """Prepares the windows of a corpus.

    `num_fitting` is the number of pairs with at most `data.batching.max_length` pieces a side.
    """

    def __init__(
        self,
        pairs: PreparedPairs,
        tokenizers: tuple[Tokenizer, Tokenizer],
        config: DataConfig,
        *,
        seed: int,
    ) -> None:
        """Encode the pairs, or find them in the cache; divide an epoch into windows."""
        self._texts, self._tokenizers = pairs.store, tokenizers
        self._config, self._seed = config, seed
        self._languages = language(config.source_language), language(config.target_language)
        for code in dict.fromkeys(each.code for each in self._languages if not each.base):
            if code != UNDETERMINED:
                log.info(
                    "language '%s': nothing is known of it; assuming only that spaces separate its "
                    "words (docs/languages.md)", code,
                )  # fmt: skip
        rates = config.augmentation.model_dump() if config.augmentation else {}
        unfit = [kind for kind in rates if rates[kind] and not applies(kind, *self._languages)]
        if unfit:
            names = " to ".join(each.name for each in self._languages)
            log.info("data.augmentation: left out, %s: %s", names, ", ".join(unfit))
        self._ids = pairs.encode(tokenizers, processes=config.processes)
        parts = (self._ids.read([n], _ROWS) for n in range(0, len(pairs), _ROWS))
        fit = np.concatenate([self._fit(*part) for part in parts])
        seen = self.num_fitting = int(fit.sum())
        # How often an epoch has each pair; None: once.
        self._weights: npt.NDArray[np.float32] | None = None
        if any(corpus.weight != 1 for corpus in config.train):
            of_corpora = np.array([corpus.weight for corpus in config.train], np.float32)
            self._weights = of_corpora[pairs.corpora]
            seen = max(1, round(float(self._weights[fit].sum(dtype=np.float64))))
        size = config.batching.window
        self._rows = 1 << (max(1, size // _WINDOW_BLOCKS).bit_length() - 1)  # of a block
        # Windows of equal size: a small last one would be cut into batches with much padding.
        self._number = min(-(-seen // size), -(-len(pairs) // self._rows))
        self._order: tuple[int, Ints] = (-1, np.zeros(0, np.int64))  # of an epoch's blocks

    def positions(self, first: StreamPosition) -> Iterator[StreamPosition]:
        """Yield the positions of the windows from one on, epoch after epoch."""
        start = first.window
        for epoch in itertools.count(first.epoch):
            for window in range(start, self._number):
                yield StreamPosition(epoch, window)
            start = 0

    def prepare(self, position: StreamPosition) -> Window:
        """Return a window, cut into batches."""
        batching = self._config.batching
        generator = np.random.default_rng((self._seed, position.epoch, position.window + 1))
        indices, source, labels, used = self._read(position, generator)
        rows = generator.permutation(used)  # mixes pairs of the same length
        cuts = cut_batches(
            source.lengths[rows] + 1,
            labels.lengths[rows] + 1,
            unit=batching.unit,
            size=batching.size,
        )
        batches = [rows[cut] for cut in cuts]
        generator.shuffle(batches)
        source, inputs = (self._drop(side, generator) for side in (source, labels))
        return Window(position, indices, source, inputs, labels, batches)

    def _read(
        self, position: StreamPosition, generator: np.random.Generator
    ) -> tuple[Ints, Ragged, Ragged, Ints]:
        """Return the pairs of a window: their indices in the corpus, both sides, the rows to use.

        A row is used as often as its weight says; augmented pairs are further rows. Only weights
        and augmentation draw from the generator.
        """
        if self._order[0] != position.epoch:
            order = np.random.default_rng((self._seed, position.epoch, 0))
            starts = np.arange(0, len(self._ids), self._rows)
            self._order = position.epoch, order.permutation(starts)
        starts = np.array_split(self._order[1], self._number)[position.window]
        indices = (starts[:, None] + np.arange(self._rows)).ravel()
        indices = indices[indices < len(self._ids)]
        source, target = self._ids.read(starts.tolist(), self._rows)
        used = np.flatnonzero(self._fit(source, target))
        if self._weights is not None:
            times = self._weights[indices[used]]
            used = np.repeat(used, (times + generator.random(len(used))).astype(np.int64))
        if not len(used) or self._config.augmentation is None:
            return indices, source, target, used
        sources, targets = (side.texts() for side in self._texts.read(starts.tolist(), self._rows))
        found = augment(
            sources, targets, used.tolist(), self._config.augmentation, generator,
            self._languages, self._tokenizers[0].letters,
        )  # fmt: skip
        sides = [pair.source for pair in found.values()], [pair.target for pair in found.values()]
        changed = encode(self._tokenizers, *sides)
        fit = np.flatnonzero(self._fit(*changed))  # the others stay unchanged
        used[np.fromiter(found, np.int64)[fit]] = len(indices) + np.arange(len(fit))
        rows = np.fromiter((pair.row for pair in found.values()), np.int64)[fit]
        source, target = concat([(source, target), take(changed, fit)])
        return np.concatenate([indices, indices[rows]]), source, target, used

    def _fit(self, source: Ragged, target: Ragged) -> npt.NDArray[np.bool_]:
        longest: int = self._config.batching.max_length
        return np.maximum(source.lengths, target.lengths) <= longest

    def _drop(self, rows: Ragged, generator: np.random.Generator) -> Ragged:
        """Replace a share of the ids with UNK."""
        share = self._config.word_dropout
        if not share:
            return rows
        dropped = generator.random(len(rows.flat)) < share
        return Ragged(np.where(dropped, np.int32(UNK), rows.flat), rows.offsets)
