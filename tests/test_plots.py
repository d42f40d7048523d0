from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

from seq2seq.errors import DataError
from seq2seq.evaluation.plots import plot_attention, plot_sentence
from seq2seq.inference.translation import Part
from seq2seq.inference.translator import Translator

STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".PNG": b"\x89PNG"}


def part(*target: str) -> Part:
    source = ["▁¿Dónde", "▁está", "▁el", "▁niño", "?", "</s>"]
    weights = torch.eye(len(target) + 1, len(source))
    return Part("", source, [*target, "</s>"], "", 0.0, 0.0, True, weights)


@pytest.mark.parametrize("suffix", STARTS)
def test_the_suffix_chooses_the_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"picture{suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_attention(part("▁where", "▁$5_{^\\", "▁中", "<0xF0>"), path)
    assert path.read_bytes().startswith(STARTS[suffix])


def test_accents_are_in_the_picture(tmp_path: Path) -> None:
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):
        plot_attention(part("▁niña", "s"), tmp_path / "a.svg", languages=("español", ""))
    found = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for text in ("¿Dónde", "niño", "niña", "·s", "(end)", "español source pieces"):
        assert text in found


def test_pictures_that_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.xyz: a picture ends in .png, .svg, .pdf"):
        plot_attention(part("▁a"), tmp_path / "a.xyz")
    with pytest.raises(DataError, match="cannot be written"):
        plot_attention(part("▁a"), tmp_path / "none/a.png")
    with pytest.raises(DataError, match="no attention weights"):
        plot_attention(Part(**{**vars(part("▁a")), "weights": None}), tmp_path / "a.png")


def test_a_sentence_is_translated_and_drawn(trained: Path, tmp_path: Path) -> None:
    translator = Translator.load(trained)
    plot_sentence(translator, "gato come pan", tmp_path / "a.png")
    plot_sentence(translator, "gato " * 100, tmp_path / "b.pdf", beam=1)
    assert (tmp_path / "a.png").stat().st_size > 1000
    assert (tmp_path / "b.pdf").stat().st_size > 1000
    with pytest.raises(DataError, match="the sentence is empty"):
        plot_sentence(translator, " \n", tmp_path / "c.png")
