"""Filtering of pairs by two models: what is dropped, and what is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from corpora.general import filtering
from prepare_data import main

LONG = "Yes, and I would like to say a great deal more about that, if you have time for it."
PAIRS = {  # Spanish: English, cross-entropies from Spanish and from English
    "¿Dónde está mi perro?": ("Where is my dog?", 0.5, 0.7),
    "  No tengo hermanos. ": ("I have no brothers.", 7.0, 2.9),
    "Ella canta.": ("My uncle sings.", 3.2, 7.0),
    "La casa.": ("Nobody.", 6.0, 6.0),
    "The house is not here and you know it.": ("The house isn't here and you know it.", 1.0, 1.0),
    "Sí.": (LONG, 1.0, 1.0),
}


class FakeTranslator:
    """Gives each pair its cross-entropy, over four pieces."""

    def __init__(self, run: str) -> None:
        self.run = run

    @classmethod
    def load(cls, run: str, *, precision: str) -> FakeTranslator:
        assert precision == "int8"
        return cls(run)

    def force_decode(self, sources: Sequence[str], targets: Sequence[str]) -> list[SimpleNamespace]:
        from_spanish = self.run == "runs/es-en"
        sides = (sources, targets) if from_spanish else (targets, sources)
        table = {spanish.strip(): row for spanish, row in PAIRS.items()}
        found = []
        for spanish, english in zip(*sides, strict=True):
            assert table[spanish][0] == english
            nats = table[spanish][1 if from_spanish else 2]
            found.append(SimpleNamespace(log_prob=-4 * nats, target_pieces=list("abcd")))
        return found


def run(folder: Path, *more: str) -> int:
    corpus = folder / "pairs.tsv"
    text = "".join(f"{spanish}\t{english}\n" for spanish, (english, *_) in PAIRS.items())
    corpus.write_text(text, encoding="utf-8")
    out = str(folder / "out.tsv")
    return main(["filter", str(corpus), "runs/es-en", "runs/en-es", "--out", out, *more])


def test_unlikely_and_untranslated_pairs_are_dropped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filtering, "Translator", FakeTranslator)
    monkeypatch.setattr(filtering, "_WINDOW", 3)
    assert run(tmp_path, "--dropped", str(tmp_path / "dropped.tsv")) == 0
    assert (tmp_path / "out.tsv").read_text(encoding="utf-8") == (
        "¿Dónde está mi perro?\tWhere is my dog?\nNo tengo hermanos.\tI have no brothers.\n"
    )
    assert (tmp_path / "dropped.tsv").read_text(encoding="utf-8") == (
        "6.00\tLa casa.\tNobody.\n5.10\tElla canta.\tMy uncle sings.\n"
    )
    assert capsys.readouterr().out == (
        f"{tmp_path}/out.tsv: kept 2, much longer on one side 1, unlikely 2, untranslated 1\n"
    )
    assert run(tmp_path, "--most", "0.1") == 2
    assert "no pair has a score of at most 0.1; raise --most" in capsys.readouterr().err
