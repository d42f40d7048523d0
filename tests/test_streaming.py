"""Streamed corpora: bounded windows in the order of the corpus, resumed exactly."""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import ToyCorpus
from test_batching import indices_of, same
from test_stream import make_pairs, take_epoch

from seq2seq.config import BatchingConfig, CorpusConfig, DataConfig, TokenizerConfig
from seq2seq.data.cleaning import HeldOut
from seq2seq.data.corpus import Pair
from seq2seq.data.dataset import load_pairs, train_tokenizers
from seq2seq.data.sources import describe, quick_hash
from seq2seq.data.stream import BatchStream
from seq2seq.data.streaming import StreamedPairs
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.errors import CheckpointError, ConfigError, DataError
from seq2seq.pipeline import train
from seq2seq.runs.directory import RunDirectory

PAIRS = list(dict.fromkeys(make_pairs(300)))
FORMATS = ["tsv", "gzip", "parquet", "json", "saved"]


@pytest.fixture(scope="module")
def tokenizers() -> tuple[Tokenizer, Tokenizer]:
    texts = [text for pair in PAIRS for text in pair]
    tokenizer = train_tokenizer(texts, config=TokenizerConfig(), vocab_size=330, name="joint")
    return tokenizer, tokenizer


def write(path: Path, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    text = "".join(f"{source}\t{target}\n" for source, target in pairs)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return {"path": str(path)}


def write_dataset(path: Path, kind: str) -> dict[str, Any]:
    datasets = pytest.importorskip("datasets")
    sources, targets = zip(*PAIRS, strict=True)
    rows = datasets.Dataset.from_dict({"es": sources, "en": targets, "id": range(len(PAIRS))})
    if kind == "parquet":
        rows.to_parquet(str(path), batch_size=70)
    elif kind == "json":
        rows.to_json(str(path))
    else:
        rows.save_to_disk(str(path), num_shards=3)
    keys = {"format": "huggingface", "split": "train", "source": "es", "target": "en"}
    return {**keys, "name": str(path)}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return the keys of a corpus of all pairs, by its format."""
    folder = tmp_path_factory.mktemp("corpora")
    return {
        "tsv": write(folder / "pairs.tsv", PAIRS),
        "gzip": write(folder / "pairs.tsv.gz", PAIRS),
        "parquet": write_dataset(folder / "pairs.parquet", "parquet"),
        "json": write_dataset(folder / "pairs.jsonl", "json"),
        "saved": write_dataset(folder / "saved", "saved"),
    }


def make_stream(
    tokenizers: tuple[Tokenizer, Tokenizer],
    *corpora: dict[str, Any],
    held_out: HeldOut | None = None,
    alpha: float = 0.0,
    **batching: Any,
) -> BatchStream:
    config = DataConfig(
        train=tuple(CorpusConfig(streaming=True, **corpus) for corpus in corpora),
        valid=CorpusConfig(path="valid.tsv"),
        tokenizer=TokenizerConfig(sampling_alpha=alpha),
        batching=BatchingConfig(**({"size": 100, "window": 70} | batching)),
    )
    name = json.dumps([describe(corpus, quick_hash) for corpus in config.train])
    pairs = StreamedPairs(config.train, held_out or HeldOut(), name)
    return BatchStream(pairs, *tokenizers, config, seed=1)


@pytest.mark.parametrize("kind", FORMATS)
def test_every_pair_comes_once_an_epoch(tokenizers, corpora, kind):
    stream = make_stream(tokenizers, corpora[kind])
    orders = []
    for epoch in range(3):
        assert (stream.epoch, stream.position) == (epoch, 0)
        batches = take_epoch(stream)
        orders.append(indices_of(batches))
        assert sorted(orders[-1]) == list(range(len(PAIRS)))
        for batch in batches:
            for row, index in enumerate(batch.indices):
                assert tokenizers[0].decode(batch.source_BS[row].tolist()) == PAIRS[index].source
                assert tokenizers[1].decode(batch.labels_BT[row].tolist()) == PAIRS[index].target
    assert orders[0] != orders[1] != orders[2]
    windows = [{index // 70 for index in orders[0][start : start + 70]} for start in (0, 70, 140)]
    assert windows == [{0}, {1}, {2}]


@pytest.mark.parametrize("alpha", [0.0, 0.2])
@pytest.mark.parametrize("kind", FORMATS)
def test_stream_resumes_from_any_position(tokenizers, corpora, kind, alpha):
    other = corpora["tsv"] if kind == "gzip" else corpora["gzip"]
    stream = make_stream(tokenizers, corpora[kind], other, alpha=alpha)
    batches = iter(stream)
    expected, states = [], [json.loads(json.dumps(stream.state_dict()))]
    for batch in itertools.islice(batches, 150):
        expected.append(batch)
        states.append(json.loads(json.dumps(stream.state_dict())))
    assert states[-1]["epoch"] >= 1
    for taken in (0, 1, 7, 20, 40, 60, 99, 120):
        resumed = make_stream(tokenizers, corpora[kind], other, alpha=alpha)
        resumed.load_state_dict(states[taken])
        found = list(itertools.islice(resumed, 25))
        assert all(map(same, expected[taken : taken + 25], found))
        for key in ("epoch", "position", "window", "taken"):
            assert resumed.state_dict()[key] == states[taken + 25][key]


def test_corpora_of_different_lengths_share_the_windows(tokenizers, tmp_path, corpora):
    short = write(tmp_path / "short.tsv", PAIRS[100:150])
    batches = take_epoch(make_stream(tokenizers, corpora["tsv"], short, size=1000))
    assert sorted(indices_of(batches)) == list(range(len(PAIRS) + 50))
    texts = {
        index: tokenizers[0].decode(batch.source_BS[row].tolist())
        for batch in batches
        for row, index in enumerate(batch.indices)
    }
    windows = [*PAIRS[:35], *PAIRS[100:135], *PAIRS[35:70], *PAIRS[135:150], *PAIRS[70:]]
    assert [texts[index] for index in range(len(texts))] == [pair.source for pair in windows]


def test_streamed_pairs_are_cleaned_and_counted(tokenizers, tmp_path, caplog):
    caplog.set_level("INFO")
    rows = [*PAIRS[:100], ("", "nothing"), PAIRS[99], PAIRS[0], PAIRS[5], ("a " * 400, "b " * 400)]
    held_out = HeldOut()
    held_out.add("valid", [Pair(*PAIRS[5])])
    corpus = write(tmp_path / "rows.tsv", rows)
    stream = make_stream(tokenizers, corpus, held_out=held_out, window=53, max_length=100)
    batches = take_epoch(stream)
    # The windows begin at 0 and 53: of what follows PAIRS, only its last one is in the second.
    assert sum(map(len, batches)) == 102
    assert "WARNING: 2 train pairs share a sentence with valid" in caplog.text
    [whole] = [line for line in caplog.text.splitlines() if "epoch 0, windows 0 to 1" in line]
    counts = caplog.text.partition(whole)[2].splitlines()
    drops = [line.split()[-1] for line in counts if " dropped, " in line]
    assert drops == ["1", "0", "0", "1", "0"]
    assert "1 pairs are over data.batching.max_length=100" in caplog.text


def test_a_corpus_with_nothing_left_is_refused(tokenizers, tmp_path):
    corpus = write(tmp_path / "rows.tsv", [("", "x")] * 100)
    with pytest.raises(DataError, match=r"data\.train: none of 100 pairs is left"):
        next(iter(make_stream(tokenizers, corpus)))


def test_windows_without_pairs_are_skipped(tokenizers, tmp_path):
    rows = [("", "x")] * 100 + PAIRS[:3] + [("", "x")] * 100
    stream = make_stream(tokenizers, write(tmp_path / "rows.tsv", rows), window=10)
    for epoch in range(2):
        assert (stream.epoch, stream.position) == (epoch, 0)
        assert sorted(indices_of(take_epoch(stream))) == [0, 1, 2]


def test_another_corpus_is_refused(tokenizers, corpora, tmp_path):
    state = make_stream(tokenizers, corpora["tsv"]).state_dict()
    moved = write(tmp_path / "moved.tsv", PAIRS)
    make_stream(tokenizers, moved).load_state_dict(state)
    other = write(tmp_path / "other.tsv", PAIRS[1:])
    with pytest.raises(CheckpointError, match=r"data\.train"):
        make_stream(tokenizers, other).load_state_dict(state)


def test_corpus_is_read_no_further_than_needed(tokenizers, tmp_path):
    path = tmp_path / "rows.tsv"
    write(path, PAIRS)
    with path.open("ab") as file:
        file.write(b"\xff\n")
    batches = iter(make_stream(tokenizers, {"path": str(path)}, window=100))
    first = next(batches)
    assert len(first)
    with pytest.raises(DataError, match=r"rows\.tsv:301: not UTF-8"):
        list(batches)


def recipe(toy: ToyCorpus, run: Path, *overrides: str) -> Any:
    streamed = f"data.train=[{{path: {toy.folder}/train.tsv, streaming: true}}]"
    return toy.config(run, streamed, "data.batching.window=60", *overrides)


def test_resumed_training_is_bit_identical(toy, tmp_path):
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    for path in (straight, stopped):
        train(recipe(toy, path, "training.keep_last=10"))
    for step in (12, 16, 18, 20):
        shutil.rmtree(stopped / f"checkpoints/step-{step:06d}")
    assert RunDirectory(stopped).newest().step == 8
    train(recipe(toy, stopped, "training.keep_last=10"), resume=True)
    one, other = (RunDirectory(path).newest() for path in (straight, stopped))
    assert one.step == other.step == 20
    assert all(tensor.equal(other.weights()[name]) for name, tensor in one.weights().items())


def test_tokenizer_is_trained_on_the_first_pairs(toy, tmp_path, caplog):
    limited = recipe(toy, tmp_path / "run", "data.tokenizer.max_sentences=100")
    found = train_tokenizers(load_pairs(limited)[0], limited)
    lines = (toy.folder / "train.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "train.tsv").write_text("".join(lines[:100]) + "zzz\tyyy\n" * 300)
    shutil.copy(toy.folder / "valid.tsv", tmp_path)
    shutil.copy(toy.folder / "test.tsv", tmp_path)
    other = recipe(ToyCorpus(tmp_path), tmp_path / "run", "data.tokenizer.max_sentences=100")
    again = train_tokenizers(load_pairs(other)[0], other)
    assert [t.fingerprint() for t in found] == [t.fingerprint() for t in again]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.valid.streaming=true", "valid and test cannot be streamed"),
        ("data.train=[{path: a.tsv, streaming: true}, {path: b.tsv}]", "on all corpora or on none"),
    ],
)
def test_unstreamable_corpora_are_refused(toy, tmp_path, override, message):
    with pytest.raises(ConfigError, match=message):
        recipe(toy, tmp_path / "run", override)
