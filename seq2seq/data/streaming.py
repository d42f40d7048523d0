"""Windows of a corpus that is read, cleaned and encoded on the way, with no pass over it before."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from seq2seq.config import CleaningConfig, CorpusConfig, DataConfig
from seq2seq.data.cleaning import Cleaner, CleaningReport, HeldOut, judge
from seq2seq.data.corpus import Pair, columns_of, read_corpus, read_rows, stream_dataset
from seq2seq.data.store import Tokenizers
from seq2seq.data.windows import Place, Segmenter, Window
from seq2seq.errors import DataError, UserError

log = logging.getLogger(__name__)

_END = "end"


class StreamedPairs:
    """Corpora that are read as they are trained on, and the sentences to hold out of them."""

    def __init__(
        self, corpora: Sequence[CorpusConfig], held_out: HeldOut, fingerprint: str
    ) -> None:
        self.corpora, self.held_out = corpora, held_out
        self._fingerprint = fingerprint

    def fingerprint(self) -> str:
        """Return what tells the corpora from others, as far as is seen without reading them."""
        return self._fingerprint

    def open(self, states: Sequence[Any] | None = None) -> list[Reader]:
        """Return readers of the corpora, where they were, or from the beginning."""
        return [
            _DatasetReader(corpus, state)
            if corpus.format == "huggingface"
            else Reader(corpus, state)
            for corpus, state in zip(
                self.corpora, states or [None] * len(self.corpora), strict=True
            )
        ]

    def head(self, number: int) -> Iterator[Pair]:
        """Yield this many pairs or a few more, an equal share of each corpus."""
        for reader in self.open():
            yield from reader.take(-(-number // len(self.corpora)))


class Reader:
    """The pairs of a corpus from some place on; the place is the number of pairs before it."""

    def __init__(self, corpus: CorpusConfig, state: Any) -> None:
        """Begin at the state of another reader, or else at the first pair."""
        self.ended = state == _END
        self._read = 0
        self._pairs = self._open(corpus, None if self.ended else state)

    def take(self, number: int) -> list[Pair]:
        """Return the next pairs; fewer when the corpus ends."""
        if self.ended:
            return []
        pairs = list(itertools.islice(self._pairs, number))
        self.ended = len(pairs) < number
        self._read += len(pairs)
        return pairs

    def state(self) -> Any:
        """Return the place, ready for JSON."""
        return _END if self.ended else self._position()

    def _open(self, corpus: CorpusConfig, state: Any) -> Iterator[Pair]:
        self._read = state or 0
        return itertools.islice(read_corpus(corpus), self._read, None)

    def _position(self) -> Any:
        return self._read


class _DatasetReader(Reader):
    """The pairs of a Hugging Face dataset; the place is what the library makes of it."""

    def take(self, number: int) -> list[Pair]:
        """Return the next pairs; fewer when the dataset ends."""
        try:
            return super().take(number)
        except UserError:
            raise
        except Exception as error:  # whatever builders, filesystems and networks raise
            reason = " ".join(str(error).split()) or type(error).__name__
            raise DataError(
                f"{self._name}: the dataset cannot be read on: {reason}; mend that, and go on with "
                "--resume"
            ) from None

    def _open(self, corpus: CorpusConfig, state: Any) -> Iterator[Pair]:
        self._name = f"{corpus.name} {corpus.split}"
        self._rows = stream_dataset(
            str(corpus.name), corpus.subset, split=str(corpus.split), columns=columns_of(corpus)
        )
        if state is not None:
            self._rows.load_state_dict(state)
        return read_rows(self._rows, corpus)

    def _position(self) -> Any:
        return self._rows.state_dict()


class StreamedWindows:
    """Windows in the order of the corpora, an equal share of each that is not at its end.

    Duplicates are found within a window only.
    """

    def __init__(self, pairs: StreamedPairs, tokenizers: Tokenizers, config: DataConfig) -> None:
        self._pairs, self._size = pairs, config.batching.window
        self._cleaning: CleaningConfig = config.cleaning
        self._segmenter = Segmenter(tokenizers, config)
        self._most = config.batching.max_length
        self._readers: list[Reader] = []
        self._next: Place | None = None  # where the readers are
        self._first = Place()  # since when there are counts
        self._told = False
        self._report = CleaningReport()
        self.num_pairs = self.num_skipped = 0

    def fingerprint(self) -> str:
        """Return what tells the corpora from others, as far as is seen without reading them."""
        return self._pairs.fingerprint()

    def read(self, place: Place, generator: np.random.Generator) -> Window:
        """Return the window at a place; only subword sampling draws from the generator."""
        state = place.reader or {"kept": 0, "corpora": None}
        if place != self._next or not place.window:
            self._readers = self._pairs.open(state["corpora"])
            self._first, self._report = place, CleaningReport()
            self.num_pairs = self.num_skipped = 0
        kept = self._take()
        texts = [pair.source for pair in kept], [pair.target for pair in kept]
        source, target = self._segmenter.encode(texts)
        fitting = self._segmenter.fitting(source, target)
        self.num_pairs += len(fitting)
        self.num_skipped += len(kept) - len(fitting)
        indices = state["kept"] + np.arange(len(kept))
        if self._segmenter.samples:
            source, target = self._segmenter.sample(texts, fitting, generator)
            indices, fitting = indices[fitting], np.arange(len(fitting))
        self._next = self._following(place, state["kept"] + len(kept))
        return Window(indices, source, target, fitting, self._next)

    def _take(self) -> list[Pair]:
        """Return the next pairs, cleaned."""
        alive = [reader for reader in self._readers if not reader.ended]
        share = -(-self._size // max(1, len(alive)))
        raw = itertools.chain.from_iterable(reader.take(share) for reader in alive)
        held_out = self._pairs.held_out
        judged = judge(raw, self._cleaning, held_out)
        kept = Cleaner(self._cleaning, held_out, self._report).keep(judged)
        return list(itertools.compress(judged.pairs, kept))

    def _following(self, place: Place, kept: int) -> Place:
        """Return the next place; tell what was dropped, of the first window and of each epoch.

        Raises DataError when an epoch has no pair at all to train on.
        """
        ended = all(reader.ended for reader in self._readers)
        if ended and not self._first.window and not self.num_pairs:
            raise DataError(
                f"data.train: none of {self._report.read} pairs is left; loosen data.cleaning and "
                "data.batching.max_length, or look at the data"
            )
        if ended or not self._told:
            self._told = True
            log.info(
                "training data, epoch %d, windows %d to %d:",
                place.epoch, self._first.window, place.window,
            )  # fmt: skip
            for line in self._report.lines():
                log.info("    %s", line)
            if self.num_skipped:
                log.warning(
                    "%d pairs are over data.batching.max_length=%d and skipped",
                    self.num_skipped, self._most,
                )  # fmt: skip
        if ended:
            return Place(place.epoch + 1)
        state = {"kept": kept, "corpora": [reader.state() for reader in self._readers]}
        return Place(place.epoch, place.window + 1, state)
