from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import ToyCorpus

from seq2seq.errors import CheckpointError, DataError
from seq2seq.evaluation.evaluate import read_systems
from seq2seq.inference.translator import Translator


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_run_translates_and_file_is_read(toy: ToyCorpus, run: Path, tmp_path: Path) -> None:
    test = str(toy.folder / "test.tsv")
    lines = [f"line {number}" for number in range(20)]
    (tmp_path / "own.txt").write_text("\n".join(lines) + "\n")
    pairs, [found, read] = read_systems([str(run), str(tmp_path / "own.txt")], test, beam=1)
    translator = Translator.load(run)
    expected = translator.translate([p.source for p in pairs], translator.options(beam_size=1))
    assert found == [best[0].text for best in expected]
    assert read == lines


def test_file_in_a_run_directory_has_its_layout(toy: ToyCorpus, run: Path) -> None:
    """The toy's test set has further references, unlike a plain TSV."""
    test = run.parent / "test.tsv"
    test.write_text("gato\tcat\tkitten\n")
    (run / "test.hypotheses.txt").write_text("cat\n")
    pairs, _ = read_systems([str(run / "test.hypotheses.txt")], str(test))
    assert pairs[0].references == ("kitten",)
    checkpoint = str(run / "checkpoints/step-000100")
    assert read_systems([checkpoint], str(test))[0] == pairs


def test_files_without_a_run_need_target(run: Path, tmp_path: Path) -> None:
    for name, text in {"own.txt": "cat\n", "test.es": "gato\n", "test.en": "cat\n"}.items():
        (tmp_path / name).write_text(text)
    own, source, target = (str(tmp_path / name) for name in ("own.txt", "test.es", "test.en"))
    pairs, systems = read_systems([own], source, target=target)
    assert (pairs[0].source, pairs[0].target, systems) == ("gato", "cat", [["cat"]])
    with pytest.raises(DataError, match="unknown without a run"):
        read_systems([own], source)
    (tmp_path / "own.txt").write_text("cat\ncat\n")
    with pytest.raises(DataError, match=r"own.txt: 2 translations, but the test set has 1"):
        read_systems([own], source, target=target)
    with pytest.raises(CheckpointError, match="not a run directory"):
        read_systems([str(tmp_path / "none")], source)
