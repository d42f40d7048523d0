"""Hugging Face datasets in local folders and files, without a network."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from seq2seq.config import CorpusConfig
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.errors import DataError


def read(**keys: Any) -> list[Pair]:
    return list(read_corpus(CorpusConfig.model_validate(keys)))


def fails(**keys: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(**keys)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Any:
    library = pytest.importorskip("datasets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library.config, "HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("cache")))
        library.disable_progress_bars()
        yield library


def keys(name: Path, **more: Any) -> dict[str, Any]:
    return {
        "format": "huggingface",
        "name": str(name),
        "split": "train",
        "source": "translation.es",
        "target": "translation.en",
    } | more


ROWS = [{"translation": {"es": f"Hola {n}.", "en": f"Hello {n}."}, "id": n} for n in range(10)]
PAIRS = [Pair(f"Hola {n}.", f"Hello {n}.") for n in range(10)]


def test_huggingface_reads_local_folders_and_files(tmp_path: Path, datasets: Any) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/train.jsonl").write_text(lines)
    rows = datasets.Dataset.from_list(ROWS)
    rows.to_parquet(str(tmp_path / "rows.parquet"))
    rows.save_to_disk(str(tmp_path / "saved"))
    datasets.DatasetDict(train=rows).save_to_disk(str(tmp_path / "saved_splits"))
    for name in ("folder", "folder/train.jsonl", "rows.parquet", "saved", "saved_splits"):
        assert read(**keys(tmp_path / name)) == PAIRS, name
    assert read(**keys(tmp_path / "folder", split="train[:30%]")) == PAIRS[:3]


def test_huggingface_errors(tmp_path: Path, datasets: Any) -> None:
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    where = f"{tmp_path} train"
    assert "cannot be loaded" in fails(**keys(tmp_path / "missing"))
    assert "cannot be loaded" in fails(**keys(tmp_path, split="nosuch"))
    message = fails(**keys(tmp_path, source="es"))
    assert message.startswith(f"{where}: no column 'es'; columns: translation, id")
    message = fails(**keys(tmp_path, source="translation.fr"))
    assert message.startswith(f"{where}: row 0: no field 'translation.fr'; fields of translation")
    assert "no data" in fails(**keys(tmp_path, split="train[:0]"))
    assert "row 0: field 'id' is of type number" in fails(**keys(tmp_path, target="id"))


def test_a_script_in_the_folder_of_a_dataset_is_not_run(tmp_path: Path, datasets: Any) -> None:
    folder = tmp_path / "evil"
    folder.mkdir()
    line = f"open({str(tmp_path / 'was-here')!r}, 'w').close()\n"
    (folder / "evil.py").write_text(line + "import datasets\n")
    assert "cannot be loaded" in fails(**keys(folder))
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    with contextlib.suppress(DataError):
        read(**keys(folder))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["evil"]


def test_huggingface_names_the_splits_of_a_saved_dataset(tmp_path: Path, datasets: Any) -> None:
    rows = datasets.Dataset.from_list(ROWS)
    datasets.DatasetDict(train=rows, valid=rows).save_to_disk(str(tmp_path))
    message = fails(**keys(tmp_path, split="test"))
    assert "no split 'test' on disk; splits: train, valid" in message
