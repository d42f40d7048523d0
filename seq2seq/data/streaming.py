"""Corpora that are read, cleaned and encoded while they are trained on, a window at a time."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from seq2seq.config import CorpusConfig, DataConfig
from seq2seq.data.cleaning import CleaningReport, HeldOut, clean
from seq2seq.data.corpus import Pair, columns_of, read_corpus, read_rows, stream_dataset
from seq2seq.data.stream import Segmenter, StreamPosition, Tokenizers, Window
from seq2seq.errors import DataError, UserError

log = logging.getLogger(__name__)

_END = "end"


class StreamedPairs:
    """Corpora to stream, and the sentences to hold out of them.

    The fingerprint identifies the corpora as far as possible without reading them.
    """

    def __init__(
        self, corpora: Sequence[CorpusConfig], held_out: HeldOut, fingerprint: str
    ) -> None:
        self.corpora, self.held_out, self.fingerprint = corpora, held_out, fingerprint

    def open(self, states: Sequence[Any] | None = None) -> list[CorpusReader]:
        """Return readers of the corpora, from saved positions or from the beginning."""
        states = states or [None] * len(self.corpora)
        return list(map(CorpusReader, self.corpora, states))

    def head(self, number: int) -> Iterator[Pair]:
        """Yield this many pairs or a few more, an equal share of each corpus."""
        for reader in self.open():
            yield from reader.take(-(-number // len(self.corpora)))

    def windows(self, tokenizers: Tokenizers, config: DataConfig, *, seed: int) -> StreamedWindows:
        """Return the pairs as windows; their order does not depend on the seed."""
        return StreamedWindows(self, tokenizers, config)


class CorpusReader:
    """The pairs of one corpus from a position on.

    The position in a file is the number of pairs before it: to resume, the file is read again up to
    there. In a Hugging Face dataset it is the state of the library's IterableDataset.
    """

    def __init__(self, corpus: CorpusConfig, state: Any = None) -> None:
        """Start at the state of another reader, or else at the first pair."""
        self.ended = state == _END
        self._corpus = corpus
        self._rows: Any = None
        if corpus.format == "huggingface":
            self._rows = stream_dataset(
                str(corpus.name), corpus.subset, split=str(corpus.split), columns=columns_of(corpus)
            )
            if state is not None and not self.ended:
                self._rows.load_state_dict(state)
            self._pairs = read_rows(self._rows, corpus)
        else:
            self._read = 0 if state is None or self.ended else int(state)
            self._pairs = itertools.islice(read_corpus(corpus), self._read, None)

    def take(self, number: int) -> list[Pair]:
        """Return the next pairs; fewer when the corpus ends."""
        if self.ended:
            return []
        try:
            pairs = list(itertools.islice(self._pairs, number))
        except UserError:
            raise
        except Exception as error:  # the library raises whatever builders and networks raise
            if self._rows is None:
                raise
            reason = " ".join(str(error).split()) or type(error).__name__
            raise DataError(
                f"{self._corpus.name} {self._corpus.split}: reading the dataset failed: {reason}; "
                "fix that, and continue with --resume"
            ) from None
        self.ended = len(pairs) < number
        if self._rows is None:
            self._read += len(pairs)
        return pairs

    def state(self) -> Any:
        """Return the position, ready for JSON."""
        if self.ended:
            return _END
        return self._read if self._rows is None else self._rows.state_dict()


class StreamedWindows:
    """Windows in the order of the corpora, an equal share of each that has not ended.

    Duplicates are found within a window only.
    """

    def __init__(self, pairs: StreamedPairs, tokenizers: Tokenizers, config: DataConfig) -> None:
        self.fingerprint = pairs.fingerprint
        self._pairs, self._config = pairs, config
        self._segmenter = Segmenter(tokenizers, config)
        self._readers: list[CorpusReader] = []
        self._next: StreamPosition | None = None  # where the readers are
        self._first = StreamPosition()  # where the counts of the report begin
        self._logged = False
        self._report = CleaningReport()
        self.num_pairs = self.num_skipped = 0

    def read(self, position: StreamPosition, generator: np.random.Generator) -> Window:
        """Return the window at a position; only subword sampling draws from the generator."""
        state = position.reader or {"kept": 0, "corpora": None}
        if position != self._next or not position.window:
            self._readers = self._pairs.open(state["corpora"])
            self._first, self._report = position, CleaningReport()
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
        self._next = self._following(position, state["kept"] + len(kept))
        return Window(indices, source, target, fitting, self._next)

    def _take(self) -> list[Pair]:
        """Return the next pairs, cleaned."""
        alive = [reader for reader in self._readers if not reader.ended]
        share = -(-self._config.batching.window // max(1, len(alive)))
        raw = itertools.chain.from_iterable(reader.take(share) for reader in alive)
        return clean(raw, self._config.cleaning, self._pairs.held_out, report=self._report)

    def _following(self, position: StreamPosition, kept: int) -> StreamPosition:
        """Return the next position; log the cleaning report of the first window and each epoch.

        Raises DataError when a whole epoch has no pair to train on.
        """
        ended = all(reader.ended for reader in self._readers)
        if ended and not self._first.window and not self.num_pairs:
            raise DataError(
                f"data.train: none of {self._report.read} pairs is left; loosen data.cleaning and "
                "data.batching.max_length, or check the data"
            )
        if ended or not self._logged:
            self._logged = True
            log.info(
                "training data, epoch %d, windows %d to %d:",
                position.epoch, self._first.window, position.window,
            )  # fmt: skip
            for line in self._report.lines():
                log.info("    %s", line)
            if self.num_skipped:
                log.warning(
                    "%d pairs are over data.batching.max_length=%d and skipped",
                    self.num_skipped, self._config.batching.max_length,
                )  # fmt: skip
        if ended:
            return StreamPosition(position.epoch + 1)
        state = {"kept": kept, "corpora": [reader.state() for reader in self._readers]}
        return StreamPosition(position.epoch, position.window + 1, state)
