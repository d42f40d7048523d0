"""The data of a run is recognized wherever it lies, and other data is refused."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import ToyCorpus, toy_pairs
from same_runs import assert_same

from seq2seq import pipeline
from seq2seq.config import Config, CorpusConfig, DataConfig, TokenizerConfig, parse_config
from seq2seq.data import corpus
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.data.sources import check_sources, checksum_sources, is_reversed
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.errors import CheckpointError, ConfigError, DataError
from seq2seq.pipeline import train
from seq2seq.runs.directory import RunDirectory

TWO, FOUR = "training.max_steps=2", "training.max_steps=4"


@pytest.fixture
def mine(toy: ToyCorpus, tmp_path: Path) -> ToyCorpus:
    """Return a copy of the corpus that may be changed."""
    return ToyCorpus(Path(shutil.copytree(toy.folder, tmp_path / "corpus")))


def test_a_corpus_that_moved_is_the_same(mine: ToyCorpus, tmp_path: Path, caplog: Any) -> None:
    train(mine.config(tmp_path / "run", TWO))
    shutil.copytree(tmp_path / "run", tmp_path / "straight")
    train(mine.config(tmp_path / "straight", FOUR), resume=True)
    mine.folder.rename(tmp_path / "moved")
    caplog.set_level("INFO")
    train(ToyCorpus(tmp_path / "moved").config(tmp_path / "run", FOUR), resume=True)
    assert_same(tmp_path / "straight", tmp_path / "run")
    for key in ("data.train.0.path", "data.valid.path", "data.test.path"):
        assert f"changed since the last start: {key} was" in caplog.text


@pytest.mark.parametrize(
    ("name", "key", "why"),
    [
        ("train.tsv", "data.train.0.path", "the batches are made from it"),
        ("valid.tsv", "data.valid.path", "the best checkpoint so far was chosen with it"),
    ],
)
def test_changed_or_missing_file_is_named(
    mine: ToyCorpus, tmp_path: Path, name: str, key: str, why: str
) -> None:
    config = mine.config(tmp_path / "run", TWO)
    train(config)
    before = (tmp_path / "run/metrics.jsonl").read_bytes()
    path = mine.folder / name
    text = path.read_text()
    path.write_text(text + "gato\tcat\n")
    with pytest.raises(
        DataError, match=rf"{path}: not the file that the run began with: {key} .*{why}"
    ):
        train(config, resume=True)
    path.unlink()
    with pytest.raises(
        DataError, match=rf"{path}: no such file; put it back, or give its path as {key}="
    ):
        train(config, resume=True)
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == before
    path.write_text(text)
    train(config, resume=True)


def test_test_set_may_change_on_resume(mine: ToyCorpus, tmp_path: Path) -> None:
    train(mine.config(tmp_path / "run", TWO))
    (mine.folder / "test.tsv").write_text("gato\tcat\n")
    train(mine.config(tmp_path / "run", FOUR, "data.source_language=xx"), resume=True)
    train(mine.config(tmp_path / "run", FOUR, "data.test=null"), resume=True)


def test_a_run_keeps_languages_that_a_recipe_leaves_out(mine: ToyCorpus, tmp_path: Path) -> None:
    """A recipe from when they were optional, or a run of other codes than those of today."""
    run = tmp_path / "run"
    train(mine.config(run, TWO))
    saved = run / "config.yaml"
    saved.write_text(saved.read_text().replace("source_language: es", "source_language: spanish"))
    keys = "  source_language: es\n  target_language: en\n"
    train(parse_config(mine.recipe(run).replace(keys, ""), [FOUR]), resume=True)
    assert RunDirectory(run).config().data.languages == ("spanish", "en")


def test_reordered_or_added_files_are_refused(mine: ToyCorpus, tmp_path: Path) -> None:
    rows = ["\t".join(pair) for pair in toy_pairs(50, seed=9)]
    (mine.folder / "more.tsv").write_text("\n".join(rows) + "\n")
    places = [f"{mine.folder}/{name}.tsv" for name in ("train", "more")]
    train(mine.config(tmp_path / "run", TWO, f"data.train.1.path={places[1]}"))
    swapped = [f"data.train.{n}.path={place}" for n, place in enumerate(reversed(places))]
    with pytest.raises(DataError, match=r"more\.tsv: not the file that the run began with"):
        train(mine.config(tmp_path / "run", TWO, *swapped), resume=True)
    with pytest.raises(ConfigError, match=r"--resume: data\.train\.1\."):
        train(mine.config(tmp_path / "run", TWO), resume=True)


def test_change_while_reading_is_found_on_resume(
    mine: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checksum is older than the reading, so that no change goes unseen."""
    config = mine.config(tmp_path / "run", TWO)
    path, load = mine.folder / "train.tsv", pipeline.load_pairs

    def changing(config: Config) -> Any:
        found = load(config)
        path.write_text("gato\tcat\n" + path.read_text())
        return found

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "load_pairs", changing)
        train(config)
    with pytest.raises(DataError, match=r"train\.tsv: not the file that the run began with"):
        train(config, resume=True)


def test_checksums_of_files_folders_pipes_and_far_datasets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("hola\n")
    (tmp_path / "folder/deep").mkdir(parents=True)
    (tmp_path / "folder/deep/rows.json").write_text("[]")
    os.mkfifo(tmp_path / "pipe")
    far = {"format": "huggingface", "split": "train", "source": "es", "target": "en"}
    datasets = pytest.importorskip("datasets")
    rows = [{"es": "hola", "en": "hello"}, {"es": "gato", "en": "cat"}]
    monkeypatch.setattr(corpus, "_load", lambda *_: datasets.Dataset.from_list(rows))
    data = DataConfig(
        train=(
            CorpusConfig(
                format="aligned", source_path=str(tmp_path / "a"), target_path=str(tmp_path / "b")
            ),
            CorpusConfig(path=str(tmp_path / "pipe")),
            CorpusConfig.model_validate(far | {"name": str(tmp_path / "folder")}),
            CorpusConfig.model_validate(far | {"name": "far/away"}),
        ),
        valid=CorpusConfig.model_validate(far | {"name": "far/away"}),
    )
    first = checksum_sources(data)
    assert first.keys() == {"data.train.0.source_path", "data.train.2.name", "data.valid.name"}
    assert first["data.train.0.source_path"] == hashlib.sha256(b"hola\n").hexdigest()
    saved = tmp_path / "data.json"
    saved.write_text(json.dumps(first))
    check_sources(saved, data)
    rows.reverse()
    with pytest.raises(
        DataError, match=r"far/away: not the file that the run began with: data\.valid"
    ):
        check_sources(saved, data)
    rows.reverse()
    (tmp_path / "folder/deep/rows.json").rename(tmp_path / "folder/rows.json")
    with pytest.raises(
        DataError, match=r"folder: not the file that the run began with: data\.train\.2"
    ):
        check_sources(saved, data)


def test_run_without_checksums(toy: ToyCorpus, tmp_path: Path, caplog: Any) -> None:
    path = tmp_path / "run"
    train(toy.config(path, TWO))
    assert json.loads((path / "data.json").read_text()) == {
        f"data.{key}.path": hashlib.sha256((toy.folder / name).read_bytes()).hexdigest()
        for key, name in (("train.0", "train.tsv"), ("valid", "valid.tsv"))
    }
    (path / "data.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"data\.json: cannot be read"):
        train(toy.config(path, FOUR), resume=True)
    (path / "data.json").unlink()
    train(toy.config(path, FOUR), resume=True)
    assert "cannot check that the data is the same" in caplog.text


# --- directions


def exchanged(name: str, corpus: ToyCorpus, folder: Path) -> Path:
    """Return a copy of a file of the corpus whose columns are exchanged."""
    rows = [line.split("\t") for line in (corpus.folder / f"{name}.tsv").read_text().splitlines()]
    path = folder / f"{name}-exchanged.tsv"
    path.write_text("".join(f"{target}\t{source}\n" for source, target, *_ in rows))
    return path


@pytest.mark.parametrize("name", ["valid", "test"])
def test_corpus_in_the_other_direction_is_refused(
    toy: ToyCorpus, tmp_path: Path, name: str
) -> None:
    path = exchanged(name, toy, tmp_path)
    config = toy.config(tmp_path / "run", TWO, f"data.{name}={{path: {path}}}")
    with pytest.raises(
        DataError,
        match=rf"data\.{name}: runs in the other direction than data\.train: .*; set "
        rf"data\.{name}\.source=1 and data\.{name}\.target=0, or, if its sides are right "
        r"\(es to en\), exchange those of data\.train$",
    ):
        train(config)
    assert not (tmp_path / "run/config.yaml").exists()
    fixed = (f"data.{name}.source=1", f"data.{name}.target=0")
    train(toy.config(tmp_path / "run", TWO, f"data.{name}={{path: {path}}}", *fixed))


def test_one_of_several_training_corpora_in_the_other_direction_is_refused(
    toy: ToyCorpus, tmp_path: Path
) -> None:
    path = exchanged("valid", toy, tmp_path)
    config = toy.config(tmp_path / "run", TWO, f"data.train.1.path={path}")
    with pytest.raises(DataError, match=r"data\.train\.1: runs in the other direction"):
        train(config)


def test_other_direction_than_the_run_to_start_from_is_refused(
    toy: ToyCorpus, trained: Path, tmp_path: Path
) -> None:
    start = f"training.initial={{run: {trained}}}"
    columns = [
        f"data.{name}.{side}" for name in ("train.0", "valid") for side in ("source=1", "target=0")
    ]
    text = f"""
run_dir: {tmp_path}/run
data:
  source_language: es
  target_language: en
  train: [{{path: {toy.folder}/train.tsv}}]
  valid: {{path: {toy.folder}/valid.tsv}}
"""
    with pytest.raises(
        DataError,
        match=rf"data\.valid: runs in the other direction than the run {trained}: .*, or, if its "
        r"sides are right \(es to en\), start from another run$",
    ):
        train(parse_config(text, [start, TWO, *columns]))
    with pytest.raises(DataError, match=r"data\.train\.0: runs in the other direction"):
        train(parse_config(text, [start, TWO, *columns[:2]]))
    new = f"training.initial={{run: {trained}, new_tokenizers: true}}"
    with pytest.raises(DataError, match=r"data\.valid: .* than data\.train: .* data\.train$"):
        train(parse_config(text, [new, TWO, *columns[:2]]))
    train(parse_config(text, [start, TWO]))


def tokenizers_of(pairs: list[Pair], size: int = 400) -> tuple[Tokenizer, Tokenizer]:
    source, target = (
        train_tokenizer(texts, config=TokenizerConfig(), vocab_size=size, name="source")
        for texts in ([pair.source for pair in pairs], [pair.target for pair in pairs])
    )
    return source, target


def exchange(pairs: Sequence[Pair]) -> list[Pair]:
    return [Pair(pair.target, pair.source) for pair in pairs]


@pytest.mark.parametrize("size", [330, 1000, 4000])
@pytest.mark.parametrize("count", [50, 500, 5000])
def test_direction_of_the_sample_corpus(size: int, count: int) -> None:
    pairs = list(itertools.islice(read_corpus(CorpusConfig(path="data/sample/train.tsv")), count))
    valid = list(read_corpus(CorpusConfig(path="data/sample/valid.tsv")))
    tokenizers = tokenizers_of(pairs, size)
    assert not is_reversed(valid, tokenizers)
    if size > 330:
        assert is_reversed(exchange(valid), tokenizers)


NUMBERS = [Pair(f"{n * 7919 % 10007}", f"{n * 104729 % 9973} {n}") for n in range(300)]
LETTERS = [
    Pair(" ".join(drawn[:9]), " ".join(drawn[9:]))
    for drawn in (random.Random(n).choices("abcdefgh", k=12) for n in range(300))
]


@pytest.mark.parametrize(
    "pairs",
    [
        NUMBERS,
        LETTERS,
        [Pair(pair.source, pair.source) for pair in LETTERS],
        [Pair(pair.source, f"{pair.source} {pair.target}") for pair in NUMBERS],
        [Pair("Hola.", "Hello.")],
        [Pair("?", "!"), Pair("1", "2")],
    ],
)
def test_direction_that_cannot_be_told_is_accepted(pairs: list[Pair]) -> None:
    tokenizers = tokenizers_of(pairs[:200])
    assert not is_reversed(pairs[-100:], tokenizers)
    assert not is_reversed(pairs[:0], tokenizers)
    joint = train_tokenizer(
        [text for pair in pairs for text in (pair.source, pair.target)],
        config=TokenizerConfig(), vocab_size=400, name="joint",
    )  # fmt: skip
    assert not is_reversed(exchange(pairs), (joint, joint))


def test_sizes_of_vocabularies_and_lengths_of_sentences_do_not_decide() -> None:
    spanish = [p.source for p in read_corpus(CorpusConfig(path="data/sample/train.tsv"))][:3000]
    triples = zip(spanish[::3], spanish[1::3], spanish[2::3], strict=True)
    pairs = [Pair(" ".join(three), three[1]) for three in triples]
    source, target = tokenizers_of(pairs, 400)[0], tokenizers_of(pairs, 3000)[1]
    for tokenizers in ((source, target), (target, source)):
        assert not is_reversed(pairs, tokenizers)
        assert not is_reversed(exchange(pairs), tokenizers)
