"""Normalization, folding, every reason for a drop, and the overlap with held-out corpora."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.config import CleaningConfig, CorpusConfig
from seq2seq.data.cleaning import (
    DUPLICATE,
    EMPTY,
    OVERLAP,
    RATIO,
    REASONS,
    TOO_LONG,
    CleaningReport,
    HeldOut,
    assess_pairs,
    clean,
    first_of_equal,
    fold,
    normalize,
    normalize_pair,
)
from seq2seq.data.corpus import Pair, read_corpus

TATOEBA = Path(__file__).parents[2] / "shared/data/tatoeba-es-en"


def run(
    pairs: Sequence[Pair],
    config: CleaningConfig | None = None,
    held_out: HeldOut | None = None,
) -> tuple[list[Pair], CleaningReport]:
    return clean(pairs, config or CleaningConfig(), held_out)


def hold_out(**corpora: Sequence[Pair]) -> HeldOut:
    held_out = HeldOut()
    for name, pairs in corpora.items():
        held_out.add(name, pairs)
    return held_out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n\u0303", "ñ"),
        (" a \t b\u00a0\u3000c\r\n", "a b c"),
        ("a\x00b\x1fc\x7fd\x85e\x9ff", "a b c d e f"),
        ("\ufeffa\u200bb\u200d\u2060\u00adc\u202e", "abc"),
        ("a\u2028b\u2029c", "a b c"),
        ("n\u200b\u0303", "ñ"),
        ("a\udc80b", "a b"),
        ("\u200b\x00 ", ""),
        ("¿Qué? 😀 «sí» ½ ﬁ", "¿Qué? 😀 «sí» ½ ﬁ"),
        ("👩\u200d💻 👩🏽\u200d🚀 ❤\ufe0f\u200d🔥", "👩\u200d💻 👩🏽\u200d🚀 ❤\ufe0f\u200d🔥"),
        ("a\u200d👩\u200d 👩\u200d\u200d💻\u200d", "a👩 👩💻"),
    ],
)
def test_normalize(text: str, expected: str) -> None:
    assert normalize(text) == expected


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("¿Qué  pasa?", "qué pasa"),
        ("¡HOLA!", "hola."),
        ("I'm here", "I’m here."),
        ("Straße", "STRASSE"),
        ("n\u0303", "Ñ"),
        ("well-known", "Well known"),
    ],
)
def test_fold_makes_equal(text: str, other: str) -> None:
    assert fold(text) == fold(other)


@pytest.mark.parametrize(("text", "other"), [("esta", "está"), ("?", "!"), ("5 $", "5 €")])
def test_fold_keeps_apart(text: str, other: str) -> None:
    assert fold(text) != fold(other)
    assert fold(text)


@given(st.text(st.characters()))
def test_normalize_is_idempotent_and_one_clean_line(text: str) -> None:
    once = normalize(text)
    assert normalize(once) == once
    assert unicodedata.is_normalized("NFC", once)
    assert once == " ".join(once.split())
    assert not any(unicodedata.category(char) in ("Cc", "Cf", "Cs") for char in once)
    once.encode()


@given(st.text(st.characters()))
def test_fold_is_idempotent_and_ignores_normalisation(text: str) -> None:
    once = fold(text)
    assert fold(once) == once
    assert fold(normalize(text)) == once
    assert bool(once) == bool(normalize(text))


def test_normalize_pair_treats_every_side() -> None:
    pair = Pair(" a ", "b\t", ("c ", "\u200b"), alignment="0-0")
    assert normalize_pair(pair) == Pair("a", "b", ("c",), alignment="0-0")


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (Pair("", "b"), EMPTY),
        (Pair("a", " \u200b\t"), EMPTY),
        (Pair("a" * 1001, "b"), TOO_LONG),
        (Pair("a", "b" * 1001), TOO_LONG),
        (Pair("a", "b " * 14), RATIO),
        (Pair("a " * 14, "b"), RATIO),
    ],
)
def test_reasons(pair: Pair, reason: str) -> None:
    kept, report = run([pair])
    assert kept == []
    assert report.dropped == dict.fromkeys(REASONS, 0) | {reason: 1}


def test_limits_are_still_allowed() -> None:
    pairs = [Pair("a" * 1000, "b"), Pair("a", "b " * 13)]  # (13 + 3) / (1 + 3) is 4
    kept, report = run(pairs)
    assert len(kept) == report.kept == 2
    assert run([Pair("a b", "a b c")], CleaningConfig(max_ratio=1.1))[1].dropped[RATIO] == 1
    english = "The train that he wanted to take had already left when he got to the station."
    japanese = Pair("彼が駅に着いたときには、乗ろうと思っていた電車はもう出ていた。", english)
    thai = Pair("เมื่อเขามาถึงสถานี รถไฟที่เขาต้องการจะขึ้นก็ออกไปแล้ว", english)
    for pair, code in ((japanese, "ja"), (thai, "th")):
        for codes, fault in (((code, "en"), 0), (("en", code), 0), (("xx", "en"), 3)):
            sides = pair if codes[0] != "en" else Pair(pair.target, pair.source)
            assert assess_pairs([sides], CleaningConfig(max_ratio=2), None, codes).fault == fault
    assert run([Pair("ñ" * 5, "b")], CleaningConfig(max_chars=4))[1].dropped[TOO_LONG] == 1


def test_duplicates_are_exact_after_normalisation() -> None:
    pairs = [Pair("a", "b"), Pair("a ", "b"), Pair("a", "B"), Pair("A", "b")]
    kept, report = run(pairs)
    assert kept == [Pair("a", "b"), Pair("a", "B"), Pair("A", "b")]
    assert report.dropped[DUPLICATE] == 1
    assert len(run(pairs, CleaningConfig(drop_duplicates=False))[0]) == 4


BIG = 2**64 - 1
DIGEST = st.sampled_from([0, 1, 2, 3, 7, 2**63, BIG - 1, BIG]) | st.integers(0, BIG)


@given(st.lists(st.tuples(DIGEST, st.booleans()), max_size=60))
def test_first_of_equal_digests_agrees_with_a_set(rows: list[tuple[int, bool]]) -> None:
    seen: set[int] = set()
    expected = [among and not (digest in seen or seen.add(digest)) for digest, among in rows]
    digests = np.array([digest for digest, _ in rows], np.uint64)
    among = np.array([among for _, among in rows], bool)
    assert first_of_equal(digests, among).tolist() == expected


def test_the_border_of_the_sides_counts() -> None:
    assert len(run([Pair("a b", "c"), Pair("a", "b c")])[0]) == 2


VALID = [Pair("¿Qué pasa?", "What is up?", ("What's up?",)), Pair("Vete.", "Go away.")]
TRAIN = [
    Pair("qué pasa", "What happens?"),
    Pair("¿Cómo va?", "WHAT'S UP"),
    Pair("¡Vete!", "Go away!"),
    Pair("Hola.", "Hello."),
    Pair("Go away.", "Vete."),  # the sides are compared each with its own
]


def test_overlap_is_counted_with_an_example() -> None:
    kept, report = run(TRAIN, held_out=hold_out(valid=VALID, test=[Pair("Adiós.", "Bye.")]))
    assert len(kept) == 5
    assert list(report.overlaps) == ["valid"]
    overlap = report.overlaps["valid"]
    assert (overlap.source, overlap.target, overlap.both) == (1, 1, 1)
    (warning,) = report.warnings()
    assert "3 train pairs share a sentence with valid" in warning
    assert "data.cleaning.drop_overlap=true" in warning
    assert "¡Vete! | Go away!" in warning


def test_overlap_is_dropped_where_asked() -> None:
    config = CleaningConfig(drop_overlap=True)
    kept, report = run(TRAIN, config, hold_out(valid=VALID, test=VALID))
    assert kept == TRAIN[3:]
    assert report.dropped[OVERLAP] == 3
    assert list(report.overlaps) == ["valid", "test"]
    assert "; dropped; for example" in report.warnings()[0]


def test_identical_corpora_are_noticed_loudly() -> None:
    pairs = [Pair(f"Frase {n}.", f"Sentence {n}.") for n in range(50)]
    _, report = run(pairs * 2, held_out=hold_out(valid=pairs, test=[Pair("Sí.", "Yes.")]))
    assert report.lines()[-1].endswith("valid (50 pairs) SEEMS TO BE PART OF THE TRAINING DATA")
    _, report = run(pairs, held_out=hold_out(valid=[pairs[0], Pair("a", "b"), Pair("c", "d")]))
    assert "SEEMS" not in report.lines()[-1]


def test_lines_show_every_reason() -> None:
    _, report = run([Pair("a", "b"), Pair("", "b")])
    lines = report.lines()
    assert len(lines) == 2 + len(REASONS)
    assert all(any(reason in line for line in lines) for reason in REASONS)
    assert lines[0].split() == ["read", "2"]
    assert lines[1].split() == ["kept", "1"]


SHORT = st.text(st.sampled_from("ab .\u200bA"), max_size=40)
ANY = st.text(st.characters(), max_size=20)
ANY_PAIR = st.builds(Pair, ANY | SHORT, ANY | SHORT, st.lists(ANY, max_size=2).map(tuple))
ANY_CONFIG = st.builds(
    CleaningConfig,
    max_chars=st.integers(1, 30),
    max_ratio=st.floats(1.01, 3),
    drop_duplicates=st.booleans(),
    drop_overlap=st.booleans(),
)


@given(
    st.lists(st.builds(Pair, SHORT, SHORT), max_size=30),
    st.lists(st.builds(Pair, SHORT, SHORT), max_size=5),
    ANY_CONFIG,
)
def test_counts_add_up(pairs: list[Pair], valid: list[Pair], config: CleaningConfig) -> None:
    kept, report = run(pairs, config, hold_out(valid=valid))
    assert report.read == len(pairs)
    assert report.kept == len(kept)
    assert report.kept + sum(report.dropped.values()) == report.read
    assert set(report.dropped) == set(REASONS)
    assert all(pair.source and pair.target for pair in kept)
    if config.drop_duplicates:
        assert len(set(kept)) == len(kept)
    if config.drop_overlap:
        held_out = hold_out(valid=valid)
        assert not any(held_out.overlap(pair) for pair in kept)


@given(st.lists(ANY_PAIR, max_size=20), st.lists(ANY_PAIR, max_size=4), ANY_CONFIG)
def test_cleaning_is_idempotent(
    pairs: list[Pair], valid: list[Pair], config: CleaningConfig
) -> None:
    kept, report = run(pairs, config, hold_out(valid=valid))
    again, second = run(kept, config, hold_out(valid=valid))
    assert again == kept
    assert second.read == second.kept == report.kept
    assert sum(second.dropped.values()) == 0
    for pair in kept:
        assert pair == normalize_pair(pair)
        "".join((pair.source, pair.target, *pair.references)).encode()


@pytest.mark.skipif(not TATOEBA.is_dir(), reason="the shared corpus is not here")
def test_real_split_has_no_overlap() -> None:
    held_out = HeldOut()
    for side in ("valid", "test"):
        config = CorpusConfig(path=str(TATOEBA / f"{side}.tsv"), references=True)
        held_out.add(side, read_corpus(config))
    train = read_corpus(CorpusConfig(path=str(TATOEBA / "train.tsv")))
    _, report = run([pair for pair, _ in zip(train, range(20_000), strict=False)], None, held_out)
    assert report.kept == 20_000
    assert not report.warnings()
