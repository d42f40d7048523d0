"""From the corpora of a recipe to clean pairs, tokenizers and ids, kept in a cache."""

from __future__ import annotations

import itertools
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sentencepiece
from tqdm import tqdm

from seq2seq.config import CleaningConfig, Config, DataConfig
from seq2seq.data.arrow import PAIRS, SIDES, MappedRows, map_rows, shuffle, write_pairs
from seq2seq.data.cache import Cache, Entry, code_of, open_cache
from seq2seq.data.cleaning import Assessed, HeldOut, assess_pairs, filter_pairs, read_validation
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.data.sources import check_files, describe
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.errors import DataError

Tokenizers = tuple[Tokenizer, Tokenizer]  # of the source and the target

log = logging.getLogger(__name__)

_ASSESSED = pa.schema(
    [*PAIRS, ("fault", pa.uint8()), ("overlap", pa.uint8()), ("digest", pa.uint64())]
)
_MODEL = "tokenizer.model"
_NOT_OF_ONE_TOKENIZER = {"joint", "source_vocab_size", "target_vocab_size"}
_PAIRS_CODE = tuple(f"seq2seq.data.{name}" for name in ("arrow", "cleaning", "corpus", "dataset"))
_TOKENIZER_CODE = tuple(f"seq2seq.data.{name}" for name in ("casing", "cleaning", "tokenizer"))
_IDS_CODE = (*_TOKENIZER_CODE, "seq2seq.data.arrow", "seq2seq.data.dataset")


class PreparedPairs:
    """The clean pairs of a corpus, in a random order that depends on the pairs alone.

    As the order is random, any stretch of rows is a fair sample of the corpus: epochs shuffle
    stretches, and tokenizers are trained on the first rows.
    """

    def __init__(self, entry: Entry, cache: Cache) -> None:
        """Map the files of a cache entry; they can be deleted while the object lives."""
        self.cache = cache
        self.fingerprint: str = entry.about["fingerprint"]  # of the pairs and their order
        self._rows = MappedRows(entry.path, entry.about["pairs"])

    def __len__(self) -> int:
        return len(self._rows)

    def texts(self) -> Iterator[tuple[list[str], list[str]]]:
        """Yield the sources and the targets of all pairs, some at a time."""
        for batch in self._rows.batches():
            yield batch.column(0).to_pylist(), batch.column(1).to_pylist()

    def corpora(self) -> npt.NDArray[np.uint8]:
        """Return the number in data.train of the corpus that each pair is from."""
        return self._rows.column("corpus")

    def read(self, starts: Sequence[int], rows: int) -> tuple[list[str], list[str]]:
        """Return the sources and targets of the stretches of `rows` rows that begin at `starts`."""
        table = self._rows.stretches(starts, rows)
        return table.column(0).to_pylist(), table.column(1).to_pylist()

    def encode(self, tokenizers: Tokenizers, *, processes: int | None) -> MappedRows:
        """Return the pairs as ids, row by row; they are encoded once and then cached."""
        made_of = {
            "pairs": self.fingerprint,
            "tokenizers": [each.fingerprint() for each in tokenizers],
            "code": code_of(*_IDS_CODE),
            "sentencepiece": sentencepiece.__version__,
        }

        def make(folder: Path) -> dict[str, Any]:
            small = max(each.vocab_size for each in tokenizers) <= 1 << 16
            ids = pa.list_(pa.uint16() if small else pa.int32())
            schema = pa.schema([(side, ids) for side in SIDES])
            map_rows(self._rows, _encode, {"tokenizers": tokenizers}, schema, folder, processes)
            return {}

        return self.cache.entry("ids", made_of, make, lambda e: MappedRows(e.path, len(self)))


def load_pairs(config: Config) -> tuple[PreparedPairs, list[Pair]]:
    """Return the clean training pairs of a recipe and its validation pairs; log what was dropped.

    Raises DataError for a corpus that cannot be read or has no pairs, WorkerError where a process
    was killed.
    """
    data = config.data
    check_files(data)
    valid = read_validation(data)
    began = time.monotonic()
    cache = open_cache(data.cache)
    corpora = [corpus for corpus in (*data.train, data.valid, data.test) if corpus is not None]

    def described() -> list[dict[str, Any]]:
        return list(map(describe, corpora))

    def make(folder: Path) -> dict[str, Any]:
        raw = itertools.chain.from_iterable(
            (replace(pair, corpus=number) for pair in read_corpus(corpus))
            for number, corpus in enumerate(data.train)
        )
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
    pairs, report = cache.entry(
        "pairs", made_of, make, lambda e: (PreparedPairs(e, cache), e.about["report"])
    )
    log.info("training data, %.1f s:", time.monotonic() - began)
    for line in report:
        log.info("    %s", line)
    return pairs, valid


def hold_out(data: DataConfig, valid: Iterable[Pair]) -> HeldOut:
    """Return what must not be trained on: the validation pairs and the recipe's test set."""
    held_out = HeldOut()
    held_out.add("valid", valid)
    if data.test is not None:
        held_out.add("test", read_corpus(data.test))
    return held_out


def train_tokenizers(pairs: PreparedPairs, config: Config) -> Tokenizers:
    """Return the tokenizers of source and target, trained on the pairs once and then cached."""
    settings = config.data.tokenizer
    began = time.monotonic()

    def trained(texts: Callable[[], Iterable[str]], size: int, name: str) -> Tokenizer:
        made_of = {
            "pairs": pairs.fingerprint,
            "name": name,
            "size": size,
            "settings": settings.model_dump(exclude=_NOT_OF_ONE_TOKENIZER),
            "code": code_of(*_TOKENIZER_CODE),
            "sentencepiece": sentencepiece.__version__,
        }

        def make(folder: Path) -> dict[str, Any]:
            tokenizer = train_tokenizer(texts(), config=settings, vocab_size=size, name=name)
            tokenizer.save(folder / _MODEL)
            return {}

        return pairs.cache.entry(
            "tokenizer", made_of, make, lambda entry: Tokenizer.load(entry.path / _MODEL)
        )

    def texts(*sides: int) -> Iterator[str]:
        for some in pairs.texts():
            for pair in zip(*(some[side] for side in sides), strict=True):
                yield from pair

    if settings.joint:
        source = target = trained(lambda: texts(0, 1), settings.source_vocab_size, "joint")
    else:
        source = trained(lambda: texts(0), settings.source_vocab_size, "source")
        target = trained(lambda: texts(1), settings.target_vocab_size, "target")
    log.info(
        "tokenizers, %.1f s: %d source pieces, %d target pieces",
        time.monotonic() - began, source.vocab_size, target.vocab_size,
    )  # fmt: skip
    return source, target


def _write_clean(
    folder: Path, raw: Iterable[Pair], data: DataConfig, held_out: HeldOut
) -> dict[str, Any]:
    """Clean and shuffle pairs into a folder; return what the cache records about them.

    Meanwhile two more copies of the corpus are on disk, and digests take some 16 bytes of memory a
    pair.
    """
    with tempfile.TemporaryDirectory(dir=folder) as name:
        aside = Path(name)
        (aside / "raw").mkdir()
        shown = tqdm(raw, "reading", unit=" pairs", disable=None, leave=False, mininterval=0.5)
        number = write_pairs(shown, aside / "raw" / "pairs.arrow")
        if not number:
            raise DataError("data.train: no pairs; check the data")
        keys = {"config": data.cleaning, "held_out": held_out}
        map_rows(MappedRows(aside / "raw", number), _assess, keys, _ASSESSED, aside, data.processes)
        shutil.rmtree(aside / "raw")
        rows = MappedRows(aside, number)
        assessed = Assessed(rows, *(rows.column(name) for name in ("fault", "overlap", "digest")))
        kept, report = filter_pairs(assessed, data.cleaning, held_out)
        del assessed  # 10 bytes per pair
        if not report.kept:
            raise DataError(
                f"data.train: none of {report.read} pairs is left; loosen data.cleaning, or check "
                "the data"
            )
        fingerprint = shuffle(rows, kept, aside / "dealt", folder)
    return {"fingerprint": fingerprint, "pairs": report.kept, "report": report.lines()}


def _assess(rows: dict[str, Any], config: CleaningConfig, held_out: HeldOut) -> dict[str, Any]:
    pairs, fault, overlap, digests = assess_pairs(
        map(Pair, rows["source"], rows["target"]), config, held_out
    )
    texts = {"source": [p.source for p in pairs], "target": [p.target for p in pairs]}
    kept = {"corpus": rows["corpus"]}
    return {**texts, **kept, "fault": fault, "overlap": overlap, "digest": digests}


def _encode(rows: dict[str, list[str]], tokenizers: Tokenizers) -> dict[str, list[list[int]]]:
    return {
        side: tokenizer.encode_batch(rows[side])
        for side, tokenizer in zip(SIDES, tokenizers, strict=True)
    }
