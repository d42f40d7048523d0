"""Batches of similar length from a corpus: every pair once an epoch, resumable at any batch.

Shapes: B batch, S source length with EOS, T target length with EOS.
"""

from __future__ import annotations

import itertools
import logging
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from seq2seq.config import DataConfig
from seq2seq.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from seq2seq.errors import CheckpointError, DataError

log = logging.getLogger(__name__)

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Padded pairs; a batch without targets has T = 0.

    `inputs_BT` is BOS y_1 ... y_n, `labels_BT` is y_1 ... y_n EOS; the source ends with EOS. All
    are padded with PAD on the right, and the lengths count what is not padding. Inputs can hold
    UNK where word dropout struck; labels never do for it.
    """

    source_BS: Tensor
    source_lengths_B: Tensor
    inputs_BT: Tensor
    labels_BT: Tensor
    target_lengths_B: Tensor
    indices: tuple[int, ...]  # positions of the pairs in the corpus
    num_source_tokens: int  # without padding, with EOS
    num_target_tokens: int

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def source_mask_BS(self) -> Tensor:
        """True where the source is not padding."""
        return _mask(self.source_lengths_B, self.source_BS.shape[1])

    @property
    def label_mask_BT(self) -> Tensor:
        """True where the label is not padding."""
        return _mask(self.target_lengths_B, self.labels_BT.shape[1])

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on a device."""
        return Batch(
            self.source_BS.to(device, non_blocking=True),
            self.source_lengths_B.to(device, non_blocking=True),
            self.inputs_BT.to(device, non_blocking=True),
            self.labels_BT.to(device, non_blocking=True),
            self.target_lengths_B.to(device, non_blocking=True),
            self.indices,
            self.num_source_tokens,
            self.num_target_tokens,
        )


def _mask(lengths_B: Tensor, size: int) -> Tensor:
    return torch.arange(size, device=lengths_B.device) < lengths_B.unsqueeze(1)


@dataclass(frozen=True)
class _Ragged:
    """Rows of ids of different lengths, one after the other."""

    flat: npt.NDArray[np.int32]
    offsets: Ints  # row i is flat[offsets[i] : offsets[i + 1]]

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]]) -> _Ragged:
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        flat = np.fromiter(itertools.chain.from_iterable(rows), np.int32, count=offsets[-1])
        return cls(flat, offsets)

    @cached_property
    def lengths(self) -> Ints:
        return np.diff(self.offsets)

    def padded(
        self, rows: Ints, *, first: tuple[int, ...] = (), last: tuple[int, ...] = ()
    ) -> Ints:
        """Return the rows as a matrix, each with `first` before and `last` behind it."""
        lengths = self.lengths[rows]
        width, start = int(lengths.max()), len(first)
        matrix = np.full((len(rows), start + width + len(last)), PAD, dtype=np.int64)
        matrix[:, :start] = first
        columns = np.arange(width)
        real = columns < lengths[:, None]
        matrix[:, start : start + width][real] = self.flat[
            (self.offsets[rows, None] + columns)[real]
        ]
        for place, value in enumerate(last, start):
            matrix[np.arange(len(rows)), lengths + place] = value
        return matrix


def make_batch(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]] | None,
    indices: Sequence[int],
) -> Batch:
    """Return the batch of some pairs, given as ids without BOS and EOS."""
    source = _Ragged.from_lists(sources)
    target = None if targets is None else _Ragged.from_lists(targets)
    return _collate(source, target, target, np.arange(len(indices)), indices)


def _collate(
    source: _Ragged,
    inputs: _Ragged | None,
    labels: _Ragged | None,
    rows: Ints,
    indices: Sequence[int],
) -> Batch:
    source_lengths = source.lengths[rows] + 1
    nothing = np.zeros((len(rows), 0), dtype=np.int64)
    target_lengths = np.zeros(len(rows), np.int64) if labels is None else labels.lengths[rows] + 1
    return Batch(
        torch.from_numpy(source.padded(rows, last=(EOS,))),
        torch.from_numpy(source_lengths),
        torch.from_numpy(nothing if inputs is None else inputs.padded(rows, first=(BOS,))),
        torch.from_numpy(nothing if labels is None else labels.padded(rows, last=(EOS,))),
        torch.from_numpy(target_lengths),
        tuple(int(index) for index in indices),
        int(source_lengths.sum()),
        int(target_lengths.sum()),
    )


def evaluation_batches(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]] | None,
    batch_tokens: int,
) -> list[Batch]:
    """Return batches of similar length that hold every pair once, without anything random.

    `batch_tokens` is the budget of padded tokens of the longer side; `Batch.indices` lead back to
    the order of the sources. Without targets the batches have T = 0.
    """
    source = _Ragged.from_lists(sources)
    target = None if targets is None else _Ragged.from_lists(targets)
    target_lengths = source.lengths if target is None else target.lengths
    batches = cut_batches(source.lengths + 1, target_lengths + 1, unit="tokens", size=batch_tokens)
    return [_collate(source, target, target, rows, rows.tolist()) for rows in batches]


def cut_batches(source_lengths: Ints, target_lengths: Ints, *, unit: str, size: int) -> list[Ints]:
    """Cut pairs into batches of similar length on both sides; ties stay in their order.

    `size` is the largest number of padded tokens of the longer side, or of sentences. A pair that
    is longer than the budget forms a batch of its own.
    """
    longer = np.maximum(source_lengths, target_lengths)
    _, step = np.unique(longer, return_inverse=True)
    # By the longer side, which fills the budget, then by the difference of the sides: upwards and
    # downwards in turn, so that where the length steps, the difference does not jump.
    turn = 1 - 2 * (step & 1)
    order = np.lexsort(((source_lengths - target_lengths) * turn, step))
    cuts, start = [], 0
    for end, length in enumerate(longer[order].tolist()):  # ascending: the last one is the longest
        count = end - start + 1
        if count > 1 and (length * count if unit == "tokens" else count) > size:
            cuts.append(end)
            start = end
    return np.split(order, cuts) if len(order) else []


class TextPair(Protocol):
    """Anything with a source and a target."""

    @property
    def source(self) -> str: ...
    @property
    def target(self) -> str: ...


class _TextColumn:
    """Texts as one UTF-8 buffer, which costs 8 bytes a text beside its own."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.offsets = array("q", [0])

    def append(self, text: str) -> None:
        self.data += text.encode()
        self.offsets.append(len(self.data))

    def take(self, indices: Sequence[int]) -> list[str]:
        data, offsets = memoryview(self.data), self.offsets
        return [str(data[offsets[i] : offsets[i + 1]], "utf-8") for i in indices]


class PairStore:
    """The text pairs of a corpus, kept in memory without a Python object for each."""

    def __init__(self, pairs: Iterable[TextPair]) -> None:
        self._columns = (_TextColumn(), _TextColumn())
        source, target = self._columns
        for pair in pairs:
            source.append(pair.source)
            target.append(pair.target)

    def __len__(self) -> int:
        return len(self._columns[0].offsets) - 1

    def __getitem__(self, index: int) -> tuple[str, str]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        (source,), (target,) = self.texts([index])
        return source, target

    def texts(self, indices: Sequence[int]) -> tuple[list[str], list[str]]:
        """Return the sources and the targets of some pairs."""
        source, target = self._columns
        return source.take(indices), target.take(indices)

    def num_bytes(self) -> Ints:
        """Return the length in UTF-8 bytes of the longer side of each pair."""
        lengths = [np.diff(np.array(column.offsets, np.int64)) for column in self._columns]
        return np.maximum(*lengths)

    def fingerprint(self) -> str:
        """Return what tells this corpus, in this order, from another."""
        checksum = 0
        for column in self._columns:
            checksum = zlib.crc32(column.offsets, zlib.crc32(column.data, checksum))
        return f"{checksum:08x}"


@dataclass(frozen=True)
class _Window:
    """Encoded pairs and the batches they are cut into."""

    indices: Ints
    source: _Ragged
    inputs: _Ragged
    labels: _Ragged
    batches: list[Ints]

    def batch(self, number: int) -> Batch:
        rows = self.batches[number]
        return _collate(self.source, self.inputs, self.labels, rows, self.indices[rows].tolist())


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
            _Ragged.from_lists(self._encode(tokenizer, texts, generator))
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

    def _drop(self, rows: _Ragged, generator: np.random.Generator) -> _Ragged:
        """Replace a share of the ids by UNK."""
        share = self._config.word_dropout
        if not share:
            return rows
        dropped = generator.random(len(rows.flat)) < share
        return _Ragged(np.where(dropped, np.int32(UNK), rows.flat), rows.offsets)
