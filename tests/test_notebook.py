"""Translations and explanations as HTML for notebooks, and docs/attention.ipynb."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import toy_pairs
from explaining import CONFIGS, with_model

from notebook import PAGE, executed
from seq2seq.analysis.explain import explain
from seq2seq.analysis.notebook import MOST_PARTS, MOST_PIECES, attention_svg, piece_label
from seq2seq.analysis.show import notebook_html
from seq2seq.inference.text import Part, Translation
from seq2seq.inference.translator import Translator

NASTY = "<script>alert('á')</script> & \"]]> <img src=x onerror=y> --> gato\x00\x1b\ufffe\ud800"
SVG = "{http://www.w3.org/2000/svg}"


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


def pictures(html: str) -> list[ElementTree.Element]:
    """Return the pictures in some HTML, which is also well-formed XML."""
    images = ElementTree.fromstring(html).iter("img")
    sources = [image.attrib["src"].partition("data:image/svg+xml;base64,")[2] for image in images]
    return [ElementTree.fromstring(b64decode(source, validate=True)) for source in sources]


def drawn(svg: ElementTree.Element, shape: tuple[int, int]) -> tuple[Any, Any]:
    """Return the opacities and the numbers of the cells, each where it is in the picture."""
    columns, rows = (
        sorted({int(found) for line in svg.iter(f"{SVG}path") if line.get("class") == "lines"
                for found in re.findall(pattern, line.attrib["d"])})
        for pattern in (r"M(\d+) \d+V", r"M\d+ (\d+)H")
    )  # fmt: skip
    assert (len(rows) - 1, len(columns) - 1) == shape
    opacities, numbers = np.zeros(shape), np.zeros(shape)
    for cell in svg.iter(f"{SVG}path"):
        if cell.get("class") == "heat":
            corner = re.match(r"M(\d+) (\d+)h", cell.attrib["d"])
            assert corner
            place = rows.index(int(corner[2])), columns.index(int(corner[1]))
            opacities[place] = float(cell.attrib["fill-opacity"])
    for text in svg.iter(f"{SVG}text"):
        if text.get("class", "").startswith("weight"):
            x, y = float(text.attrib["x"]), float(text.attrib["y"])
            place = np.searchsorted(rows, y) - 1, np.searchsorted(columns, x) - 1
            numbers[place] = float(text.text or "")
    return opacities, numbers


def labels(svg: ElementTree.Element) -> tuple[list[str | None], list[str | None]]:
    texts = list(svg.iter(f"{SVG}text"))
    source = [text.text for text in texts if "class" not in text.attrib]
    return source, [text.text for text in texts if text.get("class") == "target"]


def test_translation_shows_source_text_score_and_weights(translator: Translator) -> None:
    options = translator.options(keep_weights=True)
    for source, _ in toy_pairs(5, seed=7):
        [[found]] = translator.translate([source], options)
        html = found._repr_html_()
        assert f"<p>{source}<br/><b>{found.text}</b></p>" in html
        assert f"score = {found.score:.3f}" in html
        [picture], [only] = pictures(html), found.parts
        assert only.weights is not None
        opacities, numbers = drawn(picture, only.weights.shape)
        np.testing.assert_allclose(opacities, only.weights, atol=0.0051)
        shown = only.weights >= 0.05
        np.testing.assert_allclose(numbers[shown], only.weights[shown], atol=0.0051)
        assert not numbers[~shown].any()
        pieces = only.source_pieces, only.target_pieces
        assert labels(picture) == tuple([piece_label(piece) for piece in side] for side in pieces)


def luminance(color: str) -> float:
    """Return the relative luminance of #rrggbb, as WCAG 2.2 defines it."""
    shares = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_has_contrast_upon_the_strongest_color() -> None:
    svg, _ = attention_svg(part(["▁a"], ["</s>"], np.array([[1.0]])))
    light, dark = svg.split("prefers-color-scheme:dark")
    for theme in (light, dark):
        found = [
            re.search(rf"{what}{{[^}}]*fill:(#[0-9a-f]{{6}})", theme)
            for what in ("text", r"\.heat")
        ]
        low, high = sorted(luminance(match[1]) for match in found if match)
        assert (high + 0.05) / (low + 0.05) >= 4.5


def test_picture_has_room_for_its_labels() -> None:
    """In a browser no label is cut; here, the widths are estimated from above."""
    wide = part(["▁漢字漢字", "▁Donaudampfschiff"], ["▁incomprehensibility"], np.full((1, 2), 0.5))
    svg, width = attention_svg(wide)
    root = ElementTree.fromstring(svg)
    assert float(root.attrib["width"]) == width
    *_, last, target = (text for text in root.iter(f"{SVG}text") if text.get("class") is None
                        or text.get("class") == "target")  # fmt: skip
    assert target.text == "incomprehensibility"
    assert float(target.attrib["x"]) > 7 * len(target.text)
    start = re.match(r"translate\((\d+) (\d+)\) rotate\(-60\)", last.attrib["transform"])
    assert start
    length = 7 * len(last.text or "")
    assert int(start[1]) + 0.5 * length < width
    assert int(start[2]) - 0.86 * length > 0


@pytest.mark.parametrize("shows", [Translation.__name__, Part.__name__])
def test_everything_of_the_user_is_escaped(shows: str) -> None:
    found = part([NASTY, "</s>"], [NASTY[::-1], "</s>"], np.full((2, 2), 0.5))
    html = (Translation([found]) if shows == "Translation" else found)._repr_html_()
    root = ElementTree.fromstring(html)
    assert {element.tag for element in root.iter()} == {"div", "p", "br", "b", "small", "img"}
    clean = re.sub("[\x00\x1b\ufffe\ud800]", "\ufffd", NASTY)
    assert root[0].text == " ".join([clean, "</s>"])
    [picture] = pictures(html)
    tags = {element.tag.removeprefix(SVG) for element in picture.iter()}
    assert tags == {"svg", "style", "rect", "text", "path"}
    assert labels(picture)[0] == [f"·{clean}", "(end)"]


def test_nothing_is_loaded(translator: Translator, by_torch: Translator) -> None:
    options = translator.options(keep_weights=True)
    [[found]] = translator.translate(["gato come pan"], options)
    for html in (found._repr_html_(), explain(by_torch, "gato come pan")._repr_html_()):
        text = html.lower() + "".join(ElementTree.tostring(p, "unicode") for p in pictures(html))
        text = text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|url\(|@import|<script|javascript:|href", text)


def test_weights_that_were_not_kept(translator: Translator) -> None:
    [[found]] = translator.translate(["gato come pan"])
    for html in (found._repr_html_(), found.parts[0]._repr_html_()):
        assert "keep_weights=True" in html
        assert not pictures(html)


def test_model_without_attention(by_torch: Translator) -> None:
    without = with_model(by_torch, CONFIGS["none-bahdanau-0"])
    [[found]] = without.translate(["gato come"], without.options(keep_weights=True))
    assert "A model with attention.score none has no weights." in found._repr_html_()
    html = explain(without, "gato come", target="cat eats")._repr_html_()
    assert "The model has no attention (attention.score none)." in html
    assert "keep_weights" not in html
    assert not pictures(html)


def test_empty_line(translator: Translator) -> None:
    [[found]] = translator.translate([""])
    assert "nothing was translated" in found._repr_html_()


def test_long_line_has_few_pictures_of_bounded_size(translator: Translator) -> None:
    limit = translator.config.inference.max_source_length
    options = translator.options(keep_weights=True)
    [[found]] = translator.translate(["gato come pan. " * limit], options)
    assert len(found.parts) > MOST_PARTS
    html = found._repr_html_()
    assert len(pictures(html)) == MOST_PARTS
    assert f"pictures of {MOST_PARTS} of its {len(found.parts)} parts" in html


def test_large_picture_is_cropped_and_says_so() -> None:
    length = 2 * MOST_PIECES
    even = np.full((length, length), 1 / 8)  # no row of attention has more and larger weights
    large = part(["▁x"] * length, ["▁y"] * length, even)
    html = Translation([large] * 9)._repr_html_()
    assert len(html) < 2_000_000
    for side in ("source", "target"):
        assert f"Shown are the first {MOST_PIECES} of {length} {side} pieces." in html
    opacities, _ = drawn(pictures(html)[0], (MOST_PIECES, MOST_PIECES))
    assert (opacities == 0.12).all()


@pytest.mark.parametrize("name", ["additive-bahdanau-0", "multi_head-luong-0", "none-luong-0"])
def test_explanation_has_each_step(
    by_torch: Translator, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a notebook
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

    monkeypatch.setattr("seq2seq.analysis.notebook.attention_svg", fail)
    [[found]] = translator.translate(["gato come"], translator.options(keep_weights=True))
    with pytest.raises(AssertionError, match="drawn"):
        found._repr_html_()


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
        f"{PAGE.name} has other outputs now; if they are right, run: python scripts/notebook.py"
    )
    for cells in (new["cells"], committed["cells"]):
        shown = [
            out["data"]["text/html"]
            for cell in cells
            for out in cell.get("outputs", [])
            if "data" in out
        ]
        assert [len(pictures("".join(html))) for html in shown] == [1, 1]
