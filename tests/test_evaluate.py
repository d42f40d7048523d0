from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

import pytest
from conftest import ToyCorpus, toy_pairs
from processes import Server

from seq2seq import cli
from seq2seq.config import CorpusConfig, DataConfig
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.errors import DataError
from seq2seq.evaluation import evaluate as evaluation
from seq2seq.evaluation.evaluate import check_direction, evaluate, read_test, write_lines
from seq2seq.evaluation.metrics import score
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
        ({"source": 1, "target": 0}, "gato\tcat\n"),
        ({"format": "manythings"}, "gato\tcat\tCC-BY\n"),
        ({"source": 2, "target": 1, "alignment": 0}, "gato\tcat\t0-0\n"),
        (
            {"format": "jsonl", "source": "s.es", "target": "t"},
            '{"s": {"es": "gato"}, "t": "cat"}\n',
        ),
    ],
)
def test_columns_are_source_and_target_and_fields_have_names(
    data: DataConfig, tmp_path: Path, layout: dict[str, object], text: str
) -> None:
    path = tmp_path / "test"
    path.write_text(text)
    valid = data.valid.model_copy(update=layout)
    pairs = read_test(str(path), data.model_copy(update={"test": None, "valid": valid}))
    assert [(pair.source, pair.target, pair.references) for pair in pairs] == [("gato", "cat", ())]


@pytest.mark.parametrize(
    ("arguments", "how"),
    [
        ("evaluate {run} {file}", "exchange its sides, or name a run"),
        ("evaluate {run} {targets} --target {sources}", "exchange its sides, or name a run"),
        ("evaluate {run} --challenge {minimal}", "exchange its sides, or name a run"),
        ("compare {run} {other} {file}", "exchange its sides, or name a run"),
        ("align {run} {file}", "exchange its sides, or name a run"),
        ("doctor {run} {file}", "exchange its sides, or name a run"),
        ("plot length {run} --test {file} -o length.png", "exchange its sides, or name a run"),
        ("export {run} --valid {file} -o {folder}", "exchange its sides, or name a run"),
        ("distill {run} {file} -o {file}.out", "add --reverse"),
        ("distill {run} {right} -o {file}.out --reverse", "remove --reverse"),
    ],
)
def test_test_set_in_the_other_direction_is_refused(
    trained: Path,
    other: Path,
    toy: ToyCorpus,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: str,
    how: str,
) -> None:
    rows = [line.split("\t")[:2] for line in (toy.folder / "test.tsv").read_text().splitlines()]
    (tmp_path / "test.tsv").write_text("".join(f"{en}\t{es}\n" for es, en in rows))
    minimal = "".join(f"word\t{en}\t{es}\t{es} {es}\n" for es, en in rows)
    (tmp_path / "minimal.tsv").write_text(minimal)
    for name, side in (("es", 0), ("en", 1)):
        (tmp_path / name).write_text("".join(f"{row[side]}\n" for row in rows))
    files = {"file": tmp_path / "test.tsv", "targets": tmp_path / "en", "sources": tmp_path / "es"}
    more = {"right": toy.folder / "test.tsv", "folder": tmp_path / "exported"}
    more["minimal"] = tmp_path / "minimal.tsv"
    assert cli.main(arguments.format(run=trained, other=other, **files, **more).split()) == 2
    error = capsys.readouterr().err
    assert ": runs in the other direction than the run (es to en): its sources, such as" in error
    assert f"; {how}" in error


def test_direction_is_known_in_a_joint_vocabulary() -> None:
    pairs = list(read_corpus(CorpusConfig(path="data/everyday.tsv")))[:30]
    translator = Translator.load("es-en")
    assert translator.source.fingerprint() == translator.target.fingerprint()
    check_direction(translator, pairs, "test.tsv")
    check_direction(translator, [Pair(pair.target, pair.source) for pair in pairs[:9]], "few")
    with pytest.raises(DataError, match=r"test\.tsv: runs in the other direction"):
        check_direction(translator, [Pair(p.target, p.source) for p in pairs], "test.tsv")


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


def test_option_for_hypotheses_is_named_where_the_run_cannot_be_written(
    toy: ToyCorpus, exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(exported, tmp_path / "run")
    (run / "test.hypotheses.txt").mkdir()
    assert cli.main(["evaluate", str(run), str(toy.folder / "test.tsv")]) == 2
    assert capsys.readouterr().err.endswith("; choose another path with -o FILE\n")


def test_tokenized_text_is_warned_about_once(
    translator: Translator, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Tokenized:
        line = "cat eats ."

    monkeypatch.setattr(evaluation, "translate_all", lambda *_, **__: [Tokenized()] * 120)
    evaluate(translator, [Pair("gato come.", "cat eats.")] * 120)
    [warning] = [record.getMessage() for record in caplog.records]
    assert warning.startswith("120 translations end in ' .', as tokenized text does")
    score(["cat eats ."] * 120, ["cat eats."] * 120, "en")
    assert len(caplog.records) == 1


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
