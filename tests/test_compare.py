from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import toy_pairs
from sacrebleu.metrics import CHRF
from test_report import EVIL, Tags

from seq2seq import cli
from seq2seq.analysis import to_json
from seq2seq.analysis.compare import SystemComparison, compare, comparison_text
from seq2seq.analysis.pages import render
from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError

PAIRS = [
    Pair("uno", "one cat sat here", ("a cat was here",)),
    Pair("dos", "two dogs ran away"),
    Pair("tres", "three birds flew south"),
    Pair(EVIL, EVIL),
] * 6
FIRST = ["one cat sat here", "two dogs ran", "three birds", EVIL] * 6
SECOND = ["a cat was here", "two dogs ran away", "three birds x", "nothing"] * 6


def run(*arguments: object) -> int:
    try:
        return cli.main(["compare", *map(str, arguments)])
    except SystemExit as end:
        return int(end.code or 0)


def test_all_references_count() -> None:
    found = compare({"a": FIRST, "b": SECOND, "c": FIRST}, PAIRS, "en", resamples=100)
    worse = CHRF().sentence_score("three birds x", [PAIRS[2].target]).score
    better = CHRF().sentence_score("three birds", [PAIRS[2].target]).score
    assert worse != better  # one of them wins
    gained = 6 * (1 + (worse > better))
    assert found.against_the_first == {
        "b": {"better": gained, "equal": 6, "worse": 18 - gained, "same_text": 0},
        "c": {"better": 0, "equal": 24, "worse": 0, "same_text": 24},
    }
    assert found.metrics["a"]["bleu"].p_value is None
    assert found.metrics["c"]["bleu"].p_value == 1
    spreads = [each.spread for each in found.differences]
    assert spreads == sorted(spreads, reverse=True)
    assert {each.number for each in found.differences[:6]} == {4, 8, 12, 16, 20, 24}
    assert all(each.source != "uno" for each in found.differences)
    assert len(found.differences) == 18
    plain = to_json(found)
    assert json.loads(json.dumps(plain)) == plain
    assert plain["against_the_first"]["b"]["same_text"] == 0


def test_randomization() -> None:
    better = [pair.target for pair in PAIRS]
    found = compare({"a": SECOND, "b": better}, PAIRS, "en", test="randomization", resamples=500)
    metric = found.metrics["b"]["bleu"]
    assert metric.p_value is not None
    assert metric.p_value < 0.05
    assert "ar:500|" in metric.signature
    assert metric.interval is None
    same = compare({"a": SECOND, "b": SECOND}, PAIRS, "en", test="randomization", resamples=500)
    assert same.metrics["b"]["bleu"].p_value == 1
    assert same.differences == []


def test_few_differing_sentences_are_not_significant() -> None:
    base = [pair.target for pair in PAIRS]
    for count, least in ((1, 1.0), (3, 0.25)):
        worse = ["nothing like it", *base[1:]] if count == 1 else ["no"] * count + base[count:]
        found = compare({"a": base, "b": worse}, PAIRS, "en", test="randomization", resamples=500)
        p_value = found.metrics["b"]["bleu"].p_value
        assert p_value is not None
        assert p_value >= least


def page(comparison: SystemComparison, test: str) -> str:
    return render("comparison.html", comparison=comparison, test=test)


def test_page_and_text() -> None:
    found = compare({"a": FIRST, "<b>": SECOND}, PAIRS, "en", resamples=100)
    tags = Tags(page(found, "t<e>st"))
    assert not {tag for tag, _ in tags.seen} & {"script", "img", "b", "e"}
    text = "".join(tags.texts)
    for words in ("<b>", "t<e>st", "paired bootstrap", "6 equal", EVIL, "nrefs:var|bs:100"):
        assert words in text
    lines = comparison_text(found).splitlines()
    assert lines[0].startswith("a    BLEU ")
    assert lines[1].startswith("<b>  BLEU ")
    assert "(p" in lines[1]
    assert "(p" not in lines[0]
    Tags(page(compare({"a": FIRST, "b": FIRST}, PAIRS, "en", resamples=10), "t"))


def test_too_few_systems_or_sentences_raise() -> None:
    with pytest.raises(DataError, match="two or more systems"):
        compare({"a": FIRST}, PAIRS, "en")
    with pytest.raises(DataError, match="0 hypotheses"):
        compare({"a": [], "b": []}, [], "en")


def test_command(
    trained: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = tmp_path / "test.tsv"
    test.write_text("".join(f"{s}\t{t}\tx\n" for s, t in toy_pairs(30, 11)))
    html = tmp_path / "c.html"
    assert run(trained, other, test, "--html", html, "--resamples", 200, "--beam", 1) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{trained}")
    assert "(p < 0.001)" in lines[1] or "(p = 0.005)" in lines[1]
    assert "nrefs:2|bs:200" in "".join(lines)
    assert str(other) in "".join(Tags(html.read_text()).texts)
    assert run(trained, other, trained / "checkpoints/step-000050", test, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["systems"]) == 3
    assert found["metrics"][str(trained)]["bleu"]["score"] > 90
    assert found["metrics"][str(other)]["bleu"]["p_value"] < 0.05


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{run}", "t.tsv"], "needs two or more runs"),
        (["{run}", "{run}", "t.tsv"], "given twice"),
        (["{run}", "none", "t.tsv"], "none: not a run directory"),
        (["{run}", "{other}", "none.tsv"], "none.tsv: no such file"),
    ],
)
def test_user_errors_print_one_line_and_exit_2(
    trained: Path, other: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    places = {"{run}": str(trained), "{other}": str(other)}
    assert run(*(places.get(argument, argument) for argument in arguments)) == 2
    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("seq2seq")]
    assert len(errors) == 1
    assert words in errors[0]
