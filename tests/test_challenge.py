"""Minimal pairs: their file, their scores under forced decoding, and where these are shown."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from conftest import ToyCorpus
from test_report import Tags

from seq2seq import cli
from seq2seq.errors import DataError
from seq2seq.evaluation.challenge import (
    MinimalPair,
    accuracy,
    read_challenge,
    score_challenge,
)
from seq2seq.inference.translator import Translator
from seq2seq.processes import Parallelism

PAIRS = [
    MinimalPair("noun", "gato come", "cat eats", "dog eats"),
    MinimalPair("noun", "perro", "dog", "cat"),
    MinimalPair("verb", "gato come", "cat eats", "cat"),
    MinimalPair("verb", "perro", "cat", "dog"),  # a failure: the model knows better
]


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained)


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "pairs.tsv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_file_is_read_and_normalized(tmp_path: Path) -> None:
    path = written(tmp_path, "noun\tgato  come\tcat eats\tdog eats \n\n \nverb\ta\tb\tc\n")
    assert read_challenge(path) == [PAIRS[0], MinimalPair("verb", "a", "b", "c")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\tc\td\na\tb\tc\n", "pairs.tsv:2: 3 columns, 3 of them with text; give phenomenon, "
         "source, right and wrong translation"),
        ("a\tb\tc\td\te\n", "pairs.tsv:1: 5 columns"),
        ("a\t\tc\td\n", "pairs.tsv:1: 4 columns, 3 of them with text"),
        ("a\tb\tsame  \tsame\n", "pairs.tsv:1: both translations are 'same'; change the wrong one"),
        ("\n\n", "pairs.tsv:2: blank lines only; minimal pairs are expected"),
        ("", "pairs.tsv: an empty file"),
        ("a\na\n", "2 lines are malformed: 1, 2"),
    ],
)  # fmt: skip
def test_malformed_files_are_named_with_their_lines(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_challenge(written(tmp_path, text))


def test_margins_equal_forced_decoding_one_by_one(translator: Translator) -> None:
    found = score_challenge(translator, PAIRS).scored
    for pair, scored in zip(PAIRS, found, strict=True):
        [right] = translator.force_decode([pair.source], [pair.right])
        [wrong] = translator.force_decode([pair.source], [pair.wrong])
        assert scored.total == pytest.approx(right.log_prob - wrong.log_prob, abs=1e-4)
        means = (part.log_prob / len(part.target_pieces) for part in (right, wrong))
        assert scored.per_piece == pytest.approx(next(means) - next(means), abs=1e-4)
    assert found[3].total == pytest.approx(-found[1].total, abs=1e-4)


def test_margins_do_not_depend_on_order_neighbors_and_processes(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = score_challenge(translator, PAIRS).scored
    backward = score_challenge(translator, PAIRS[::-1]).scored[::-1]
    monkeypatch.setattr("seq2seq.evaluation.challenge.WINDOW", 3)
    shared = score_challenge(translator, PAIRS * 2, parallelism=Parallelism(workers=2)).scored
    for others in (backward, shared[:4], shared[4:]):
        for one, other in zip(once, others, strict=True):
            assert one.total == pytest.approx(other.total, abs=1e-4)
            assert one.per_piece == pytest.approx(other.per_piece, abs=1e-4)


def test_scores_by_phenomenon_and_of_all(translator: Translator) -> None:
    found = score_challenge(translator, PAIRS)
    rows = {row.phenomenon: row for row in found.phenomena}
    assert {name: (row.pairs, row.total["percent"]) for name, row in rows.items()} == {
        "noun": (2, 100), "verb": (2, 50), "all": (4, 75)
    }  # fmt: skip
    assert rows["verb"].failures == rows["all"].failures == [found.scored[3]]
    assert rows["noun"].failures == []
    assert [row.phenomenon for row in score_challenge(translator, PAIRS[:2]).phenomena] == ["noun"]


def test_translations_with_the_same_pieces_are_a_failure(translator: Translator) -> None:
    # Both are unknown characters, so that the model cannot tell one from the other.
    same = MinimalPair("tie", "gato", "猫", "狗")
    pieces = [part.target_pieces for part in translator.force_decode(["gato"] * 2, ["猫", "狗"])]
    found = score_challenge(translator, [same])
    if pieces[0] == pieces[1]:
        assert found.scored == [same]
        assert found.phenomena[0].total["percent"] == 0
    else:
        assert found.scored[0].total != 0


def test_a_tie_is_not_right() -> None:
    assert accuracy([0.0, 1.0])["percent"] == 50


@pytest.mark.parametrize(("right", "size"), [(0, 10), (10, 10), (81, 100), (1, 2), (3, 1800)])
def test_interval_ends_where_a_score_test_just_rejects(right: int, size: int) -> None:
    """At each end p, the share is 1.96 standard errors of p away (Wilson 1927)."""
    found = accuracy([1.0] * right + [-1.0] * (size - right))
    assert found["percent"] == pytest.approx(100 * right / size)
    assert 0 <= found["low"] <= found["percent"] <= found["high"] <= 100
    for end in {found["low"] / 100, found["high"] / 100} - {0.0, 1.0}:
        deviation = abs(right / size - end) / math.sqrt(end * (1 - end) / size)
        assert deviation == pytest.approx(1.96, abs=1e-4)


def test_table_and_json(translator: Translator) -> None:
    found = score_challenge(translator, PAIRS)
    head, noun, verb, every = found.as_text().splitlines()
    assert " ".join(head.split()) == "phenomenon pairs right % 95 % per piece % 95 %"
    assert " ".join(noun.split()) == "noun 2 100.0 34.2 to 100.0 100.0 34.2 to 100.0"
    assert verb.split()[:6] == ["verb", "2", "50.0", "9.5", "to", "90.5"]
    assert every.split()[:3] == ["all", "4", "75.0"]
    assert head.index("95 %") == noun.index("34.2")
    rows = json.loads(json.dumps(found.as_dict()))["phenomena"]
    assert [row["pairs"] for row in rows] == [2, 2, 4]
    assert MinimalPair(**rows[1]["failures"][0]) == found.scored[3]


def test_evaluate_prints_writes_and_shows_the_scores(
    trained: Path, toy: ToyCorpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "".join(f"{p.phenomenon}\t{p.source}\t{p.right}\t{p.wrong}\n" for p in PAIRS * 10)
    path, hypotheses = written(tmp_path, text), tmp_path / "h.txt"
    command = ["evaluate", str(trained), "--challenge", path, "-o", str(hypotheses), "--beam", "1"]
    assert cli.main([*command, "--json", "--robustness", "--report", str(tmp_path)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["sentences"] == 40  # the pairs are the test set
    rows = {row["phenomenon"]: row for row in printed["challenge"]["phenomena"]}
    assert rows["verb"]["total"]["percent"] == 50
    assert rows["verb"]["failures"][0]["right"] == "cat"
    saved = json.loads((tmp_path / "h.challenge.json").read_text(encoding="utf-8"))
    assert saved["phenomena"] == printed["challenge"]["phenomena"]
    assert [row["wrong"] for row in saved["scored"][:4]] == [pair.wrong for pair in PAIRS]
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["tables"] == {name: printed[name] for name in ("robustness", "challenge")}
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    Tags(page)
    for shown in ("Right and wrong translations", "Text as people type it", "<mark>dog</mark>"):
        assert shown in page
    assert cli.main([*command[:2], str(toy.folder / "test.tsv"), *command[2:]]) == 0
    out = capsys.readouterr().out
    assert "20 lines" in out
    assert "\n\nphenomenon " in out


@pytest.mark.parametrize("arguments", [[], ["--challenge", "a.tsv", "--target", "b.txt"]])
def test_evaluate_needs_a_test_set(
    trained: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert cli.main(["evaluate", str(trained), *arguments]) == 2
    assert "no test set: give TEST, or minimal pairs with --challenge" in capsys.readouterr().err
