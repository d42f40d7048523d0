from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from conftest import ToyCorpus, toy_pairs
from processes import Server

from seq2seq import cli
from seq2seq.config import DataConfig
from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError
from seq2seq.evaluation import evaluate as evaluation
from seq2seq.evaluation.evaluate import evaluate, read_test, write_lines
from seq2seq.inference.translator import Translator


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained)


@pytest.fixture(scope="module")
def data(toy: ToyCorpus) -> DataConfig:
    return toy.config(Path("run")).data


def test_scores_cover_all_sentences_in_order(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "WINDOW", 5)
    pairs = [Pair(*pair) for pair in toy_pairs(12, 9)]
    result = evaluate(translator, pairs, translator.options(beam_size=1))
    assert result.hypotheses == [pair.target for pair in pairs]
    assert result.metrics["bleu"].score == pytest.approx(100)
    assert result.metrics["ter"].score == 0
    found = json.loads(result.as_json(Path("h.txt")))
    assert (found["sentences"], found["beam"], found["hypotheses"]) == (12, 1, "h.txt")
    assert found["chrf"]["signature"].startswith("nrefs:1|")
    assert result.as_text(Path("h.txt")).startswith("BLEU = 100.0   nrefs:1|")
    with pytest.raises(DataError, match="the test set is empty"):
        evaluate(translator, [])


def test_any_reference_counts(translator: Translator, data: DataConfig, tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("gato come pan agua\tnone of it\tcat eats bread water\nperro ve casa rojo\tx\n")
    pairs = read_test(str(path), data)
    assert [pair.references for pair in pairs] == [("cat eats bread water",), ()]
    several = evaluate(translator, pairs).metrics
    single = evaluate(translator, read_test(str(path), data, single_reference=True)).metrics
    assert several["bleu"].score > single["bleu"].score
    assert "nrefs:var" in several["bleu"].signature
    assert "nrefs:1" in single["bleu"].signature


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ({"source": 1, "target": 0}, "cat\tgato\n"),
        ({"format": "manythings"}, "cat\tgato\tCC-BY\n"),
        (
            {"format": "jsonl", "source": "s.es", "target": "t"},
            '{"s": {"es": "gato"}, "t": "cat"}\n',
        ),
    ],
)
def test_test_set_has_layout_of_run(
    data: DataConfig, tmp_path: Path, layout: dict[str, object], text: str
) -> None:
    path = tmp_path / "test"
    path.write_text(text)
    valid = data.valid.model_copy(update=layout)
    pairs = read_test(str(path), data.model_copy(update={"test": None, "valid": valid}))
    assert [(pair.source, pair.target) for pair in pairs] == [("gato", "cat")]


def test_gold_alignments_are_optional(data: DataConfig, tmp_path: Path) -> None:
    path = tmp_path / "test"
    test = data.valid.model_copy(update={"alignment": 2})
    layout = data.model_copy(update={"test": test})
    path.write_text("\ngato\tcat\t0-0\n")
    assert read_test(str(path), layout) == [Pair("gato", "cat", alignment="0-0")]
    assert read_test(str(path), layout, single_reference=True)[0].alignment == "0-0"
    path.write_text("\ngato\tcat\n")
    assert read_test(str(path), layout) == [Pair("gato", "cat")]
    fields = {"format": "jsonl", "source": "s", "target": "t", "alignment": "links"}
    layout = data.model_copy(update={"test": data.valid.model_copy(update=fields)})
    path.write_text('{"s": "gato", "t": "cat", "links": "0-0"}\n')
    assert read_test(str(path), layout) == [Pair("gato", "cat", alignment="0-0")]
    path.write_text('{"s": "gato", "t": "cat"}\n')
    assert read_test(str(path), layout) == [Pair("gato", "cat")]
    path.write_text('{"s": "gato"}\n')
    with pytest.raises(DataError, match="no field 't'"):
        read_test(str(path), layout)


def test_links_are_no_references(data: DataConfig, tmp_path: Path) -> None:
    path = tmp_path / "test"
    test = data.valid.model_copy(update={"references": True})
    layout = data.model_copy(update={"test": test})
    path.write_text("gato\tcat\t0-0 1p2\nno\tno\t\n")
    assert read_test(str(path), layout) == [
        Pair("gato", "cat", alignment="0-0 1p2"), Pair("no", "no", alignment=""),
    ]  # fmt: skip
    for other in ("1 - 0", "1-23-4", "a cat"):
        path.write_text(f"gato\tcat\t0-0\ngato\tcat\t{other}\n")
        assert [pair.references for pair in read_test(str(path), layout)] == [("0-0",), (other,)]


def test_pairs_without_a_reference_are_counted(
    data: DataConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "test"
    path.write_text("gato\tcat\nperro\t \nno\t\n")
    assert len(read_test(str(path), data)) == 3
    assert "test: 2 pairs without a reference, first pair 2; every" in caplog.text
    caplog.clear()
    path.write_text("gato\tcat\n")
    read_test(str(path), data)
    test = data.valid.model_copy(update={"references": True})
    several = data.model_copy(update={"test": test})
    path.write_text("gato\t\tcat\n")
    read_test(str(path), several)
    assert not caplog.records
    read_test(str(path), several, single_reference=True)
    assert "1 pair without a reference, first pair 1" in caplog.text


def test_sides_in_two_files(data: DataConfig, tmp_path: Path) -> None:
    source, target = tmp_path / "es", tmp_path / "en"
    source.write_text("gato\nperro\n")
    target.write_text("cat\ndog\n")
    assert len(read_test(str(source), data, target=str(target))) == 2
    aligned = data.valid.model_copy(update={"format": "aligned"})
    with pytest.raises(DataError, match="give the other one with --target"):
        read_test(str(source), data.model_copy(update={"test": aligned}))


def test_unwritable_hypotheses_raise(tmp_path: Path) -> None:
    write_lines(tmp_path / "h", ["a", "", "é"])
    assert (tmp_path / "h").read_text() == "a\n\né\n"
    with pytest.raises(DataError, match="cannot be written"):
        write_lines(tmp_path / "none/h", ["a"])


def test_hypotheses_are_written_before_the_scores_are_printed(
    toy: ToyCorpus, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "hypotheses.txt", []

    class Output(io.StringIO):
        def write(self, text: str) -> int:
            seen.append(path.read_text().count("\n"))
            return super().write(text)

    monkeypatch.setattr(sys, "stdout", Output())
    test = toy.folder / "test.tsv"
    assert cli.main(["evaluate", str(trained), str(test), "--beam", "1", "-o", str(path)]) == 0
    assert set(seen) == {20}


def test_two_processes_may_evaluate_a_run_at_once(
    server: Server, toy: ToyCorpus, trained: Path, tmp_path: Path
) -> None:
    (folder := tmp_path / "out").mkdir()
    path = folder / "hypotheses.txt"
    command = ["evaluate", trained, toy.folder / "test.tsv", "-o", path, "--beam"]
    processes = [server.start([*command, beam], tmp_path / f"{beam}.txt") for beam in (1, 3)]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert path.read_text().count("\n") == 20
    assert [each.name for each in folder.iterdir()] == [path.name]
