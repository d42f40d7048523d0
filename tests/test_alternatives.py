"""The likeliest next words, against enumeration."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from random_model import RandomBackend, random_translator

from seq2seq.config import TokenizerConfig
from seq2seq.data.tokenizer import BOS, EOS, Tokenizer, train_tokenizer
from seq2seq.errors import ConfigError, DataError
from seq2seq.inference.prefix import Prefix, Spelling, next_words
from seq2seq.inference.protocol import SearchOptions
from seq2seq.inference.translator import Translator


@cache
def small_tokenizer(kind: str, case_marks: bool = False, byte_fallback: bool = False) -> Tokenizer:
    config = TokenizerConfig.model_validate(
        {"type": kind, "byte_fallback": byte_fallback, "case_marks": case_marks}
    )
    texts = ["ab ba aab", "cab abc bca", "a b c", *["Ab Cab"] * case_marks] * 3
    size = 18 + 6 * case_marks + 256 * byte_fallback
    return train_tokenizer(texts, config=config, vocab_size=size, name="target")


def probabilities(model: RandomBackend, read: tuple[int, ...]) -> list[float]:
    """Return the probability of each piece, 0 for those that are never produced."""
    logits = np.random.default_rng((model.seed, *read)).normal(size=model.vocab_size)
    found = np.exp(logits) / np.exp(logits).sum()
    return [0.0, 0.0, 0.0, *found[3:].tolist()]


def all_words(
    model: RandomBackend, tokenizer: Tokenizer, prefix: Prefix, longest: int
) -> Iterator[tuple[str, float]]:
    """Yield all words with the probabilities of all their pieces, and "" for the end."""
    pieces = tokenizer.pieces(range(model.vocab_size))
    begins = {i for i, p in enumerate(pieces) if p[0] == "▁"}
    marks = {i for i, p in enumerate(pieces) if p in ("▁Ↄ", "▁ↃↃ", "▁ↄↄ")}
    most = len(prefix.tokens) + longest

    def spelled(tokens: tuple[int, ...], word: tuple[int, ...]) -> str:
        return tokenizer.decode(tokens + word).removeprefix(tokenizer.decode(tokens)).lstrip()

    def going_on(
        tokens: tuple[int, ...], word: tuple[int, ...], before: float
    ) -> Iterator[tuple[str, float]]:
        found = probabilities(model, (BOS, *tokens, *word))
        ends = sum(p for i, p in enumerate(found) if i in begins or i == EOS)
        if spelled(tokens, word):
            yield spelled(tokens, word), before * ends
        if len(tokens + word) < most:
            for piece, p in enumerate(found):
                if p and (piece in begins) == (word[-1] in marks) and piece != EOS:
                    yield from going_on(tokens, (*word, piece), before * p)

    every: list[tuple[tuple[int, ...], float, list[float]]] = []
    for _, tokens in prefix.forms:
        read = (BOS, *tokens)
        steps = [probabilities(model, read[: n + 1])[token] for n, token in enumerate(tokens)]
        every.append((tuple(tokens), math.prod(steps), probabilities(model, read)))
    total = sum(p * after[i] for _, p, after in every for i in (*begins, EOS))
    for tokens, p, after in every:
        yield "", p * after[EOS] / total
        for piece in sorted(begins):
            yield from going_on(tokens, (piece,), p * after[piece] / total)


@examples(40)
@given(
    st.integers(0, 1000),
    st.sampled_from(["unigram", "bpe"]),
    st.sampled_from([(False, ""), (False, "a"), (False, "ab ca")])
    | st.sampled_from([(True, ""), (True, "Ab"), (True, "AB"), (True, "CAB BA"), (True, "A B C")]),
    st.integers(1, 2),
    st.integers(1, 40),
)
def test_next_words_match_enumeration(
    seed: int, kind: str, given_text: tuple[bool, str], longest: int, number: int
) -> None:
    case_marks, text = given_text
    tokenizer = small_tokenizer(kind, case_marks)
    model = RandomBackend(seed, tokenizer.vocab_size, np.array([1]))
    options = SearchOptions(max_length_factor=0.01, max_length_offset=longest)
    spelling = Spelling(tokenizer)
    prefix = spelling.prefix(text + " ")
    best: dict[str, float] = {}
    for word, p in all_words(model, tokenizer, prefix, longest):
        best[word] = max(best.get(word, 0.0), p)
    expected = sorted(best.items(), key=lambda item: -item[1])[:number]
    found = next_words(model, prefix, spelling, options, number)
    assert [word for word, _ in found] == [word for word, _ in expected]
    assert [math.exp(lp) for _, lp in found] == pytest.approx([p for _, p in expected], rel=1e-4)


@pytest.fixture(scope="module", params=["onnx", "torch", "ensemble"])
def translator(request: pytest.FixtureRequest, trained: Path, other: Path) -> Translator:
    if request.param == "ensemble":
        return Translator.load(trained, other)
    return Translator.load(trained, backend=request.param)


def test_alternatives_of_a_translation(translator: Translator) -> None:
    source = "gato come pan"
    found = translator.alternatives(source, "cat", 4)
    assert [alternative.word for alternative in found[:1]] == ["eats"]
    assert found[0].translation.text == "cat eats bread"
    logs = [alternative.log_prob for alternative in found]
    assert logs == sorted(logs, reverse=True)
    assert len({alternative.word for alternative in found}) == 4
    assert sum(alternative.probability for alternative in found) <= 1 + 1e-6
    for alternative in found:
        expected = f"cat {alternative.word}".strip()
        assert [*alternative.translation.text.split()][: len(expected.split())] == expected.split()
        assert len(alternative.translation.parts) == 1


def test_the_end_is_an_alternative(translator: Translator) -> None:
    text = "cat eats bread"
    for given_text in (text, text + " "):
        [best] = translator.alternatives("gato come pan", given_text, 1)
        assert best.word == ""
        assert best.translation.text == text
        [forced] = translator.force(["gato come pan"], [text])
        assert best.translation.parts[0].log_prob == pytest.approx(forced.log_prob, abs=1e-4)
        # The end is one of what may follow a complete word.
        assert forced.log_probs[-1] - 1e-4 <= best.log_prob <= 0


def test_words_have_the_probabilities_of_forcing(translator: Translator) -> None:
    """A word that ends the sentence: its probability is at least that of its pieces and the end."""
    found = translator.alternatives("gato come pan", "cat eats", 3)
    pieces = translator.target.encode("cat eats")
    for alternative in filter(lambda each: each.word, found):
        text = f"cat eats {alternative.word}"
        [forced] = translator.force(["gato come pan"], [text])
        assert translator.target.encode(text)[: len(pieces)] == pieces
        assert alternative.log_prob >= sum(forced.log_probs[len(pieces) :]) - 1e-4


def test_unknown_characters_in_the_prefix() -> None:
    tokenizer = small_tokenizer("unigram")
    for alternative in random_translator(1, tokenizer).alternatives("ab", "ж a", 30):
        assert alternative.translation.text.startswith("ж a")


def test_words_in_capitals_are_found() -> None:
    tokenizer = small_tokenizer("unigram", case_marks=True)
    for text in ("", "AB BA", "AB BA CAB", "ab"):
        found = random_translator(1, tokenizer).alternatives("ab", text, 40)
        words = [alternative.word for alternative in found]
        assert len(set(words)) == len(words)
        assert any(word == word.upper() != "" and len(word) > 1 for word in words)
        for alternative in found:
            assert alternative.translation.text.startswith(f"{text} {alternative.word}".strip())


def test_no_word_ends_within_a_character() -> None:
    """Bytes spell a character; an incomplete one is decoded as U+FFFD."""
    tokenizer = small_tokenizer("unigram", byte_fallback=True)
    found = random_translator(1, tokenizer).alternatives("ab", number=30)
    assert len(found) == 30
    assert not any("\ufffd" in alternative.word for alternative in found)


def test_faults(trained: Path) -> None:
    translator = Translator.load(trained)
    with pytest.raises(DataError, match="the source is empty"):
        translator.alternatives(" ")
    with pytest.raises(DataError, match="the source has a sentence of more than 24 pieces"):
        translator.alternatives("gato " * 50)
    with pytest.raises(ConfigError, match="number: expected 1 or more, found 0"):
        translator.alternatives("gato", number=0)
    options = dataclasses.replace(translator.options(), beam_size=1)
    assert translator.alternatives("gato", options=options)[0].word == "cat"
