from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import toy_pairs
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.config import TokenizerConfig
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.errors import DataError
from seq2seq.evaluation.alignment import links, pharaoh, word_of_piece, word_weights, words
from seq2seq.inference.text import Part, Translation, normalize_line


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = [source for source, _ in toy_pairs(200, 0)]
    return train_tokenizer(texts, config=TokenizerConfig(), vocab_size=330, name="source")


def part(source: list[str], target: list[str], weights: list[list[float]] | None) -> Part:
    def text(pieces: list[str]) -> str:
        return "".join(pieces[:-1]).replace("▁", " ").strip()

    found = None if weights is None else torch.tensor(weights)
    return Part(text(source), source, target, text(target), 0.0, 0.0, True, found)


SPLIT = part(
    ["▁ga", "to", "▁ne", "gro", "</s>"],
    ["▁bl", "ack", "▁cat", "</s>"],
    [
        [0.1, 0.1, 0.3, 0.3, 0.2],
        [0.1, 0.1, 0.5, 0.3, 0.0],
        [0.2, 0.3, 0.1, 0.1, 0.3],
        [0.0, 0.0, 0.0, 0.0, 1.0],
    ],
)


def test_pieces_are_merged_into_words() -> None:
    assert word_of_piece(SPLIT.source_pieces) == [0, 0, 1, 1, -1]
    np.testing.assert_allclose(word_weights(SPLIT), [[0.2, 0.7], [0.5, 0.2]], atol=1e-6)
    assert links(word_weights(SPLIT)) == [(1, 0), (0, 1)]
    assert pharaoh(Translation([SPLIT])) == "0-1 1-0"


def test_parts_count_on() -> None:
    second = Part(**{**vars(SPLIT), "first_word": 2})
    assert pharaoh(Translation([SPLIT, second])) == "0-1 1-0 2-3 3-2"
    assert pharaoh(Translation()) == ""


def test_a_part_without_words_has_no_links() -> None:
    empty = part(["▁gato", "</s>"], ["</s>"], [[0.5, 0.5]])
    assert pharaoh(Translation([empty, SPLIT])) == "0-1 1-0"


def test_a_model_without_attention_has_no_links() -> None:
    with pytest.raises(DataError, match="attention"):
        word_weights(part(["▁a", "</s>"], ["▁b", "</s>"], None))


@pytest.mark.parametrize(
    ("pieces", "numbers"),
    [
        (["▁", "a", "▁", "b", "</s>"], [0, 0, 1, 1, -1]),
        (["▁a", "▁", "</s>"], [0, -1, -1]),
        (["▁a", "<0x20>", "<0x62>"], [0, 1, 1]),
        (["▁", "<0xE2>", "<0x82>", "<0xAC>", "</s>"], [0, 0, 0, 0, -1]),
        (["▁a", "<0xE2>", "<0x80>", "<0xA8>", "b"], [0, 1, 1, 1, 1]),
        (["<0xFF>", "▁a", "<0xC3>"], [0, 1, 1]),
        (["▁a", "<0x0A>", "<0x0A>", "b"], [0, 1, 1, 1]),
        (["<unk>", "▁a"], [0, 1]),
        (["▁", "<unk>", "b", "▁a"], [0, 0, 0, 1]),
        (["</s>"], [-1]),
        ([], []),
    ],
)
def test_words_of_unusual_pieces(pieces: list[str], numbers: list[int]) -> None:
    assert word_of_piece(pieces) == numbers


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_there_are_as_many_words_as_in_the_text(tokenizer: Tokenizer, line: str) -> None:
    text = normalize_line(line)
    pieces = [*tokenizer.pieces(tokenizer.encode(text)), "</s>"]
    assert max(word_of_piece(pieces)) + 1 == len(text.split())
    shape = len(words(text)), len(text.split())
    weights = torch.full((len(pieces), len(pieces)), 1 / len(pieces))
    merged = word_weights(part(pieces, pieces, weights.tolist()), words)
    assert merged.shape == (shape[0], shape[0])


def test_a_piece_of_several_words_counts_for_each() -> None:
    found = part(
        ["▁a", "...", "</s>"], ["▁b", "?!", "</s>"], [[0.5, 0.3, 0.2], [0.1, 0.9, 0], [0] * 3]
    )
    expected = [[0.5, 0.1, 0.1, 0.1], [0.1, 0.3, 0.3, 0.3], [0.1, 0.3, 0.3, 0.3]]
    np.testing.assert_allclose(word_weights(found, words), expected, atol=1e-6)
    np.testing.assert_allclose(word_weights(found), [[0.9]], atol=1e-6)


def test_words_that_the_tokenizer_does_not_know_count() -> None:
    config = TokenizerConfig(byte_fallback=False)
    texts = [source for source, _ in toy_pairs(200, 0)]
    known = train_tokenizer(texts, config=config, vocab_size=100, name="source")
    for text in ("中 gato", "gato 中文 pan", "gato中 de", "中"):
        assert max(word_of_piece(known.pieces(known.encode(text)))) + 1 == len(text.split())


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(4, 280), max_size=20))
def test_there_are_as_many_words_as_in_what_is_decoded(
    tokenizer: Tokenizer, ids: list[int]
) -> None:
    numbers = word_of_piece([*tokenizer.pieces(ids), "</s>"])
    assert max(numbers) + 1 == len(tokenizer.decode(ids).split())
