"""From the corpora of a recipe to clean pairs, tokenizers and ids, kept in a cache.

The Hugging Face library `datasets` writes the Arrow files, maps over their rows and shuffles them;
pyarrow alone reads them, so that a start from the cache need not import the library. The files are
mapped into memory: processes share their pages, and the system reclaims them when memory is short.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import mmap
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sentencepiece
from tqdm import tqdm

from seq2seq.config import CleaningConfig, Config, DataConfig
from seq2seq.data.batching import Ints, Ragged
from seq2seq.data.cache import Cache, Entry, code_of, digest, open_cache
from seq2seq.data.cleaning import (
    Assessed,
    CleaningReport,
    HeldOut,
    assess_pairs,
    filter_pairs,
    normalize_pair,
)
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.data.sources import describe, quick_hash, refuse_same_files
from seq2seq.data.stream import Segmenter, StreamPosition, Tokenizers, Window
from seq2seq.data.streaming import StreamedPairs
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.errors import DataError
from seq2seq.parallel import cores, ordered_map

log = logging.getLogger(__name__)

_SIDES = ["source", "target"]
_SHUFFLE_SEED = 1
_SHARD_ROWS = 1 << 18  # of a file, and in memory at once
_BATCH_ROWS = 1000  # that are mapped together, as in the library
_PAIRS_SCHEMA = pa.schema([(side, pa.large_string()) for side in _SIDES])
_ROWS_PER_PROCESS = 10_000  # at least, for a process to be worth starting
_WINDOW_STRETCHES = 64  # at least: with fewer, the same pairs meet again in every epoch
_MODEL = "tokenizer.model"
_NOT_OF_ONE_TOKENIZER = {"joint", "source_vocab_size", "target_vocab_size", "sampling_alpha"}
_PAIRS_CODE = tuple(f"seq2seq.data.{name}" for name in ("cleaning", "corpus", "dataset"))
_TOKENIZER_CODE = ("seq2seq.data.cleaning", "seq2seq.data.tokenizer")
_IDS_CODE = ("seq2seq.data.cleaning", "seq2seq.data.dataset", "seq2seq.data.tokenizer")


class PreparedPairs:
    """The clean pairs of a corpus, in a random order that depends on the pairs alone.

    As the order is random, any stretch of rows is a fair sample of the corpus: epochs shuffle
    stretches, and tokenizers are trained on the first rows.
    """

    def __init__(self, entry: Entry, cache: Cache) -> None:
        """Map the files of a cache entry; they can be deleted while the object lives."""
        self.cache = cache
        self.fingerprint: str = entry.about["fingerprint"]  # of the pairs and their order
        self._rows = _MappedRows(entry.path)

    def __len__(self) -> int:
        return len(self._rows)

    def texts(self) -> Iterator[tuple[list[str], list[str]]]:
        """Yield the sources and the targets of all pairs, some at a time."""
        for batch in self._rows.batches():
            yield batch.column(0).to_pylist(), batch.column(1).to_pylist()

    def read(self, starts: Sequence[int], rows: int) -> tuple[list[str], list[str]]:
        """Return the sources and targets of the stretches of `rows` rows that begin at `starts`."""
        table = self._rows.stretches(starts, rows)
        return table.column(0).to_pylist(), table.column(1).to_pylist()

    def encode(self, tokenizers: Tokenizers, *, processes: int | None) -> _MappedRows:
        """Return the pairs as ids, row by row; they are encoded once and then cached."""
        made_of = {
            "pairs": self.fingerprint,
            "tokenizers": [each.fingerprint() for each in tokenizers],
            "code": code_of(*_IDS_CODE),
            "sentencepiece": sentencepiece.__version__,
        }

        def make(folder: Path) -> dict[str, Any]:
            datasets = _library()
            small = max(each.vocab_size for each in tokenizers) <= 1 << 16
            ids = datasets.List(datasets.Value("uint16" if small else "int32"))
            features = datasets.Features(dict.fromkeys(_SIDES, ids))
            _map(self._rows, _encode, {"tokenizers": tokenizers}, features, folder, processes)
            return {}

        return _MappedRows(self.cache.entry("ids", made_of, make).path)

    def windows(self, tokenizers: Tokenizers, config: DataConfig, *, seed: int) -> PreparedWindows:
        """Return the pairs, encoded, as windows; raises DataError if none of them fits."""
        return PreparedWindows(self, tokenizers, config, seed=seed)


Pairs = PreparedPairs | StreamedPairs


class PreparedWindows:
    """Windows of random stretches of a corpus; each pair is in one of them every epoch."""

    def __init__(
        self, pairs: PreparedPairs, tokenizers: Tokenizers, config: DataConfig, *, seed: int
    ) -> None:
        """Encode the pairs, or find them in the cache; raises DataError if none of them fits."""
        batching = config.batching
        self.fingerprint = pairs.fingerprint
        self._pairs, self._seed = pairs, seed
        self._ids = pairs.encode(tokenizers, processes=config.processes)
        log.info("%s", pairs.cache.summary())
        self._segmenter = Segmenter(tokenizers, config)
        self.num_pairs = sum(
            int((np.maximum(*map(_lengths, batch.columns)) <= batching.max_length).sum())
            for batch in self._ids.batches()
        )
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
        # Windows of equal size: a small last one would be cut into batches with much padding.
        self._number = -(-self.num_pairs // batching.window)
        self._rows = 1 << (max(1, batching.window // _WINDOW_STRETCHES).bit_length() - 1)
        self._order: tuple[int, Ints] = (-1, np.zeros(0, np.int64))

    def read(self, position: StreamPosition, generator: np.random.Generator) -> Window:
        """Return the window at a position; only subword sampling draws from the generator."""
        if self._order[0] != position.epoch:
            order = np.random.default_rng((self._seed, position.epoch, 0))
            starts = np.arange(0, len(self._pairs), self._rows)
            self._order = position.epoch, order.permutation(starts)
        starts = np.array_split(self._order[1], self._number)[position.window]
        indices = (starts[:, None] + np.arange(self._rows)).ravel()
        indices = indices[indices < len(self._pairs)]
        table = self._ids.stretches(starts.tolist(), self._rows)
        source, target = _ragged(table.column(0)), _ragged(table.column(1))
        fitting = self._segmenter.fitting(source, target)
        if self._segmenter.samples:
            texts = self._pairs.read(starts.tolist(), self._rows)
            source, target = self._segmenter.sample(texts, fitting, generator)
            indices, fitting = indices[fitting], np.arange(len(fitting))
        last = position.window + 1 == self._number
        following = (
            StreamPosition(position.epoch + 1)
            if last
            else StreamPosition(position.epoch, position.window + 1)
        )
        return Window(indices, source, target, fitting, following)


def load_pairs(config: Config) -> tuple[Pairs, list[Pair]]:
    """Return the clean training pairs of a recipe and its validation pairs; log what was dropped.

    Streamed corpora are only opened. Raises DataError for a corpus that cannot be read or has no
    pairs, WorkerError where a process was killed.
    """
    data = config.data
    refuse_same_files(data)
    read = map(normalize_pair, read_corpus(data.valid))
    valid = [pair for pair in read if pair.source and pair.target]
    if not valid:
        raise DataError("data.valid: no pairs with text on both sides; validation needs some")
    if data.train[0].streaming:
        seen = [describe(corpus, quick_hash) for corpus in data.train]
        return StreamedPairs(data.train, hold_out(data, valid), digest(seen)), valid
    began = time.monotonic()
    cache = open_cache(data.cache)
    corpora = [corpus for corpus in (*data.train, data.valid, data.test) if corpus is not None]

    def described() -> list[dict[str, Any]]:
        return [describe(corpus, cache.checksum) for corpus in corpora]

    def make(folder: Path) -> dict[str, Any]:
        raw = itertools.chain.from_iterable(map(read_corpus, data.train))
        about = _write_clean(folder, raw, data, hold_out(data, valid))
        if described() != made_of["corpora"]:
            raise DataError("data: a corpus changed while it was read; run the command again")
        return about

    made_of = {
        "corpora": described(),
        "num_train": len(data.train),
        "cleaning": data.cleaning.model_dump(),
        "code": code_of(*_PAIRS_CODE),
    }
    entry = cache.entry("pairs", made_of, make)
    log.info("training data, %.1f s:", time.monotonic() - began)
    for line in entry.about["report"]:
        log.info("    %s", line)
    return PreparedPairs(entry, cache), valid


def hold_out(data: DataConfig, valid: Iterable[Pair]) -> HeldOut:
    """Return what must not be trained on: the validation pairs and the recipe's test set."""
    held_out = HeldOut()
    held_out.add("valid", valid)
    if data.test is not None:
        held_out.add("test", read_corpus(data.test))
    return held_out


def train_tokenizers(pairs: Pairs, config: Config) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of source and target, trained on the train side once and then cached.

    For a streamed corpus they are trained on its first data.tokenizer.max_sentences pairs.
    """
    settings = config.data.tokenizer
    began = time.monotonic()
    prepared = pairs if isinstance(pairs, PreparedPairs) else _prepare_head(pairs, config.data)
    cache = pairs.cache if isinstance(pairs, PreparedPairs) else open_cache(config.data.cache)

    def trained(texts: Iterable[str], size: int, name: str) -> Tokenizer:
        made_of = {
            "pairs": prepared.fingerprint,
            "name": name,
            "size": size,
            "settings": settings.model_dump(exclude=_NOT_OF_ONE_TOKENIZER),
            "code": code_of(*_TOKENIZER_CODE),
            "sentencepiece": sentencepiece.__version__,
        }

        def make(folder: Path) -> dict[str, Any]:
            tokenizer = train_tokenizer(texts, config=settings, vocab_size=size, name=name)
            tokenizer.save(folder / _MODEL)
            return {}

        return Tokenizer.load(cache.entry("tokenizer", made_of, make).path / _MODEL)

    if settings.joint:
        both = (
            text for sides in prepared.texts() for pair in zip(*sides, strict=True) for text in pair
        )
        source = target = trained(both, settings.source_vocab_size, "joint")
    else:
        sources = (text for sides in prepared.texts() for text in sides[0])
        targets = (text for sides in prepared.texts() for text in sides[1])
        source = trained(sources, settings.source_vocab_size, "source")
        target = trained(targets, settings.target_vocab_size, "target")
    log.info(
        "tokenizers, %.1f s: %d source pieces, %d target pieces",
        time.monotonic() - began, source.vocab_size, target.vocab_size,
    )  # fmt: skip
    return source, target


def _prepare_head(pairs: StreamedPairs, data: DataConfig) -> PreparedPairs:
    """Return the first pairs of a streamed corpus, cleaned, in a temporary cache."""
    cache = open_cache(None)
    head = pairs.head(data.tokenizer.max_sentences)
    entry = cache.entry(
        "pairs", {}, lambda folder: _write_clean(folder, head, data, pairs.held_out)
    )
    return PreparedPairs(entry, cache)


def _write_clean(
    folder: Path, raw: Iterable[Pair], data: DataConfig, held_out: HeldOut
) -> dict[str, Any]:
    """Clean and shuffle pairs into a folder; return what the cache records about them.

    Meanwhile two more copies of the corpus are on disk, and digests take some 16 bytes of memory a
    pair.
    """
    datasets = _library()
    byte, word = datasets.Value("uint8"), datasets.Value("uint64")
    features = datasets.Features(
        dict.fromkeys(_SIDES, datasets.Value("large_string"))
        | {"fault": byte, "overlap": byte, "digest": word}
    )
    with tempfile.TemporaryDirectory(dir=folder) as name:
        aside = Path(name)
        _write_raw(raw, aside / "raw")
        keys = {"config": data.cleaning, "held_out": held_out}
        _map(_MappedRows(aside / "raw"), _assess, keys, features, aside, data.processes)
        shutil.rmtree(aside / "raw")
        rows, report = _MappedRows(aside), CleaningReport()
        assessed = Assessed(rows, *(rows.column(name) for name in ("fault", "overlap", "digest")))
        kept = filter_pairs(assessed, data.cleaning, held_out, report)
        if not report.kept:
            raise DataError(
                f"data.train: none of {report.read} pairs is left; loosen data.cleaning, or check "
                "the data"
            )
        fingerprint = _shuffle(rows, kept, aside / "dealt", folder)
    return {"fingerprint": fingerprint, "report": report.lines()}


def _write_raw(raw: Iterable[Pair], folder: Path) -> None:
    """Write pairs to an Arrow file in a new folder; raises DataError if there are none."""
    shown = iter(tqdm(raw, "reading", unit=" pairs", disable=None, leave=False, mininterval=0.5))
    folder.mkdir()
    with pa.ipc.new_stream(str(folder / "raw.arrow"), _PAIRS_SCHEMA) as writer:
        number = 0
        while pairs := list(itertools.islice(shown, _ROWS_PER_PROCESS)):
            texts = [[pair.source for pair in pairs], [pair.target for pair in pairs]]
            writer.write_batch(pa.record_batch(texts, schema=_PAIRS_SCHEMA))
            number += len(pairs)
    if not number:
        raise DataError("data.train: no pairs; check the data")


def _shuffle(rows: _MappedRows, kept: npt.NDArray[np.bool_], dealt: Path, folder: Path) -> str:
    """Write the rows that are kept to files of a folder in random order; return its fingerprint.

    Rows are dealt to piles at random, and then each pile is shuffled: every order is equally
    likely, and no more than a pile is in memory.
    """
    generator, fingerprint = np.random.default_rng(_SHUFFLE_SEED), hashlib.sha256()
    total = int(kept.sum())
    piles = -(-total // _SHARD_ROWS)
    pile_of_row = np.full(len(kept), piles, np.uint16)
    pile_of_row[kept] = generator.integers(piles, size=total, dtype=np.uint16)
    table = rows.table.select([*_SIDES, "digest"])
    with pa.ipc.new_file(str(dealt), table.schema) as writer:
        for start in range(0, len(kept), _SHARD_ROWS):
            pile_of = pile_of_row[start : start + _SHARD_ROWS]
            run = table.slice(start, _SHARD_ROWS).combine_chunks().to_batches()[0]
            for pile in range(piles):
                writer.write_batch(run.take(pa.array(np.flatnonzero(pile_of == pile))))
            rows.release()
    with pa.OSFile(str(dealt)) as file:
        reader = pa.ipc.open_file(file)
        for pile in range(piles):
            numbers = range(pile, reader.num_record_batches, piles)
            table = pa.Table.from_batches(map(reader.get_batch, numbers)).combine_chunks()
            table = table.take(pa.array(generator.permutation(len(table))))
            fingerprint.update(table.column("digest").to_numpy().tobytes())
            with pa.ipc.new_stream(str(folder / f"{pile:05}.arrow"), _PAIRS_SCHEMA) as writer:
                writer.write_table(table.select(_SIDES), max_chunksize=_BATCH_ROWS)
    return fingerprint.hexdigest()[:16]


def _assess(
    rows: dict[str, list[str]], config: CleaningConfig, held_out: HeldOut
) -> dict[str, Any]:
    pairs, fault, overlap, digests = assess_pairs(
        map(Pair, rows["source"], rows["target"]), config, held_out
    )
    texts = {"source": [p.source for p in pairs], "target": [p.target for p in pairs]}
    return {**texts, "fault": fault, "overlap": overlap, "digest": digests}


def _encode(rows: dict[str, list[str]], tokenizers: Tokenizers) -> dict[str, list[list[int]]]:
    return {
        side: tokenizer.encode_batch(rows[side])
        for side, tokenizer in zip(_SIDES, tokenizers, strict=True)
    }


def _map(
    rows: _MappedRows,
    function: Callable[..., dict[str, Any]],
    keys: dict[str, Any],
    features: Any,
    folder: Path,
    processes: int | None,
) -> None:
    """Write what `Dataset.map` of a function over batches of rows returns to files in a folder.

    Processes share the shards of the dataset. `Dataset.map(num_proc=...)` does not do: when this
    process is killed, the library's manager process lives on and holds the lock of the cache.
    Raises WorkerError where a process was killed.
    """
    datasets = _library()
    number = processes or cores()
    size = min(_SHARD_ROWS, max(_ROWS_PER_PROCESS, -(-len(rows) // number)))
    starts = range(0, len(rows), size)

    def map_shard(start: int) -> None:
        shard = datasets.table.InMemoryTable(rows.table.slice(start, size))
        datasets.Dataset(shard, fingerprint="shard").map(
            function,
            fn_kwargs=keys,
            batched=True,
            remove_columns=rows.table.column_names,
            features=features,
            cache_file_name=str(folder / f"{start // size:05}.arrow"),
            load_from_cache_file=False,
            new_fingerprint="rows",
        )
        rows.release()

    done = ordered_map(
        map_shard, starts, processes=min(number, len(starts)), option="data.processes"
    )
    name = function.__name__.strip("_")
    for _ in tqdm(done, name, len(starts), disable=None, leave=False):
        pass


def _library() -> Any:
    """Return the module datasets, without its log messages and progress bars."""
    import datasets  # takes a second

    datasets.logging.set_verbosity_error()
    datasets.disable_progress_bars()
    return datasets


class _MappedRows(Sequence[Pair]):
    """The rows of a folder's Arrow files, mapped into memory; they can be deleted meanwhile.

    Pages that were read count as memory of the process until they are released, and are then
    mapped again when they are needed.
    """

    def __init__(self, folder: Path) -> None:
        self._maps: list[mmap.mmap] = []
        tables = []
        for path in sorted(folder.glob("*.arrow")):
            with path.open("rb") as file:
                self._maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            tables.append(pa.ipc.open_stream(pa.py_buffer(self._maps[-1])).read_all())
            self._maps[-1].madvise(mmap.MADV_DONTNEED)
        self.table: pa.Table = pa.concat_tables(tables)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, row: Any) -> Any:
        return Pair(*(self.table.column(side)[row].as_py() for side in _SIDES))

    def release(self) -> None:
        """Release all pages."""
        for each in self._maps:
            each.madvise(mmap.MADV_DONTNEED)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, some at a time."""
        for batch in self.table.to_batches():
            yield batch
            self.release()

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a copy of a column of numbers."""
        values = np.empty(len(self), self.table.schema.field(name).type.to_pandas_dtype())
        start = 0
        for batch in self.batches():
            values[start : start + len(batch)] = np.from_dlpack(batch.column(name))
            start += len(batch)
        return values

    def stretches(self, starts: Iterable[int], length: int) -> pa.Table:
        """Return the rows of stretches of equal length."""
        found = pa.concat_tables(self.table.slice(start, length) for start in starts)
        found = found.combine_chunks()
        self.release()
        return found


def _ragged(column: pa.ChunkedArray) -> Ragged:
    rows = pa.concat_arrays(column.chunks)
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(_lengths(rows), out=offsets[1:])
    return Ragged(np.from_dlpack(rows.flatten()).astype(np.int32), offsets)


def _lengths(rows: pa.ListArray) -> npt.NDArray[Any]:
    return np.from_dlpack(rows.value_lengths())  # Array.to_numpy would import pandas
