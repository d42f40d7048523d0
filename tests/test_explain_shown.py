"""Explanations as tables and as a page."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import toy_pairs
from explaining import CONFIGS, every_model, with_model

from seq2seq import cli
from seq2seq.analysis.explain import explain
from seq2seq.analysis.explanation import Explanation
from seq2seq.analysis.show import notebook_html, print_explanation, render_page
from seq2seq.config import ModelConfig, TokenizerConfig
from seq2seq.data.tokenizer import train_tokenizer
from seq2seq.errors import DataError
from seq2seq.inference.translator import Translator

NASTY = "</script><script>alert('á')</script> {{data}} [bold]pan[/] <!-- & \u2028 gato"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained, backend="torch")


@pytest.fixture(scope="module")
def found(translator: Translator) -> Explanation:
    return explain(translator, "gato come pan")


def printed(explanation: Explanation, *, number: int | None = None, words: bool = False) -> str:
    file = io.StringIO()
    print_explanation(explanation, file, number=number, words=words)
    return file.getvalue()


def test_marks_for_capitals_are_shown_as_keys(translator: Translator, found: Explanation) -> None:
    config = TokenizerConfig(case_marks=True)
    texts = ["Perro de Ana", "gato y pan"] * 9
    tokenizer = train_tokenizer(texts, config=config, vocab_size=280, name="joint")
    marked = Translator([], tokenizer, tokenizer, translator.config)
    explanation = explain(with_model(marked, CONFIGS["additive-conditional-0"]), "EL PERRO de Ana")
    text = printed(explanation)
    legend = "(▁ begins a word, ⇧ a capital, ⇪ a word in capitals)"
    assert legend in " ".join(text.split())
    assert "▁⇪" in text
    assert not set("ↄↃ") & set(text)
    assert "▁Ↄ" in {piece.piece for piece in explanation.source.pieces}  # as it is, for programs
    html = notebook_html(explanation)
    assert "· continues a word, ⇧ a capital, ⇪ a word in capitals." in html
    assert not set("ↄↃ") & set(html)
    assert "⇧" not in printed(found) + notebook_html(found)


def test_step_has_a_row_for_each_position(found: Explanation) -> None:
    text = printed(found, number=2)
    attention = found.steps[1].attention
    assert attention is not None
    rows = re.findall(r"^ +(\d+)  (\S+) +(-?[\d.]+) +(-?[\d.]+|-inf) +([\d.]+)", text, re.MULTILINE)
    assert [int(row[0]) for row in rows] == list(range(1, len(found.source.pieces) + 1))
    for place, (_, piece, score, masked, weight) in enumerate(rows):
        real = place < found.source.length
        assert piece == found.source.pieces[place].piece or piece in ("(end)", "(padding)")
        assert score == f"{attention.scores_S[place]:.4f}"
        assert masked == (score if real else "-inf")
        assert weight == f"{attention.weights_S[place]:.4f}"
    assert re.search(r"^ +sum +1\.000000$", text, re.MULTILINE)
    assert f"Step 2 of {len(found.steps)}: reads " in text
    # The state of padding is zero.
    assert re.search(rf"^h_{found.source.length + 1} .*\(0.000, 0.000, .*\(padding\)", text, re.M)
    assert "All steps" not in text


def test_default_has_a_row_for_each_step(found: Explanation) -> None:
    head, _, summary = printed(found).partition("All steps\n")
    assert "Step 1 of" in head
    rows = [line for line in summary.splitlines() if re.match(r" +\d+  ", line)]
    assert len(rows) == len(found.steps)
    words = printed(found, words=True)
    assert "All steps" not in words
    for word in found.part.text.split():
        [row] = re.findall(rf"^{word} +1\.0000 .*", words, re.MULTILINE)
        assert re.search(r"(gato|come|pan|\(end\)) 0\.\d\d", row)


def test_lines_are_as_wide_as_a_terminal(
    found: Explanation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    plain, terminal = printed(found), Terminal()
    assert 60 < max(map(len, plain.splitlines())) <= 110
    assert all(line == line.rstrip() for line in plain.splitlines())
    print_explanation(found, terminal)
    assert max(map(len, terminal.getvalue().splitlines())) <= 60
    # Numbers are never cut, however narrow the terminal is.
    assert "1.000000" in terminal.getvalue()


@every_model
def test_every_model_can_be_shown(translator: Translator, config: ModelConfig) -> None:
    explanation = explain(with_model(translator, config), "gato come pan", target="cat eats")
    text = printed(explanation)
    score, style = config.attention.score, config.style
    assert f"style {style}, score {score}" in text
    assert {
        "bahdanau": "s_(i-1), the",
        "conditional": "s'_i =",
        "luong": "s_i, the",
        "pre_attention": "q_i, the",
    }[style] in text
    assert ("the query is added" in text) == config.residual
    assert ("-inf" in text) == (score != "none")
    assert ("the summary" in text) == (score == "none")
    assert ("Head 2" in text) == (score == "multi_head")
    assert ("x 0.5: 1/sqrt(4)" in text) == (score == "scaled_dot")
    tables = 1 if config.attention.heads == 1 else config.attention.heads + 1
    assert len(re.findall(r" sum .*1\.000000", text)) == tables * (score != "none")
    if score == "none":
        assert "no weights between words" in printed(explanation, words=True)
        with pytest.raises(DataError, match="model has attention"):
            render_page(explanation)


def test_given_words_unknown_to_the_tokenizer(trained: Path) -> None:
    translator = Translator.load(trained, backend="torch")
    config = TokenizerConfig(byte_fallback=False)
    texts = [target for _, target in toy_pairs(200, 0)]
    translator.target = train_tokenizer(texts, config=config, vocab_size=100, name="target")
    translator = with_model(translator, CONFIGS["additive-bahdanau-0"])
    explanation = explain(translator, "gato come", target="cat 漢 eats")
    words = explanation.as_json()["words"]
    assert words["target"] == ["cat", "漢", "eats"]
    assert len(words["weights"]) == 3
    assert "漢" in printed(explanation, words=True)


def test_markup_is_printed_literally(translator: Translator) -> None:
    text = printed(explain(translator, "[bold]pan[/bold] :cat:", target="[red]"))
    assert "[bold]pan[/bold] :cat:" in text
    assert "[red]" in text


class Page(HTMLParser):
    """What a browser would find: tags, attributes, texts, and the data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def scripts(self) -> list[str | None]:
        return [attributes.get("type") for tag, attributes in self.tags if tag == "script"]


@pytest.mark.parametrize("sentence", ["gato come pan", NASTY])
@pytest.mark.parametrize("words", [False, True])
def test_page_holds_the_json_and_loads_nothing(
    translator: Translator, sentence: str, words: bool
) -> None:
    roomy = with_model(translator, translator.config.model)
    limit = roomy.config.inference.model_copy(update={"max_source_length": 200})
    roomy.config = roomy.config.model_copy(update={"inference": limit})
    explanation = explain(roomy, sentence, target=NASTY)
    text = render_page(explanation, words=words)
    page = Page(text)
    # The sentence has made no tag of its own.
    assert page.scripts() == ["application/json", "module"]
    embedded = json.loads(page.texts["script"][0])
    assert embedded == json.loads(json.dumps(explanation.as_json()))
    assert embedded["source"] == explanation.part.source
    assert embedded["translation"] == explanation.part.text
    checked = [a["value"] for tag, a in page.tags if tag == "input" and "checked" in a]
    assert checked == ["words" if words else "pieces"]
    assert page.texts["title"] == [f"Attention: {explanation.part.source}"]
    for _, attributes in page.tags:
        assert not {"src", "href", "action", "onload", "onclick"} & attributes.keys()
    template = text.replace(page.texts["script"][0], "")
    assert not re.search(r"https?:|//[a-z]|url\(|@import|innerHTML|eval\(|fetch\(", template)
    policy = [a["content"] for _, a in page.tags if a.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"]


def test_page_is_written(
    trained: Path, found: Explanation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.html"
    command = ["explain", str(trained), "gato come pan", "--html"]
    assert cli.main([*command, str(path)]) == 0
    assert path.read_text(encoding="utf-8") == render_page(found)
    capsys.readouterr()
    assert cli.main([*command, str(tmp_path / "none/page.html")]) == 2
    output = capsys.readouterr()
    assert "none/page.html: cannot be written" in output.err
    assert output.out == ""
