"""Translations and explanations as HTML for notebooks, and docs/attention.ipynb."""

from __future__ import annotations

import json
import re
import sys
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import toy_pairs
from explaining import CONFIGS, with_model

from documentation.notebook import PAGE, executed
from seq2seq.analysis.explain import explain
from seq2seq.analysis.heatmaps import (
    MOST_PARTS,
    MOST_PIECES,
    attention_figure,
    piece_label,
)
from seq2seq.analysis.show import notebook_html
from seq2seq.inference.text import Part, Translation
from seq2seq.inference.translator import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NASTY = "<script>alert('á')</script> & \"]]> <img src=x onerror=y> --> gato"


@pytest.fixture(scope="module")
def translator(single: Path) -> Translator:
    return Translator.load(single)


@pytest.fixture(scope="module")
def by_torch(single: Path) -> Translator:
    return Translator.load(single, backend="torch")


def part(source: list[str], target: list[str], weights: Any = None) -> Part:
    """Return a part with these pieces."""
    texts = " ".join(source), " ".join(target)
    return Part(texts[0], source, target, texts[1], -0.5, -1.0, True, weights)


def pictures(html: str) -> list[bytes]:
    """Return the pictures in some HTML, which is also well-formed XML."""
    images = ElementTree.fromstring(html).iter("img")
    sources = [image.attrib["src"].partition("data:image/png;base64,")[2] for image in images]
    found = [b64decode(source, validate=True) for source in sources]
    assert all(picture.startswith(b"\x89PNG") for picture in found)
    return found


def test_translation_shows_source_text_score_and_weights(translator: Translator) -> None:
    options = translator.options(keep_weights=True)
    for source, _ in toy_pairs(5, seed=7):
        [[found]] = translator.translate([source], options)
        html = found._repr_html_()
        assert f"<p>{source}<br/><b>{found.text}</b></p>" in html
        assert f"score = {found.score:.3f}" in html
        assert len(pictures(html)) == 1
        [image], [only] = ElementTree.fromstring(html).iter("img"), found.parts
        assert only.weights is not None
        heaviest = [only.source_pieces[place] for place in only.weights.argmax(1)]
        rows = zip(only.target_pieces, heaviest, only.weights.max(1), strict=True)
        spoken = [f"{piece_label(t)}: {piece_label(s)} {weight:.2f}" for t, s, weight in rows]
        assert image.attrib["alt"].partition("piece: ")[2] == ", ".join(spoken)


@pytest.mark.parametrize("shows", [Translation.__name__, Part.__name__])
def test_everything_of_the_user_is_escaped(shows: str) -> None:
    found = part([NASTY, "</s>"], [NASTY[::-1], "</s>"], np.full((2, 2), 0.5))
    html = (Translation([found]) if shows == "Translation" else found)._repr_html_()
    root = ElementTree.fromstring(html)
    assert {element.tag for element in root.iter()} == {"div", "p", "br", "b", "small", "img"}
    assert root[0].text == " ".join([NASTY, "</s>"])
    assert len(pictures(html)) == 1


def test_nothing_is_loaded(translator: Translator, by_torch: Translator) -> None:
    options = translator.options(keep_weights=True)
    [[found]] = translator.translate(["gato come pan"], options)
    for html in (found._repr_html_(), explain(by_torch, "gato come pan")._repr_html_()):
        assert pictures(html)
        assert not re.search(r"https?:|url\(|@import|<script|javascript:|href", html.lower())


def test_weights_that_were_not_kept(translator: Translator) -> None:
    [[found]] = translator.translate(["gato come pan"])
    for html in (found._repr_html_(), found.parts[0]._repr_html_()):
        assert "keep_weights=True" in html
        assert not pictures(html)


def test_model_without_attention(by_torch: Translator) -> None:
    without = with_model(by_torch, CONFIGS["none-bahdanau-0"])
    [[found]] = without.translate(["gato come"], without.options(keep_weights=True))
    assert "the model has none (attention.score none)" in found._repr_html_()
    html = explain(without, "gato come", target="cat eats")._repr_html_()
    assert "the model has none (attention.score none)" in html
    assert not pictures(html)


def test_empty_line(translator: Translator) -> None:
    [[found]] = translator.translate([""])
    assert "nothing was translated" in found._repr_html_()


def test_long_line_has_a_picture_of_its_first_sentences(translator: Translator) -> None:
    limit = translator.config.inference.max_source_length
    options = translator.options(keep_weights=True)
    [[found]] = translator.translate(["gato come pan. " * limit], options)
    assert len(found.parts) > MOST_PARTS
    html = found._repr_html_()
    assert len(pictures(html)) == 1
    [image] = ElementTree.fromstring(html).iter("img")
    assert image.attrib["alt"].count("(end): ") == MOST_PARTS
    assert f"Shown are at most {MOST_PARTS} sentences" in html


def test_large_picture_is_cropped_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Part] = []

    def draw(parts: list[Part]) -> Figure:
        drawn.extend(parts)
        return attention_figure(parts)

    monkeypatch.setattr("seq2seq.analysis.heatmaps.attention_figure", draw)
    length = 2 * MOST_PIECES
    even = np.full((length, length), 1 / 8)  # no row of attention has more and larger weights
    large = part(["▁x"] * length, ["▁y"] * length, even)
    monkeypatch.setattr("seq2seq.analysis.heatmaps.MOST_PARTS", 1)  # each takes seconds
    html = Translation([large] * 9)._repr_html_()
    assert MOST_PARTS * len(html) < 2_000_000
    assert f"and {MOST_PIECES} pieces of each side." in html
    assert len(pictures(html)) == len(drawn) == 1
    for each in drawn:
        assert each.weights is not None
        assert each.weights.shape == (len(each.target_pieces), len(each.source_pieces))
        assert each.weights.shape == (MOST_PIECES, MOST_PIECES)


@pytest.mark.parametrize("name", ["additive-bahdanau-0", "multi_head-luong-0", "none-luong-0"])
def test_explanation_has_each_step(by_torch: Translator, name: str) -> None:
    found = explain(with_model(by_torch, CONFIGS[name]), "gato [bold] <b> come pan")
    root = ElementTree.fromstring(found._repr_html_())
    details = [(summary.text or "", pre.text or "") for summary, pre in root.findall("details")]
    assert details[0][0].startswith("Once per sentence")
    assert len(details) == 1 + min(len(found.steps), MOST_PIECES)
    for step, (summary, text) in zip(found.steps, details[1:], strict=False):
        assert "\ufffd" not in summary + text  # no escape sequences
        assert summary.startswith(f"Step {step.number} of {len(found.steps)}: reads ")
        assert f"{step.candidates[0].probability:.4f}" in text
        if step.attention is not None:
            for score in step.attention.scores_S.flatten():
                assert f"{score:.4f}" in text


def test_explanation_with_many_steps_shows_the_first(by_torch: Translator) -> None:
    found = explain(by_torch, "gato", target="cat eats " * 40)
    assert len(found.steps) > MOST_PIECES
    html = notebook_html(found)
    assert html.count("<details>") == 1 + MOST_PIECES
    assert f"Shown are {MOST_PIECES} of {len(found.steps)} steps." in html


def test_repr_of_an_explanation_is_short(by_torch: Translator) -> None:
    assert len(repr(explain(by_torch, "gato come pan"))) < 5_000


def test_nothing_is_drawn_before_it_is_shown(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("drawn")

    monkeypatch.setattr("seq2seq.analysis.heatmaps.attention_figure", fail)
    [[found]] = translator.translate(["gato come"], translator.options(keep_weights=True))
    with pytest.raises(AssertionError, match="drawn"):
        found._repr_html_()


def test_texts_are_shown_without_matplotlib(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    [[found]] = translator.translate(["gato come"], translator.options(keep_weights=True))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    html = found._repr_html_()
    assert f"<b>{found.text}</b>" in html
    assert "pip install &#x27;attentional-seq2seq[plot]&#x27;" in html
    assert not pictures(html)


def test_repr_is_shown_without_the_analysis(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    [[found]] = translator.translate(["gato come"])
    monkeypatch.setattr("seq2seq.wings._offers", {})
    assert found._repr_html_() is None
    assert found.parts[0]._repr_html_() is None


# --- docs/attention.ipynb


def outputs(notebook: Any) -> dict[str, str]:
    """Return what the code cells print, by their id."""
    return {
        cell["id"]: "".join("".join(out["text"]) for out in cell["outputs"] if "text" in out)
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    }


def test_committed_notebook_is_clean() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(text) < 500_000
    notebook = json.loads(text)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    for cell in notebook["cells"]:
        assert cell["metadata"] == {}
        for out in cell.get("outputs", []):
            assert out["output_type"] in ("stream", "execute_result")
            assert out.get("name", "stdout") == "stdout"
            for shown in out.get("data", {}).values():
                check_no_path("".join(shown))
        check_no_path("".join(outputs({"cells": [cell]}).values()) + "".join(cell["source"]))


def check_no_path(text: str) -> None:
    """Check that a text names no place of the machine, and no date."""
    hidden = re.sub(r"base64,[\w+/=]*", "", text)
    assert not re.search(r"(?<![\w<.])/(?:home|root|tmp|usr|work|opt|var|Users)\b", hidden)
    assert not re.search(r"20\d\d-\d\d-\d\d", hidden)


def test_links_of_the_notebook_exist() -> None:
    text = "".join("".join(cell["source"]) + "\n" for cell in json.loads(PAGE.read_text())["cells"])
    headings = {line.strip("# ").replace(" ", "-") for line in text.splitlines() if line[:1] == "#"}
    links = re.findall(r"\]\((.*?)\)", text)
    assert links
    for link in links:
        found = link[1:] in headings if link.startswith("#") else (PAGE.parent / link).exists()
        assert found, link


def test_notebook_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notebook's own assertions compare NumPy with the model."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    new = executed()
    committed = json.loads(PAGE.read_text(encoding="utf-8"))
    assert outputs(new) == outputs(committed), (
        f"{PAGE.name} has other outputs now; if they are right, run: "
        "python scripts/documentation/notebook.py"
    )
    for cells in (new["cells"], committed["cells"]):
        shown = [
            out["data"]["text/html"]
            for cell in cells
            for out in cell.get("outputs", [])
            if "data" in out
        ]
        assert [len(pictures("".join(html))) for html in shown] == [1, 1]
