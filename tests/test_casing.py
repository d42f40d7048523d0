"""Capitals as marks: alone, and in a tokenizer that is trained with them."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from properties import examples

from seq2seq.config import TokenizerConfig
from seq2seq.data.casing import mark_case, mark_prefix, restore_case
from seq2seq.data.cleaning import normalize
from seq2seq.data.tokenizer import Tokenizer, normalize_line, train_tokenizer

SAMPLE = Path(__file__).parents[1] / "data/sample/train.tsv"
# Letters whose lower or upper case is several letters, another letter's, or missing.
ODD = "ßẞİıǅǄǆſΣσςµΜÅÅﬁŉǰẖΪΐ"
words = st.text("aéBÑ3.'" + ODD, max_size=4) | st.sampled_from(["NO", "I", "Ana", "EE.UU.", "漢"])
cased = st.lists(words, max_size=8).map(" ".join)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("", ""),
        ("hola, 3 ñus", "hola, 3 ñus"),
        ("Ana y I. McKay", "ↄana y ↄi. ↄmcↄkay"),
        ("HOLA", "Ↄ hola"),
        ("EE.UU. y 3D", "Ↄ ee.uu. y 3ↄd"),
        ("NO PUEDO", "Ↄ no Ↄ puedo"),
        ("NO PUEDO IR", "ↃↃ no puedo ir"),
        ("3 NO PUEDO IR A - B, dice Ana", "ↃↃ 3 no puedo ir a - b, ↄↄ dice ↄana"),
        ("A B C D", "ↄa ↄb ↄc ↄd"),
        ("iPhone iPHONE", "iↄphone iↄpↄhↄoↄnↄe"),
        ("ΟΔΟΣ ὁδός", "Ↄ οδοσ ὁδός"),  # a final sigma would be lost
        ("STRASSE Straße STRAßE", "Ↄ strasse ↄstraße Ↄ straße"),
        ("İI ǅ Ǆ", "İↄi ǅ ↄǆ"),
    ],
)
def test_marks_of_texts(text: str, marked: str) -> None:
    assert mark_case(text) == marked
    assert restore_case(marked) == text


@examples(300)
@given(st.text() | cased)
@example("ↄ Ↄ ↃↃ ↄↄ a")
@example("  A  BB\nCC\tDD  EE ")
def test_any_text_is_restored(text: str) -> None:
    marked = mark_case(text)
    assert restore_case(marked) == text.replace("ↄ", "c").replace("Ↄ", "C")
    assert len(marked.split(" ")) <= 2 * len(text.split(" "))


@examples(300)
@given(cased, cased)
def test_marked_texts_begin_with_a_form_of_what_they_begin_with(text: str, more: str) -> None:
    for complete, whole in ((False, text + more), (True, f"{text} {more}")):
        forms = mark_prefix(text, complete=complete)
        assert forms[0] == mark_case(text)
        assert all(restore_case(form) == text for form in forms)
        if text:
            assert any(mark_case(whole).startswith(form) for form in forms)


@pytest.mark.parametrize(
    ("marked", "text"),
    [
        ("Ↄ", ""),
        ("hola ↃↃ", "hola"),
        ("ↃↃ no ↃↃ va ↄↄ ↄↄ ya", "NO VA ya"),
        ("Ↄ ↃↃ no va", "NO VA"),
        ("Ↄ ↄhola mundo", "HOLA mundo"),
        ("ↄↃana aↃ", "Ana a"),
        ("ↄ3 ↄß", "3 ß"),
    ],
)
def test_misplaced_marks_are_left_out(marked: str, text: str) -> None:
    assert restore_case(marked) == text


@pytest.fixture(scope="module")
def texts() -> list[str]:
    rows = SAMPLE.read_text(encoding="utf-8").split("\n")[:400]
    return [row.split("\t")[0] for row in rows]


def trained(texts: list[str], **config: str | bool) -> Tokenizer:
    settings = {"case_marks": True, "split_digits": True, **config}
    chosen = TokenizerConfig.model_validate(settings)
    return train_tokenizer(texts, config=chosen, vocab_size=700, name="source")


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def tokenizer(request: pytest.FixtureRequest, texts: list[str]) -> Tokenizer:
    return trained(texts, type=request.param)


def test_cases_share_their_pieces(tokenizer: Tokenizer) -> None:
    lower, capitals, row = (
        tokenizer.pieces(tokenizer.encode(text))
        for text in ("quiero comer", "QUIERO COMER", "NO QUIERO COMER 123")
    )
    assert [piece for piece in capitals if piece != "▁Ↄ"] == lower
    assert row[0] == "▁ↃↃ"
    assert "".join(row[-len(lower) - 4 : -4]) == "".join(lower)
    assert row[-3:] == ["1", "2", "3"]


@examples(200)
@given(st.text() | cased)
@example("Ḣ H\u0331 Ϊ\u0301")  # in lower case, NFC composes the latter
@example("«¿QUÉ? — 1.º» ﬁn Ａ漢字")
def test_any_text_round_trips(tokenizer: Tokenizer, text: str) -> None:
    expected = normalize_line(text).replace("ↄ", "c").replace("Ↄ", "C")
    assert tokenizer.decode(tokenizer.encode(text)) == expected


@examples(200)
@given(st.lists(st.integers(0, 699), max_size=12))
def test_any_pieces_decode_to_a_normalized_text_without_marks(
    tokenizer: Tokenizer, ids: list[int]
) -> None:
    text = tokenizer.decode(ids)
    assert normalize(text) == text
    assert not set("ↄↃ") & set(text)


def test_corpus_round_trips(tokenizer: Tokenizer, texts: list[str]) -> None:
    for each in (texts, [*map(str.upper, texts)], [*map(str.title, texts)]):
        assert list(map(tokenizer.decode, tokenizer.encode_batch(each))) == each


def test_the_model_alone_says_that_pieces_are_marked(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "a.model")
    for copy in (Tokenizer.load(tmp_path / "a.model"), pickle.loads(pickle.dumps(tokenizer))):
        assert copy.marks_case
        assert copy.decode(copy.encode("HOLA, Ana")) == "HOLA, Ana"
    assert not trained(["hola mundo"] * 9, case_marks=False).marks_case


def test_likelihood_does_not_depend_on_capitals(tokenizer: Tokenizer) -> None:
    found = tokenizer.log_likelihood("El actor ganó una carrera")
    assert found == tokenizer.log_likelihood("EL ACTOR GANÓ UNA CARRERA")
    assert tokenizer.log_likelihood("漢") <= -3 * 2 * math.log(tokenizer.vocab_size)
