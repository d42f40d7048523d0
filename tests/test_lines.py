from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from conftest import toy_pairs
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from seq2seq.config import TokenizerConfig
from seq2seq.data.tokenizer import Tokenizer, normalize_line, train_tokenizer
from seq2seq.inference.text import Sentence, split_text
from seq2seq.languages import language


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = [source for source, _ in toy_pairs(200, 0)]
    return train_tokenizer(texts, config=TokenizerConfig(), vocab_size=330, name="source")


def parts_of(text: str, tokenizer: Tokenizer, most: int) -> list[Sentence]:
    """Return the parts of a text whose lines are whole sentences."""
    split = split_text(text, tokenizer, most, language=None, target=language("en"))
    return [part for sentence in split for part in sentence]


def texts(sentences: list[Sentence]) -> list[str]:
    return [sentence.text for sentence in sentences]


def visible(text: str) -> str:
    return "".join(text.split())


@examples(300)
@given(
    st.text() | st.text('abA .,;!?…"«»。、」\n\u2028\r▁', max_size=300),
    st.integers(8, 40),
    st.sampled_from(["es", "en", "ja", "de", None]),
    st.sampled_from(["es", "ja", "th"]),
)
def test_parts_fit_and_keep_all_visible_text(
    tokenizer: Tokenizer, line: str, most: int, rules: str | None, target: str
) -> None:
    text = normalize_line(line)
    split = split_text(line, tokenizer, most, language=rules, target=language(target))
    sentences = [part for sentence in split for part in sentence]
    parts = [sentence.text for sentence in sentences]
    assert visible("".join(parts)) == visible(text)
    for sentence in sentences:
        assert sentence.text
        assert normalize_line(sentence.text) == sentence.text
        assert sentence.ids == tokenizer.encode(sentence.text)
        assert len(sentence.ids) <= most
        is_apart = sentence.space.isspace()
        assert is_apart or sentence is sentences[0] or not language(target).is_spaced
    if rules is None and "\n" not in line and text and len(tokenizer.encode(text)) <= most:
        assert parts == [text]


def test_cuts_at_sentence_ends_then_clauses_then_spaces(tokenizer: Tokenizer) -> None:
    def cut(text: str, most: int = 10) -> list[str]:
        return texts(parts_of(text, tokenizer, most))

    sentences = ["gato come pan.", "perro ve agua.", "él come"]
    assert cut(" ".join(sentences)) == [" ".join(sentences)]
    assert cut(" ".join(sentences), 9) == ["gato come pan. perro ve agua.", "él come"]
    clauses = "gato come, perro ve; él quiere pan"
    assert cut(clauses, 8) == ["gato come, perro ve;", "él quiere pan"]
    words = ["gato"] * 25
    assert cut(" ".join(words)) == [" ".join(["gato"] * n) for n in (10, 10, 5)]
    assert cut("") == []


def test_a_target_without_spaces_has_none_between_sentences_and_parts(tokenizer: Tokenizer) -> None:
    text = "gato come pan. perro ve agua.\n\nél come, gato ve pan"

    def spaces(target: str) -> list[str]:
        found = split_text(text, tokenizer, 5, language="es", target=language(target))
        return [part.space for sentence in found for part in sentence]

    assert spaces("en") == ["", " ", "\n\n", " "]
    assert spaces("th") == ["", " ", "\n\n", ""]
    assert spaces("zh-Hant") == ["", "", "\n\n", ""]


def test_a_source_without_spaces_is_cut_at_its_marks_and_joined_with_spaces() -> None:
    class Letters:
        def encode_normalized(self, text: str) -> list[int]:
            return list(map(ord, text))

    text = "今日は晴れ、明日は雨。「はい。」と言った。"
    found = split_text(text, Letters(), 8, language="ja", target=language("en"))  # type: ignore[arg-type]
    parts = [[(part.text, part.space) for part in sentence] for sentence in found]
    assert parts == [
        [("今日は晴れ、", ""), ("明日は雨。", " ")],
        [("「はい。」と言っ", " "), ("た。", " ")],
    ]


@pytest.mark.parametrize("alphabet", ["a", "gatopn", "😀é中", "\u0301"])
def test_splitting_a_huge_line_without_spaces_is_fast(tokenizer: Tokenizer, alphabet: str) -> None:
    generator = random.Random(0)
    line = "".join(generator.choices(alphabet, k=100_000))
    began = time.process_time()
    parts = texts(parts_of(line, tokenizer, 256))
    assert time.process_time() - began < 3
    assert "".join(parts) == normalize_line(line)
    sizes = [len(tokenizer.encode(part)) for part in parts]
    assert max(sizes) <= 64
    assert sum(sizes) / len(sizes) > 25


def test_splitting_a_huge_line_with_spaces_is_fast(tokenizer: Tokenizer, tmp_path: Path) -> None:
    line = " ".join(source for source, _ in toy_pairs(8000, 1))
    began = time.process_time()
    parts = texts(parts_of(line, tokenizer, 256))
    assert time.process_time() - began < 3
    assert " ".join(parts) == line
