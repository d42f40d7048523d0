"""The data of a run is recognized wherever it lies, and other data is refused."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import ToyCorpus, toy_pairs
from same_runs import assert_same

from seq2seq import pipeline
from seq2seq.config import Config, CorpusConfig, DataConfig
from seq2seq.data import corpus
from seq2seq.data.sources import check_sources, checksum_sources, dump_checksums
from seq2seq.errors import CheckpointError, ConfigError, DataError
from seq2seq.pipeline import train

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
        assert f"changed since the run began: {key} was" in caplog.text


@pytest.mark.parametrize(
    ("name", "key", "why"),
    [
        ("train.tsv", "data.train.0.path", "the batches are made from it"),
        ("valid.tsv", "data.valid.path", "the best checkpoint so far was chosen by it"),
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
    rows = [{"es": "hola", "en": "hello"}, {"es": "gato", "en": "cat"}]
    monkeypatch.setattr(corpus, "read_dataset", lambda *_, **__: iter(rows))
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
    saved.write_text(dump_checksums(first))
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
