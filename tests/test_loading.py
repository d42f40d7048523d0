"""Prepared data are used again as long as what they are made of is the same, and only then."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ToyCorpus

from seq2seq.config import Config
from seq2seq.data.loading import load_pairs, train_tokenizers
from seq2seq.data.store import PairStore
from seq2seq.data.stream import BatchStream
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import DataError

REPORT = "    dropped, duplicate"


@pytest.fixture
def corpus(toy: ToyCorpus, tmp_path: Path) -> ToyCorpus:
    shutil.copytree(toy.folder, tmp_path / "toy")
    return ToyCorpus(tmp_path / "toy")


@pytest.fixture
def config(corpus: ToyCorpus, tmp_path: Path) -> Callable[..., Config]:
    cache = f"data.cache={tmp_path}/cache"
    return lambda *overrides: corpus.config(tmp_path / "run", cache, *overrides)


def prepare(config: Config) -> tuple[PairStore, tuple[Tokenizer, Tokenizer]]:
    pairs, _ = load_pairs(config)
    assert isinstance(pairs, PairStore)
    tokenizers = train_tokenizers(pairs, config)
    BatchStream(pairs, *tokenizers, config.data, seed=1)
    return pairs, tokenizers


def entries(folder: Path) -> dict[str, int]:
    """Return the entries of a cache and when they were made."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("cache/[a-z]*-*")}


def kinds(folder: Path, before: dict[str, int]) -> list[str]:
    """Return what sort of entries are new."""
    return sorted(name.partition("-")[0] for name in entries(folder).keys() - before.keys())


def test_a_second_time_nothing_is_made_and_the_same_is_told(config, tmp_path, caplog):
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
    assert first.fingerprint() == second.fingerprint()
    assert [t.fingerprint() for t in tokenizers] == [t.fingerprint() for t in again]


ALL = ["ids", "pairs", "tokenizer", "tokenizer"]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["training.seed=5", "training.learning_rate=1e-3", "data.processes=1"], []),
        (["data.batching.size=8", "data.batching.max_length=9", "data.word_dropout=0.3"], []),
        (["data.tokenizer.sampling_alpha=0"], []),
        (["data.tokenizer.target_vocab_size=320"], ["tokenizer"]),  # which is no smaller
        (["data.tokenizer.type=bpe"], ["ids", "tokenizer", "tokenizer"]),
        (["data.tokenizer.joint=true"], ["ids", "tokenizer"]),
        (["data.cleaning.drop_duplicates=false"], ALL),
        (["data.cleaning.max_ratio=3"], ["pairs"]),  # which drops the same
        (["data.test=null"], ["pairs"]),
    ],
)
def test_what_depends_on_a_setting_is_made_anew(config, tmp_path, overrides, expected):
    prepare(config())
    before = entries(tmp_path)
    prepare(config(*overrides))
    assert kinds(tmp_path, before) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("train", ALL), ("valid", ["pairs"]), ("test", ["pairs"])]
)
def test_a_changed_file_is_noticed(config, corpus, tmp_path, name, expected):
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


def test_where_files_lie_is_no_matter(config, corpus, tmp_path):
    fingerprint = prepare(config())[0].fingerprint()
    before = entries(tmp_path)
    moved = tmp_path / "moved.tsv"
    (corpus.folder / "train.tsv").rename(moved)
    assert prepare(config(f"data.train=[{{path: {moved}}}]"))[0].fingerprint() == fingerprint
    assert entries(tmp_path) == before


def test_the_order_of_corpora_and_their_columns_are_seen(config, corpus, tmp_path):
    train, valid = corpus.folder / "train.tsv", corpus.folder / "valid.tsv"
    one = prepare(config(f"data.train=[{{path: {train}}}, {{path: {valid}}}]"))[0]
    other = prepare(config(f"data.train=[{{path: {valid}}}, {{path: {train}}}]"))[0]
    swapped = prepare(config(f"data.train=[{{path: {train}, source: 1, target: 0}}]"))[0]
    assert len({store.fingerprint() for store in (one, other, swapped)}) == 3


def test_the_number_of_processes_changes_nothing(config, tmp_path):
    found = set()
    for processes in (1, 3):
        store, tokenizers = prepare(
            config(f"data.processes={processes}", f"data.cache={tmp_path}/cache-{processes}")
        )
        ids = store.encode(tokenizers, processes=1)
        source, target = ids.read([0], 1024)
        flat = (*source.flat.tolist(), *target.flat.tolist())
        found.add((store.fingerprint(), *(t.fingerprint() for t in tokenizers), flat))
    assert len(found) == 1


def test_a_damaged_entry_is_made_again(config, tmp_path, caplog):
    first, tokenizers = prepare(config())
    for path in tmp_path.glob("cache/*/*[.arrow,.model]"):
        path.write_bytes(path.read_bytes()[:-100])
    second, again = prepare(config())
    assert caplog.text.count("is damaged and made again") == 4
    assert first.fingerprint() == second.fingerprint()
    assert [t.fingerprint() for t in tokenizers] == [t.fingerprint() for t in again]


def test_a_stream_outlives_its_cache(config, tmp_path):
    store, tokenizers = prepare(config("data.batching.window=50"))
    stream = BatchStream(store, *tokenizers, config("data.batching.window=50").data, seed=1)
    batches = iter(stream)
    next(batches)
    shutil.rmtree(tmp_path / "cache")
    while not stream.epoch:
        next(batches)
    batches.close()


def test_nothing_is_kept_of_a_corpus_that_cannot_be_used(config, corpus, tmp_path):
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


def test_a_file_that_changes_while_it_is_read_is_refused(config, corpus, monkeypatch):
    path = corpus.folder / "train.tsv"

    def write_and_change(*arguments: object) -> dict[str, str]:
        path.write_text(path.read_text() + "perro\tdog\n")
        return {}

    monkeypatch.setattr("seq2seq.data.loading._write_clean", write_and_change)
    with pytest.raises(DataError, match="changed while it was read"):
        load_pairs(config())
