"""The minimal pairs of data/sample/challenge-*.tsv and the grammar that makes them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from corpora.sample import challenge
from corpora.sample.generate import MAX_WORDS, fold
from corpora.sample.tokens import Draw, finish
from prepare_data import main
from seq2seq.inference.words import words

SAMPLE = Path(__file__).resolve().parent.parent / "data" / "sample"
NEW_NAMES = {name.es for names in challenge.UNSEEN_NAMES.values() for name in names}

Rows = dict[str, list[list[str]]]


@pytest.fixture(scope="module")
def shipped() -> Rows:
    return {
        direction: [
            line.split("\t") for line in (SAMPLE / name).read_text(encoding="utf-8").splitlines()
        ]
        for direction, name in challenge.FILES.items()
    }


@pytest.fixture(scope="module")
def sample() -> dict[str, list[list[str]]]:
    """The Spanish and English sentences of each split."""
    return {
        split: [
            line.split("\t")[:2]
            for line in (SAMPLE / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
        ]
        for split in ("train", "valid", "test")
    }


@pytest.mark.slow
def test_shipped_files_are_what_the_grammar_makes(shipped: Rows) -> None:
    made = challenge.minimal_pairs(SAMPLE)
    assert {way: [list(row) for row in rows] for way, rows in made.items()} == shipped


def test_each_phenomenon_has_enough_pairs(shipped: Rows) -> None:
    counts = {way: Counter(row[0] for row in rows) for way, rows in shipped.items()}
    assert all(set(found.values()) == {challenge.PAIRS} for found in counts.values())
    assert set(counts["es-en"]) | set(counts["en-es"]) == set(challenge.PHENOMENA)
    assert set(counts["es-en"]) - set(counts["en-es"]) == {
        "relative clause: who did it",
        "word order: adjective",
        "word order: fronted object",
        "word order: question",
    }


def test_sentences_are_new_and_differ(shipped: Rows, sample: Rows) -> None:
    pairs = [row for rows in sample.values() for row in rows]
    known = [{fold(pair[side]) for pair in pairs} for side in (0, 1)]
    for way, rows in shipped.items():
        source, target = known if way == "es-en" else known[::-1]
        for _, text, right, wrong in rows:
            assert fold(text) not in source
            assert fold(right) not in target
            assert right != wrong
        assert len({fold(row[1]) for row in rows}) == len(rows)


def test_words_are_known_but_for_the_unseen_names(shipped: Rows, sample: Rows) -> None:
    known = [{w for pair in sample["train"] for w in words(pair[side].lower())} for side in (0, 1)]
    for way, rows in shipped.items():
        source, target = known if way == "es-en" else known[::-1]
        for phenomenon, text, *translations in rows:
            new = {w for w in words(text) if w.lower() not in source}
            new |= {w for each in translations for w in words(each) if w.lower() not in target}
            if phenomenon.startswith("unseen name"):
                assert new & NEW_NAMES
            else:
                assert not new


def test_lengths(shipped: Rows) -> None:
    for rows in shipped.values():
        for phenomenon, source, right, _ in rows:
            lengths = [len(words(text)) for text in (source, right)]
            if phenomenon.startswith("long sentence"):
                assert min(lengths) > MAX_WORDS
            else:
                assert max(lengths) <= 22


def test_agreement_errors_are_one_word(shipped: Rows) -> None:
    for name in ("agreement at a distance: number", "relative clause: agreement"):
        for _, _, right, wrong in (row for row in shipped["es-en"] if row[0] == name):
            differing = [
                pair
                for pair in zip(right.split(), wrong.split(), strict=True)
                if len(set(pair)) > 1
            ]
            assert len(differing) == 1


@pytest.mark.parametrize(
    ("phenomenon", "changed"),
    [
        ("agreement at a distance: number", {"es", "en"}),
        ("agreement at a distance: gender", {"es"}),
        ("relative clause: who did it", {"en"}),
        ("word order: clitic", {"es", "en"}),
        ("word order: adjective", {"en"}),
        ("negation: left out", {"es", "en"}),
        ("number: another one", {"es", "en"}),
    ],
)
def test_errors_are_in_the_languages_that_have_them(phenomenon: str, changed: set[str]) -> None:
    d, found = Draw(random.Random(5)), None
    while found is None:
        d.restart()
        found = challenge.PHENOMENA[phenomenon](d)
    right, wrong = map(finish, found)
    assert changed == {
        *(["es"] if right.source != wrong.source else []),
        *(["en"] if right.target != wrong.target else []),
    }


@pytest.mark.parametrize(
    ("phenomenon", "row"),
    [
        (
            "word order: fronted object",
            ("Este informe lo compró Rafael.", "Rafael bought this report.",
             "This report bought Rafael."),
        ),
        (
            "relative clause: who did it",
            ("La vela que usó Sofía es roja.", "The candle that Sofía used is red.",
             "The candle that used Sofía is red."),
        ),
        (
            "negation: left out",
            ("Usted no es tranquilo.", "You are not quiet.", "You are quiet."),
        ),
        (
            "number: another one",
            ("Siete jueces comen pescado.", "Seven judges eat fish.", "Eight judges eat fish."),
        ),
        (
            "word order: question",
            ("¿Qué conduce el cliente?", "What does the customer drive?",
             "What the customer drives?"),
        ),
    ],
)  # fmt: skip
def test_examples(shipped: Rows, phenomenon: str, row: tuple[str, str, str]) -> None:
    assert [phenomenon, *row] in shipped["es-en"]


def test_command_refuses_to_overwrite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "challenge-es-en.tsv").touch()
    assert main(["challenge", "--out", str(tmp_path)]) == 2
    assert "challenge-es-en.tsv already; choose another --out, or pass --force" in (
        capsys.readouterr().err
    )
