from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

from seq2seq.analysis import heatmaps, plots
from seq2seq.analysis.heatmaps import attention_figure, pad, plot_sentences
from seq2seq.analysis.plots import (
    fixed_buckets,
    plot_length,
    plot_training,
    run_names,
)
from seq2seq.cli import main
from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError
from seq2seq.evaluation.metrics import score
from seq2seq.inference.text import Part
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import word_attention

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".PNG": b"\x89PNG"}


def part(*target: str) -> Part:
    source = ["▁¿Dónde", "▁está", "▁el", "▁niño", "?", "</s>"]
    weights = np.eye(len(target) + 1, len(source))
    text = "".join(target).replace("▁", " ").strip()
    return Part("¿Dónde está el niño?", source, [*target, "</s>"], text, 0.0, 0.0, True, weights)


def plot_attention(parts: list[Part], path: Path, **options: Any) -> None:
    plots.check_picture(path)
    plots.write_figure(attention_figure(parts, **options), path)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Return the figures, which are not written."""
    figures: list[Figure] = []
    for module in (heatmaps, plots):
        monkeypatch.setattr(module, "write_figure", lambda figure, path: figures.append(figure))
    return figures


def write_font(path: Path, family: str, characters: str) -> str:
    """Write a font with squares for these characters; return its path."""
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for corner in ((0, 500), (500, 500), (500, 0)):
        pen.lineTo(corner)
    pen.closePath()
    names = [".notdef", *(f"u{ord(char):x}" for char in characters)]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(char): f"u{ord(char):x}" for char in characters})
    builder.setupGlyf(dict.fromkeys(names, pen.glyph()))
    builder.setupHorizontalMetrics(dict.fromkeys(names, (600, 0)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": family, "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)
    return str(path)


def test_fonts_are_chosen_that_have_the_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = tmp_path / "damaged.ttf"
    damaged.write_bytes(b"no font")
    fonts = [
        str(damaged),
        write_font(tmp_path / "one.ttf", "One", "猫"),
        write_font(tmp_path / "two.ttf", "Two", "猫犬"),
        write_font(tmp_path / "three.ttf", "Three", "水"),
    ]
    asked: list[str] = []
    monkeypatch.setattr(
        "matplotlib.font_manager.findSystemFonts", lambda: asked.append("") or fonts
    )
    for pieces, families in (
        (["▁猫", "犬"], ["Two"]), (["▁猫水犬"], ["Two", "Three"]), (["▁agua"], []),
    ):  # fmt: skip
        figure = attention_figure([part(*pieces)])
        plots.write_figure(figure, BytesIO(), dots=10)
        label = figure.axes[0].get_yticklabels()[0]
        assert label.get_fontfamily()[1:] == families
    assert len(asked) == 2
    assert not caplog.messages
    for _ in range(2):
        plots.write_figure(attention_figure([part("▁猫家鳥")]), BytesIO(), dots=10)
    assert caplog.messages == [
        "no installed font has characters such as 家 鳥, so they are drawn as boxes; install one, "
        "such as the package fonts-noto-cjk for Chinese, Japanese and Korean"
    ]


@pytest.mark.parametrize("suffix", STARTS)
def test_suffix_selects_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"picture{suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_attention([part("▁where", "▁$5_{^\\", "▁中", "<0xF0>")], path)
    assert path.read_bytes().startswith(STARTS[suffix])


def test_labels_keep_accents(tmp_path: Path) -> None:
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):
        plot_attention([part("▁niña", "s")], tmp_path / "a.svg", languages=("español", ""))
    found = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for text in ("¿Dónde", "niño", "niña", "·s", "(end)", "source pieces (español)"):
        assert text in found


def test_invalid_heat_maps_raise(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.xyz: unknown picture format; use .png, .svg, .pdf"):
        plot_attention([part("▁a")], tmp_path / "a.xyz")
    with pytest.raises(DataError, match="cannot be written"):
        plot_attention([part("▁a")], tmp_path / "none/a.png")
    without = Part(**{**vars(part("▁a")), "weights": None})
    for words in (False, True):
        with pytest.raises(DataError, match="no attention weights"):
            plot_attention([without], tmp_path / "a.png", words=words)
    with pytest.raises(DataError, match="without words"):
        plot_attention([part()], tmp_path / "a.png", words=True)


def test_sentences_are_translated_and_drawn(
    trained: Path, tmp_path: Path, drawn: list[Figure]
) -> None:
    translator = Translator.load(trained)
    plot_sentences(translator, ["gato come pan"], tmp_path / "a.png")
    plot_sentences(translator, ["gato " * 100], tmp_path / "b.pdf", beam=1)
    assert [len(figure.axes) for figure in drawn] == [2, 6]  # 1 and 5 parts, and a scale
    assert "cat" in [label.get_text() for label in drawn[0].axes[0].get_yticklabels()]
    for sentences in ([" \n"], ["gato", ""]):
        with pytest.raises(DataError, match="the sentence is empty"):
            plot_sentences(translator, sentences, tmp_path / "c.png")


def test_given_translation_is_drawn(trained: Path, tmp_path: Path, drawn: list[Figure]) -> None:
    """The weights are those that `explain --force` finds."""
    arguments = [str(trained), "gato come", "--force", "dog  wants bread", "--words"]
    assert main(["plot", "attention", *arguments, "-o", str(tmp_path / "a.png")]) == 0
    assert main(["explain", *arguments, "--plot", str(tmp_path / "b.png")]) == 0
    shown = [figure.axes[0] for figure in drawn]
    for axes in shown:
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert labels == ["dog", "wants", "bread"]
    ours, theirs = (axes.images[0].get_array() for axes in shown)
    assert ours is not None
    assert theirs is not None
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_numbers_in_the_cells_are_the_weights() -> None:
    weights = np.array([[0.953, 0.047, 0.0], [0.05, 0.15, 0.8], [1.0, 0.0, 0.0]])
    found = Part("a b", ["▁a", "▁b", "</s>"], ["▁c", "d", "</s>"], "cd", 0.0, 0.0, True, weights)
    axes = attention_figure([found]).axes[0]
    shown = {text.get_position(): text.get_text() for text in axes.texts}
    assert shown == {(0, 0): ".95", (0, 1): ".05", (1, 1): ".15", (2, 1): ".80", (0, 2): "1.00"}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["c", "·d", "(end)"]


def luminance(color: tuple[float, ...]) -> float:
    """Return the relative luminance of red, green and blue, as WCAG 2.2 defines it."""
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in color[:3]]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_numbers_have_contrast_upon_every_cell() -> None:
    from matplotlib.colors import to_rgba

    weights = np.linspace(0.05, 1, 96)[None]
    pieces = ["▁a"] * weights.size
    axes = attention_figure([Part("a", pieces, ["</s>"], "", 0.0, 0.0, True, weights)]).axes[0]
    assert len(axes.texts) == weights.size
    for text, weight in zip(axes.texts, weights[0], strict=True):
        colors = (to_rgba(text.get_color()), axes.images[0].cmap(float(weight)))
        low, high = sorted(map(luminance, colors))
        assert (high + 0.05) / (low + 0.05) >= 4.5, weight


def test_caption_claims_that_rows_sum_to_1_only_where_they_do() -> None:
    for factor, said in ((1, True), (2, False)):
        weights = factor * np.eye(2)
        found = Part("a", ["▁a", "</s>"], ["▁b", "</s>"], "b", 0.0, 0.0, True, weights)
        captions = [text.get_text() for text in attention_figure([found]).texts]
        assert any("each row sums to 1" in caption for caption in captions) == said


@pytest.mark.parametrize("words", ["▁incomprehensibility", "▁漢字漢字漢字", "▁a"])
def test_labels_are_inside_the_picture(words: str) -> None:
    pieces = ["▁a", words]
    figure = attention_figure([Part("", pieces, pieces, "", 0.0, 0.0, True, np.full((2, 2), 0.5))])
    with warnings.catch_warnings(record=True):  # the font lacks Chinese
        box = figure.axes[0].get_tightbbox()
    assert box is not None
    assert figure.bbox.x0 < box.x0 < box.x1 < figure.bbox.x1
    assert figure.bbox.y0 < box.y0 < box.y1 < figure.bbox.y1


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_maps_do_not_overlap_and_share_cell_size(
    tmp_path: Path, drawn: list[Figure], count: int
) -> None:
    parts = [part(*["▁where"] * (3 * n % 7 + 1)) for n in range(count)]
    plot_attention(parts, tmp_path / "a.png")
    [figure] = drawn
    *maps, _ = figure.axes
    assert len(maps) == count
    boxes = []
    for axes, each in zip(maps, parts, strict=True):
        weights = axes.images[0].get_array()
        assert weights is not None
        np.testing.assert_array_equal(weights, each.weights)
        box = axes.get_window_extent()
        boxes.append(axes.get_tightbbox())
        assert box.width / len(each.source_pieces) == pytest.approx(0.42 * figure.dpi, rel=1e-3)
        assert box.height / len(each.target_pieces) == pytest.approx(0.34 * figure.dpi, rel=1e-3)
    for n, box in enumerate(boxes):
        assert box is not None
        assert figure.bbox.x0 < box.x0 < box.x1 < figure.bbox.x1
        assert figure.bbox.y0 < box.y0 < box.y1 < figure.bbox.y1
        assert not any(box.overlaps(other) for other in boxes[:n])


def test_words_option_merges_pieces(tmp_path: Path, drawn: list[Figure]) -> None:
    plot_attention([part("▁whe", "re", "▁$1")], tmp_path / "a.png", words=True)
    axes = drawn[0].axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["where", r"\$", "1"]
    columns = [label.get_text() for label in axes.get_xticklabels()]
    assert columns == ["¿", "Dónde", "está", "el", "niño", "?", "(end)"]
    shown = axes.images[0].get_array()
    assert shown is not None
    np.testing.assert_allclose(shown, word_attention(part("▁whe", "re", "▁$1")).weights)
    np.testing.assert_allclose(shown.sum(1), 1)


def labelled(figure: Figure) -> dict[str, tuple[list[float], list[float]]]:
    """Return the curves of a figure by label."""
    lines = [line for axes in figure.axes for line in axes.lines]
    return {
        str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata()))  # type: ignore[arg-type]
        for line in lines
    }


def test_learning_curves(trained: Path, other: Path, tmp_path: Path, drawn: list[Figure]) -> None:
    plot_training([str(trained)], tmp_path / "a.svg")
    plot_training([str(trained), str(other)], tmp_path / "b.svg", unit="minutes")
    one, both = drawn
    curves = labelled(one)
    assert curves["BLEU"][0] == curves["validation"][0] == [50, 100, 150]
    assert {"training", "chrF", "BLEU of the average"} < curves.keys()
    assert one.axes[2].get_xlabel() == "updates"
    assert len(one.axes[2].lines) == 1
    [perplexity] = one.axes[0].child_axes
    one.canvas.draw()
    labels = [text.get_text() for text in perplexity.get_yticklabels(which="both")]
    assert any(label.isdigit() for label in labels)
    assert not any("times" in label for label in labels)  # 20, not 2 x 10^1
    assert {"trained: validation", "other: validation", "other: BLEU"} < labelled(both).keys()
    assert both.axes[2].get_xlabel() == "minutes"


def test_learning_curves_are_written(trained: Path, tmp_path: Path) -> None:
    for suffix, start in STARTS.items():
        plot_training([str(trained)], tmp_path / f"a{suffix}", unit="tokens")
        assert (tmp_path / f"a{suffix}").read_bytes().startswith(start)


def test_bleu_by_length(tmp_path: Path, drawn: list[Figure]) -> None:
    sentences = [" ".join("abcdefghij"[: n % 10 + 1]) for n in range(60)]
    pairs = [Pair(sentence, sentence) for sentence in sentences]
    worse = [sentence.replace("d", "x") for sentence in sentences]
    plot_length({"right": sentences, "worse": worse}, pairs, tmp_path / "a.png", ("en", "en"))
    curves = labelled(drawn[0])
    found = [
        score(bucket.of(worse), bucket.of(sentences), "en", resamples=1000)["bleu"]
        for bucket in fixed_buckets(sentences, "en")
    ]
    assert curves["worse"][1] == [metric.score for metric in found]
    corners = drawn[0].axes[0].collections[1].get_paths()[0].vertices
    for place, metric in enumerate(found):
        heights = corners[corners[:, 0] == place, 1]
        assert metric.interval
        assert np.ptp(heights) == pytest.approx(2 * metric.interval)
    assert curves["right"][1][-1] == pytest.approx(100)
    ticks = [label.get_text() for label in drawn[0].axes[0].get_xticklabels()]
    assert ticks == ["1-5\n30", "6-10\n30"]
    with pytest.raises(DataError, match="numbers must be equal"):
        plot_length({"short": worse[1:]}, pairs, tmp_path / "a.png", ("en", "en"))


def test_runs_translate_the_test_set(
    trained: Path, tmp_path: Path, drawn: list[Figure], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The layout is that of the first run, whose test set has further references."""
    test = tmp_path / "test.tsv"
    test.write_text("gato\tdog\tcat\nperro\tcat\tdog\n")
    seen: list[Any] = []
    monkeypatch.setattr(plots, "plot_length", lambda *arguments: seen.append(arguments))
    runs = [str(trained), str(trained / "checkpoints/step-000100")]
    options = ["--test", str(test), "--beam", "1", "-o", str(tmp_path / "a.png")]
    assert main(["plot", "length", *runs, *options]) == 0
    [(systems, pairs, *_)] = seen
    assert list(systems) == [trained.name, "step-000100"]
    assert [pair.references for pair in pairs] == [("cat",), ("dog",)]
    for run, lines in zip(runs, systems.values(), strict=True):
        translator = Translator.load(run)
        greedy = translator.options(beam_size=1)
        expected = translator.translate(["gato", "perro"], greedy)
        assert lines == [best[0].line for best in expected]


def test_sources_without_spaces_have_lengths() -> None:
    sources = ["彼は。", "彼女は京都に住んでいます。", "彼 は 。"]
    found = fixed_buckets(sources, "ja", (2, 5))
    assert [(bucket.label, bucket.sentences) for bucket in found] == [
        ("1-2", (0, 2)),
        ("over 5", (1,)),
    ]
    assert [bucket.label for bucket in fixed_buckets(sources, "en", (2, 5))] == ["1-2", "3-5"]


def test_columns_of_a_terminal_are_as_wide_as_their_text() -> None:
    assert pad(["猫", "abc", "ที่", "食べる"]) == ["猫    ", "abc   ", "ที่     ", "食べる"]
    assert pad(["犬", "1.0"], right=True) == [" 犬", "1.0"]


def test_run_names_are_unique() -> None:
    assert run_names(["runs/a", "runs/b/"]) == ["a", "b"]
    assert run_names(["one/a", "two/a"]) == ["one/a", "two/a"]
