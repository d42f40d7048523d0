from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from conftest import toy_pairs

from seq2seq import cli
from seq2seq.analysis import to_json
from seq2seq.analysis.pages import ENVIRONMENT, marked
from seq2seq.analysis.report import Report, make_report, write_report
from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import evaluate
from seq2seq.inference.text import Part
from seq2seq.inference.translator import Translator

EVIL = "<script>alert(1)</script> & \"quoted\" 'text' <img src=//x onerror=y>"
VOID = {"meta", "br"}


class Tags(HTMLParser):
    """Check that all tags are closed, and collect them with their texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID and tag != "td":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "td":
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained)


@pytest.fixture(scope="module")
def measure(translator: Translator) -> Callable[[list[Pair]], Report]:
    def measured(pairs: list[Pair]) -> Report:
        options = translator.options(keep_weights=True)
        return make_report(translator, pairs, evaluate(translator, pairs, options, resamples=50))

    return measured


@pytest.fixture(scope="module")
def report(measure: Callable[[list[Pair]], Report]) -> Report:
    gold = [Pair(s, t, alignment="0-0") for s, t in toy_pairs(25, 4)]
    return measure([*gold, Pair("gato " * 50, "a cat " * 3, alignment="0-1"),
                    Pair("perro", EVIL, alignment="")])  # fmt: skip


def test_figures_cover_the_test_set(report: Report) -> None:
    assert report.sentences == 27
    assert sum(scores.sentences for scores in report.by_source_length) == 27
    assert set(report.metrics) == {"bleu", "chrf", "ter"}
    assert all(metric.interval is not None for metric in report.metrics.values())
    assert report.attention is not None
    assert 0 < report.attention["relative_entropy"] < 1
    assert report.alignment is not None
    assert report.alignment.sure == 26
    assert report.unknown_pieces["sources"] == 0
    assert report.unknown_pieces["references"] > 0  # what the toy's alphabet lacks
    assert report.repetition["translations"] > 0
    assert "script" in {error.word for error in report.missing_words}
    scores = [sentence.chrf for sentence in report.worst]
    assert scores == sorted(scores)
    assert {sentence.number for sentence in report.worst[:2]} == {26, 27}
    assert report.best[0].chrf == pytest.approx(100)
    sizes = [len(s.source) for s in report.best if s.chrf == report.best[0].chrf]
    assert sizes == sorted(sizes, reverse=True)


def test_page_is_self_contained_and_escaped(report: Report, tmp_path: Path) -> None:
    html = write_report(tmp_path, report, run="runs/<b>", test=EVIL).read_text()
    tags = Tags(html)
    names = {tag for tag, _ in tags.seen}
    assert not names & {"script", "img", "link", "iframe", "a", "object"}
    assert not any({"src", "href", "onerror"} & attrs.keys() for _, attrs in tags.seen)
    assert "url(" not in html
    assert "@import" not in html
    assert EVIL in "".join(tags.texts)
    text = " ".join(tags.texts)
    for words in (
        "runs/<b> on ",
        "bootstrap",
        "nrefs:1|bs:50|",
        "alignment error rate",
        "coverage",
    ):
        assert words in text
    assert sum(attrs.get("class") == "heat" for _, attrs in tags.seen) >= 20
    assert "prefers-color-scheme: dark" in html
    assert 'name="viewport"' in html


def test_report_without_gold_and_attention(
    translator: Translator, measure: Callable[[list[Pair]], Report], tmp_path: Path
) -> None:
    pairs = [Pair(*pair) for pair in toy_pairs(3, 4)]
    assert measure(pairs).alignment is None
    plain = evaluate(translator, pairs)  # without weights, as a model without attention has it
    found = make_report(translator, pairs, plain)
    assert found.attention is None
    assert 'class="heat"' not in write_report(tmp_path, found, run="r", test="t").read_text()
    assert to_json(found)["attention"] is None


def test_unusable_gold_is_logged(
    measure: Callable[[list[Pair]], Report], caplog: pytest.LogCaptureFixture
) -> None:
    assert measure([Pair("gato", "cat", alignment="7-7")]).alignment is None
    assert "no alignment error in the report: pair 1: link 7-7" in caplog.text


def test_page_and_json_are_written(report: Report, tmp_path: Path) -> None:
    folder = tmp_path / "deep/folder"
    path = write_report(folder, report, run="r", test="t")
    assert path == folder / "report.html"
    found = json.loads((folder / "report.json").read_text())
    assert (found["run"], found["test"], found["sentences"]) == ("r", "t", 27)
    assert found["metrics"]["bleu"]["score"] == report.metrics["bleu"].score
    assert found["worst"][0].keys() == {
        "number", "source", "references", "translation", "chrf", "score",
    }  # fmt: skip
    assert found["alignment"]["sure"] == 26
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        write_report(tmp_path / "file", report, run="r", test="t")


def test_command(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test = tmp_path / "test.tsv"
    test.write_text("".join(f"{s}\t{t}\n" for s, t in toy_pairs(9, 3)))
    output = ("-o", str(tmp_path / "h"))
    command = ["evaluate", str(trained), str(test), *output]
    assert cli.main([*command, "--confidence"]) == 0
    assert " ± " in capsys.readouterr().out
    assert cli.main([*command, "--json", "--report", str(tmp_path / "report")]) == 0
    found = json.loads(capsys.readouterr().out)
    written = json.loads((tmp_path / "report/report.json").read_text())
    assert found["bleu"].items() <= written["metrics"]["bleu"].items()
    assert "interval" in found["bleu"]


def part_of_page(name: str, *arguments: object, caller: Callable[[], str] | None = None) -> Tags:
    """Return what a macro of the templates draws."""
    macro = getattr(ENVIRONMENT.get_template("parts.html").module, name)
    return Tags(macro(*arguments) if caller is None else macro(*arguments, caller=caller))


def test_heat_maps_are_small_and_escaped() -> None:
    weights = torch.tensor([[0.001, 0.999], [0.5, 0.5]])
    part = Part("", ["▁<b>", "</s>"], ["x&y", "</s>"], "", 0.0, 0.0, True, weights)
    tags = part_of_page("heatmap", part)
    assert [attrs.get("style") for tag, attrs in tags.seen if tag == "td"] == [
        None, "--w:1.00", "--w:0.50", "--w:0.50",
    ]  # fmt: skip
    texts = [text for text in tags.texts if text.strip()]
    assert texts[1:] == ["<b>", "(end)", "·x&y", "(end)"]
    plain = part_of_page("heatmap", Part("", ["</s>"], ["</s>"], "", 0.0, 0.0, True))
    assert plain.seen == []


def test_differing_words_are_marked() -> None:
    assert marked("the <cat> sat", "the dog sat") == "the <mark>&lt;cat&gt;</mark> sat"
    assert marked("a b", "a b") == "a b"
    assert marked("b a", "a b") in ("<mark>b</mark> a", "b <mark>a</mark>")
    assert marked("", "a") == ""


def test_tables_escape_and_align_numbers() -> None:
    tags = part_of_page("table", ["x<", ">n"], caller=lambda: EVIL)
    assert "".join(tags.texts).split() == ["x<", "n", *EVIL.split()]
    assert [attrs.get("class") for tag, attrs in tags.seen if tag == "th"] == [None, "n"]
    tags = part_of_page("bar", 2.25)
    assert [text for text in tags.texts if text.strip()] == ["2.2"]
    assert tags.seen == [("td", {"class": "n bar", "style": "--v:2.2"})]
    assert part_of_page("number", EVIL).texts[0] == EVIL
