"""Calibration of the mark for wrong translations: words, features and thresholds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from release.calibrate import FEATURES, calibrate, words_of
from seq2seq.inference.text import Part

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
