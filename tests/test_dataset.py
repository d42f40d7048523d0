"""Prepared data: cached exactly as long as its ingredients are the same, and read in blocks."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ToyCorpus
from hypothesis import given, settings
from hypothesis import strategies as st
from pairs import all_pairs, prepared
from test_workers import alive, wait_for

from seq2seq.config import Config, DataConfig, TokenizerConfig
from seq2seq.data import dataset
from seq2seq.data.cleaning import HeldOut
from seq2seq.data.corpus import Pair
from seq2seq.data.dataset import PreparedPairs, load_pairs, train_tokenizers
from seq2seq.data.ragged import TEXT, PairStore, Ragged
from seq2seq.data.stream import BatchStream
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.data.windows import StreamPosition, Windows
from seq2seq.errors import DataError, WorkerError
from seq2seq.packaged import find_run
from seq2seq.runs.directory import RunDirectory

REPORT = "    dropped, duplicate"


@pytest.fixture
def corpus(toy: ToyCorpus, tmp_path: Path) -> ToyCorpus:
    shutil.copytree(toy.folder, tmp_path / "toy")
    return ToyCorpus(tmp_path / "toy")


@pytest.fixture
def config(corpus: ToyCorpus, tmp_path: Path) -> Callable[..., Config]:
    cache = f"data.cache={tmp_path}/cache"
    return lambda *overrides: corpus.config(tmp_path / "run", cache, *overrides)


def prepare(config: Config) -> tuple[PreparedPairs, tuple[Tokenizer, Tokenizer]]:
    pairs, _ = load_pairs(config)
    tokenizers = train_tokenizers(pairs, config)
    BatchStream(pairs, *tokenizers, config.data, seed=1)
    return pairs, tokenizers


def lists(rows: Ragged) -> list[list[int]]:
    return [rows.flat[a:b].tolist() for a, b in itertools.pairwise(rows.offsets.tolist())]


def all_ids(store: PairStore) -> tuple[list[list[int]], list[list[int]]]:
    source, target = store.read([0], len(store))
    return lists(source), lists(target)


def entries(folder: Path) -> dict[str, int]:
    """Return the entries of a cache and when they were made."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("cache/[a-z]*-*")}


def kinds(folder: Path, before: dict[str, int]) -> list[str]:
    """Return what sort of entries are new."""
    return sorted(name.partition("-")[0] for name in entries(folder).keys() - before.keys())


def test_second_start_makes_nothing_and_logs_the_same(config, tmp_path, caplog):
    caplog.set_level("INFO")
    first, tokenizers = prepare(config())
    told = [record.message for record in caplog.records if record.message.startswith("    ")]
    assert any(line.startswith(REPORT) and not line.endswith(" 0") for line in told)
    made = entries(tmp_path)
    assert kinds(tmp_path, {}) == ["ids", "pairs", "tokenizer", "tokenizer"]
    caplog.clear()
    second, again = prepare(config())
    assert entries(tmp_path) == made
    assert [r.message for r in caplog.records if r.message.startswith("    ")] == told
    assert "delete the folder to clear it" in caplog.text
    assert first.fingerprint == second.fingerprint
    assert [t.fingerprint() for t in tokenizers] == [t.fingerprint() for t in again]


ALL = ["ids", "pairs", "tokenizer", "tokenizer"]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["training.seed=5", "training.learning_rate=1e-3", "data.processes=1"], []),
        (["data.batching.size=8", "data.batching.max_length=9", "data.word_dropout=0.3"], []),
        (["data.tokenizer.target_vocab_size=320"], ["tokenizer"]),  # which is no smaller
        (
            ["data.tokenizer={type: bpe, source_vocab_size: 330, target_vocab_size: 330}"],
            ["ids", "tokenizer", "tokenizer"],
        ),
        (["data.tokenizer.joint=true"], ["ids", "tokenizer"]),
        (["data.cleaning.drop_duplicates=false"], ALL),
        (["data.cleaning.max_ratio=3"], ["pairs"]),  # which drops the same
        (["data.test=null"], ["pairs"]),
    ],
)
def test_changed_setting_remakes_what_depends_on_it(config, tmp_path, overrides, expected):
    prepare(config())
    before = entries(tmp_path)
    prepare(config(*overrides))
    assert kinds(tmp_path, before) == expected


def test_version_changes_with_what_is_prepared(tmp_path):
    """Raise dataset._VERSION when this changes: caches hold what was prepared before."""
    odd = ("¡HOLA,\u200b  Señor!", "ﬁn\u00ad 1º ½…", "a\u0301\tb", "👩\u200d💻 NO", "x" * 1001)
    pairs = [(f"{odd[n % 5]} {n % 90}", f"{n} {odd[n % 4]}") for n in range(400)]
    fingerprint = write_clean(tmp_path / "pairs", pairs)["fingerprint"]
    store = PairStore(tmp_path / "pairs", TEXT)
    tokenizers = RunDirectory(find_run("es-en")).tokenizers()
    source, target = dataset._encode(store, tokenizers, 0)
    ids = hashlib.sha256(source.flat.tobytes() + target.flat.tobytes()).hexdigest()[:16]
    assert (dataset._VERSION, fingerprint, ids) == (1, "2030d7d1e42e52b2", "f953993dae7399d8")


@pytest.mark.parametrize(
    ("name", "expected"), [("train", ALL), ("valid", ["pairs"]), ("test", ["pairs"])]
)
def test_changed_file_is_noticed(config, corpus, tmp_path, name, expected):
    prepare(config())
    before = entries(tmp_path)
    path = corpus.folder / f"{name}.tsv"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("perro", "zorro"), encoding="utf-8")  # of the same size
    prepare(config())
    assert kinds(tmp_path, before) == expected
    path.write_text(text, encoding="utf-8")
    before = entries(tmp_path)
    prepare(config())
    assert entries(tmp_path) == before


def test_moved_file_is_the_same(config, corpus, tmp_path):
    fingerprint = prepare(config())[0].fingerprint
    before = entries(tmp_path)
    moved = tmp_path / "moved.tsv"
    (corpus.folder / "train.tsv").rename(moved)
    assert prepare(config(f"data.train=[{{path: {moved}}}]"))[0].fingerprint == fingerprint
    assert entries(tmp_path) == before


def test_order_and_columns_of_corpora_matter(config, corpus, tmp_path):
    train, valid = corpus.folder / "train.tsv", corpus.folder / "valid.tsv"
    one = prepare(config(f"data.train=[{{path: {train}}}, {{path: {valid}}}]"))[0]
    other = prepare(config(f"data.train=[{{path: {valid}}}, {{path: {train}}}]"))[0]
    swapped = prepare(config(f"data.train=[{{path: {train}, source: 1, target: 0}}]"))[0]
    assert len({pairs.fingerprint for pairs in (one, other, swapped)}) == 3
    for pairs, first in ((one, train), (other, valid)):
        in_first = [tuple(line.split("\t")[:2]) for line in first.read_text().splitlines()]
        of_corpora = zip(all_pairs(pairs), pairs.corpora, strict=True)
        assert all((pair in in_first) == (number == 0) for pair, number in of_corpora)


def test_number_of_processes_changes_nothing(config, tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "_CHUNK_ROWS", 100)
    found = set()
    for processes in (1, 3):
        pairs, tokenizers = prepare(
            config(f"data.processes={processes}", f"data.cache={tmp_path}/cache-{processes}")
        )
        ids = pairs.encode(tokenizers, processes=1)
        texts = tuple(map(tuple, (text for sides in pairs.texts() for text in sides)))
        found.add((pairs.fingerprint, texts, str(all_ids(ids))))
    assert len(found) == 1


def test_damaged_entry_is_made_again(config, tmp_path, caplog):
    first, tokenizers = prepare(config())
    for path in tmp_path.glob("cache/*/*[.values,.model]"):
        path.write_bytes(path.read_bytes()[:-100])
    second, again = prepare(config())
    assert caplog.text.count("is damaged; rebuilding it") == 4
    assert first.fingerprint == second.fingerprint
    assert [t.fingerprint() for t in tokenizers] == [t.fingerprint() for t in again]


def test_stream_survives_deleted_cache(config, tmp_path):
    pairs, tokenizers = prepare(config("data.batching.window=50"))
    stream = BatchStream(pairs, *tokenizers, config("data.batching.window=50").data, seed=1)
    batches = iter(stream)
    next(batches)
    shutil.rmtree(tmp_path / "cache")
    while not stream.epoch:
        next(batches)
    batches.close()


class Clearing:
    """An audit hook that deletes a folder when Python opens, lists or changes files in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count, self.at = folder, 0, -1  # the moment to delete it
        sys.addaudithook(self._met)

    def _met(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.at >= 0 and event.startswith(("open", "os.", "mmap")):
            names = [str(each) for each in arguments[:2]]
            if event.startswith("mmap") or any(str(self.folder) in name for name in names):
                self.count += 1
                if self.count == self.at:
                    self.at = 0
                    shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, at: int) -> None:
        self.count, self.at = 0, at

    def stop(self) -> None:
        self.at = -1


def start_training(config: Config) -> tuple[str, list[str], str]:
    """Return what a training would begin with."""
    pairs, tokenizers = prepare(config)
    ids = pairs.encode(tokenizers, processes=1)
    return pairs.fingerprint, [t.fingerprint() for t in tokenizers], str(all_ids(ids))


def test_cache_may_be_cleared_at_any_moment(config, tmp_path):
    recipe = config("data.processes=1")
    clearing = Clearing(tmp_path / "cache")
    clearing.start(0)
    expected = start_training(recipe)
    moments = clearing.count
    assert moments > 50
    for full in (False, True):  # the cache at the start
        for moment in range(1 + full, moments, moments // 6):
            clearing.stop()
            if not full:
                shutil.rmtree(tmp_path / "cache")
            clearing.start(moment)
            assert start_training(recipe) == expected
    clearing.stop()


def test_pairs_that_lack_a_file_are_missing(tmp_path):
    write_clean(tmp_path / "pairs", [("uno", "one"), ("dos", "two")])
    (tmp_path / "pairs/target.offsets").unlink()
    with pytest.raises(FileNotFoundError):
        PairStore(tmp_path / "pairs", TEXT)


def test_unusable_corpus_leaves_nothing_in_the_cache(config, corpus, tmp_path):
    path = corpus.folder / "train.tsv"
    path.write_text("solo\n")
    with pytest.raises(DataError, match=r"train\.tsv:1: 1 column"):
        load_pairs(config())
    path.write_text("\t\n \t x\n")
    with pytest.raises(DataError, match=r"data\.train: none of 2 pairs is left"):
        load_pairs(config())
    path.unlink()
    with pytest.raises(DataError, match=r"train\.tsv: no such file"):
        load_pairs(config())
    assert entries(tmp_path) == {}


def test_file_that_changes_while_read_is_refused(config, corpus, monkeypatch):
    path = corpus.folder / "train.tsv"

    def write_and_change(*arguments: object) -> dict[str, str]:
        path.write_text(path.read_text() + "perro\tdog\n")
        return {}

    monkeypatch.setattr("seq2seq.data.dataset._write_clean", write_and_change)
    with pytest.raises(DataError, match="changed while it was read"):
        load_pairs(config())


def write_clean(folder: Path, pairs: list[tuple[str, str]], **keys: Any) -> dict[str, Any]:
    data = DataConfig.model_validate(
        {"train": ({"path": "train.tsv"},), "valid": {"path": "valid.tsv"}, **keys}
    )
    folder.mkdir()
    return dataset._write_clean(folder, (Pair(*pair) for pair in pairs), data, HeldOut())


def test_rows_are_shuffled_once_and_all_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "_SHARD_ROWS", 2000)
    pairs = [(f"número {n}", f"number {n}") for n in range(5000)]
    about = write_clean(tmp_path / "one", pairs)
    assert write_clean(tmp_path / "other", pairs) == about
    stores = (PairStore(tmp_path / name, TEXT) for name in ("one", "other"))
    one, other = ([side.texts() for side in store.read([0], 5000)] for store in stores)
    assert one == other
    order = [int(text.split()[1]) for text in one[0]]
    assert sorted(order) == list(range(5000))
    assert one[1] == [f"number {n}" for n in order]
    # Mean places of the first and the last thousand: each is uniform, with a deviation of 46.
    for part in (range(1000), range(4000, 5000)):
        mean = sum(place for place, row in enumerate(order) if row in part) / 1000
        assert abs(mean - 2500) < 4 * 46
    # Neighbors do not stay together: of 4999, two are expected to follow each other.
    assert sum(b - a == 1 for a, b in itertools.pairwise(order)) < 10


def test_corpus_without_pairs_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"data\.train: no pairs"):
        write_clean(tmp_path / "pairs", [])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=20))
def test_texts_are_kept_unchanged(pairs):
    stored = prepared(pairs)
    assert len(stored) == len(pairs)
    assert all_pairs(stored) == pairs


@pytest.mark.parametrize("size", [1, 8, 512, 1024])
def test_blocks_are_those_rows_as_texts_and_as_ids(size):
    generator = random.Random(3)
    words = [f"pal{n}" for n in range(50)]
    texts = [" ".join(generator.choices(words, k=generator.randint(0, 9))) for _ in range(5000)]
    pairs = prepared(list(zip(texts[:2500], texts[2500:], strict=True)))
    tokenizer = train_tokenizer(texts, config=TokenizerConfig(), vocab_size=320, name="source")
    ids = pairs.encode((tokenizer, tokenizer), processes=2)
    starts = [0, 2 * size, 2500 // size * size, size, (2499 // size) * size]
    rows = [row for start in starts for row in range(2500)[start : start + size]]
    sides = [side.texts() for side in pairs.store.read(starts, size)]
    every = all_pairs(pairs)
    assert list(zip(*sides, strict=True)) == [every[row] for row in rows]
    for side, block in zip(sides, ids.read(starts, size), strict=True):
        assert lists(block) == tokenizer.encode_batch(side)


def test_fingerprint_sees_texts_their_borders_and_their_order(tmp_path):
    variants = [[("ab", "c")], [("a", "bc")], [("ab", "d")], [("ab", "c"), ("x", "y")]]
    variants.append(variants[-1][::-1])
    prints = [
        write_clean(tmp_path / str(n), variant)["fingerprint"] for n, variant in enumerate(variants)
    ]
    assert len(set(prints)) == len(variants)


@pytest.mark.parametrize("window", [1, 600, 30_000, 200_000])
def test_windows_hold_the_ids_of_their_rows(window):
    sources = [f"la frase {n} " + "xyz" * (n % 20) for n in range(2500)]
    pairs = prepared([(text, text[::-1]) for text in sources])
    tokenizer = train_tokenizer(sources, config=TokenizerConfig(), vocab_size=320, name="source")
    config = DataConfig.model_validate(
        {
            "train": ({"path": "train.tsv"},),
            "valid": {"path": "valid.tsv"},
            "batching": {"window": window, "max_length": 20},
        }
    )
    lengths = [max(len(tokenizer.encode(side)) for side in pair) for pair in all_pairs(pairs)]
    stream = BatchStream(pairs, tokenizer, tokenizer, config, seed=1)
    assert stream.num_pairs == sum(length <= 20 for length in lengths) < 2500
    assert stream.num_skipped == 2500 - stream.num_pairs
    windows = Windows(pairs, (tokenizer, tokenizer), config, seed=1)
    last = StreamPosition(0, windows._number - 1)
    indices, source, target, _ = windows._read(last, None)
    texts_of = all_pairs(pairs)
    for side, rows in enumerate((source, target)):
        texts = [texts_of[index][side] for index in indices]
        assert lists(rows) == tokenizer.encode_batch(texts)


def test_killed_worker_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "_CHUNK_ROWS", 100)

    def killed(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(dataset, "_assess", killed)
    pairs = [(f"número {n}", f"number {n}") for n in range(500)]
    with pytest.raises(WorkerError, match=r"was killed.*lower data\.processes"):
        write_clean(tmp_path / "pairs", pairs, processes=2)


def test_workers_end_with_the_process_that_started_them(tmp_path):
    script = f"""
import os, sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_dataset import *
def slow(*_, **__):
    open(f"{tmp_path}/{{os.getpid()}}", "w").close()
    time.sleep(60)
dataset._assess, dataset._CHUNK_ROWS = slow, 100
write_clean(Path("{tmp_path}/pairs"), [(str(n), str(n)) for n in range(500)], processes=3)
"""
    process = subprocess.Popen([sys.executable, "-c", script])
    wait_for(lambda: len([path for path in tmp_path.iterdir() if path.name.isdecimal()]) == 3)
    process.kill()
    process.wait()
    workers = [int(path.name) for path in tmp_path.iterdir() if path.name.isdecimal()]
    wait_for(lambda: not any(map(alive, workers)))
