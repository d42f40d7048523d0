"""Calibration of the mark for wrong translations: words, features and thresholds."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from release.calibrate import FEATURES, calibrate, words_of
from seq2seq.inference.text import Part
from seq2seq.inference.words import uncertain_words
from seq2seq.languages import language

REFERENCE = "the red house is big"


def part(text: str, log_prob: float) -> Part:
    """Return a translation of two pieces a word, each with this log probability."""
    pieces = [piece for word in text.split() for piece in (f"▁{word[:1]}", word[1:])]
    pieces.append("</s>")
    weights = np.full((len(pieces), 4), 0.25, np.float32)
    return Part(
        source="x y z", source_pieces=["▁x", "▁y", "▁z", "</s>"], target_pieces=pieces, text=text,
        score=0, log_prob=log_prob * len(pieces), finished=True, weights=weights,
        log_probs=[log_prob] * len(pieces),
    )  # fmt: skip


def test_words_and_their_log_probabilities() -> None:
    found = words_of(part("red cat", -0.5))
    assert [(word.pieces, word.log_prob) for word in found] == [
        (["▁r", "ed"], -1.0), (["▁c", "at"], -1.0), (["</s>"], -0.5),
    ]  # fmt: skip
    assert FEATURES["log probability per piece"]([part("red cat", -0.5)]) == -0.5
    assert FEATURES["log probability per word"]([part("red cat", -0.5)]) == pytest.approx(-2.5 / 3)
    assert FEATURES["largest attention weight"]([part("red cat", -0.5)]) == 0.25
    assert FEATURES["length ratio"]([part("red cat", -0.5)]) == pytest.approx(-np.log(5 / 4))


def test_translation_is_unlikely_by_its_words() -> None:
    assert not part("red cat", -0.59).unlikely  # five pieces, two words and the end of sentence
    assert part("red cat", -0.61).unlikely
    found = part("red cat sat", -0.1)
    certain = replace(found, log_probs=[-0.1] * 2 + [-1.1, -0.8] + [-0.1] * 3)
    assert uncertain_words(certain) == []
    assert uncertain_words(replace(certain, log_probs=[-0.1] * 2 + [-1.1, -1.0] + [-0.1] * 3)) == [
        1
    ]


def test_required_words_are_neither_unlikely_nor_uncertain() -> None:
    found = replace(part("red cat", 0), log_probs=[-0.1, -0.1, -9, -9, -0.1], log_prob=-18.3)
    assert found.unlikely
    assert uncertain_words(found) == [1]
    required = replace(found, given=frozenset({2, 3}))
    assert not required.unlikely
    assert uncertain_words(required) == []
    # A word less is to be likely: one, and the end of sentence.
    assert replace(required, log_probs=[-1, -1, -9, -9, -0.1], log_prob=-20.1).unlikely


@pytest.mark.parametrize(("code", "words"), [("en", 1), ("ja", 4), ("th", 2)])
def test_text_without_spaces_has_words_as_its_length_suggests(code: str, words: float) -> None:
    """Eight characters; one more word is the end of sentence."""
    found = replace(part("12345678", 0), target=language(code))
    for below in (False, True):
        log_prob = -1e-3 * (2 * below - 1)
        assert replace(found, log_prob=log_prob - (words + 1)).unlikely == below
        log_probs = [0.0, log_prob - 2 * words, 0.0]
        assert uncertain_words(replace(found, log_probs=log_probs)) == [0] * below


def test_thresholds_that_separate_bad_and_good_translations() -> None:
    texts = {"good": (REFERENCE, -0.1), "fine": (REFERENCE, -0.2), "bad": ("we run off", -0.9)}
    texts["worse"] = ("why not", -1.1)

    class Fake:
        target = SimpleNamespace(restore=str)

        def options(self, **_: Any) -> None:
            return None

        def translate(self, lines: list[str], _: None) -> list[list[SimpleNamespace]]:
            return [[SimpleNamespace(parts=[part(*texts[line])])] for line in lines]

    sets = {"set": [(name, [REFERENCE]) for name in texts]}
    table = calibrate(Fake(), sets)  # type: ignore[arg-type]
    assert table[0].startswith("4 lines (set 4): bad 50.0 %, middling 0.0 %, good 50.0 %")
    [row] = (line for line in table if line.startswith("log probability per piece"))
    assert row.split() == [
        "log", "probability", "per", "piece", "-1.00:", "0.0", "0.0", "%", "|",
        "-0.20:", "100.0", "%", "|", "1.000",
    ]  # fmt: skip
    assert "15 words: 33.3 % in no reference" in table
    assert table[-3:] == [
        "unlikely (below -1.0): bad 100.0 %, middling 0.0 %, good 0.0 %",
        "  set: 50.0 %",
        "uncertain (below -2.0): 13.3 % of the words; in no reference 100.0 % of these, 23.1 % "
        "of the others",
    ]
