"""The most likely next words, against enumeration."""

from __future__ import annotations

import dataclasses
import math
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
from seq2seq.inference.alternatives import next_words
from seq2seq.inference.prefix import Prefix, Spelling
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


def plain_words(
    model: RandomBackend, tokenizer: Tokenizer, prefix: Prefix, number: int, longest: int
) -> dict[str, float]:
    """Return the most likely words with their probabilities, and "" for the end."""
    names = tokenizer.pieces(range(model.vocab_size))
    begins = [i for i, name in enumerate(names) if name[0] == "▁" or i == EOS]
    marks = {i for i, name in enumerate(names) if name in ("▁Ↄ", "▁ↃↃ", "▁ↄↄ")}
    given, ways = [], [tuple(tokens) for _, tokens, _ in prefix.beginnings]
    while any(way[: len(given)] == tuple(given) != way for way in ways):
        found = probabilities(model, (BOS, *given))
        legal = {way[len(given)] for way in ways if way[: len(given)] == tuple(given) != way}
        given.append(max(legal, key=found.__getitem__))
    found = probabilities(model, (BOS, *given))
    mass = sum(found[piece] for piece in begins)
    words: dict[str, float] = {}
    for piece in sorted(begins, key=lambda piece: -found[piece])[: 2 * number]:
        word, p = [piece] if piece != EOS else [], found[piece] / mass
        while word:
            after = probabilities(model, (BOS, *given, *word))
            following = after.index(max(after))
            ends = following == EOS or (following in begins and word[-1] not in marks)
            if len(given + word) == longest or ends:
                break
            word.append(following)
            p *= after[following]
        text = tokenizer.decode(given + word)[len(prefix.text) :].strip()
        if text or piece == EOS:
            words[text] = max(p, words.get(text, 0.0))
    return dict(sorted(words.items(), key=lambda found: -found[1])[:number])


@examples(40)
@given(
    st.integers(0, 1000),
    st.sampled_from(["unigram", "bpe"]),
    st.sampled_from([(False, ""), (False, "a"), (False, "ab ca")])
    | st.sampled_from([(True, ""), (True, "Ab"), (True, "AB"), (True, "CAB BA"), (True, "A B C")]),
    st.integers(10, 12),
    st.integers(1, 10),
)
def test_next_words_are_those_of_a_plain_search(
    seed: int, kind: str, given_text: tuple[bool, str], longest: int, number: int
) -> None:
    case_marks, text = given_text
    tokenizer = small_tokenizer(kind, case_marks)
    model = RandomBackend(seed, tokenizer.vocab_size, np.array([1]))
    options = SearchOptions(max_length_factor=0.01, max_length_offset=longest)
    spelling = Spelling(tokenizer)
    prefix = spelling.prefix(text + " ")
    expected = plain_words(model, tokenizer, prefix, number, longest)
    found = next_words(model, prefix, spelling, options, number)
    assert [word for word, *_ in found] == [*expected]
    assert [math.exp(lp) for _, lp, _ in found] == pytest.approx([*expected.values()], rel=1e-4)


def test_alternatives_are_whole_words() -> None:
    """The most likely pieces there begin words that have several, such as "grandmother"."""
    translator = Translator.load("es-en")
    found = translator.alternatives("La abuela hizo una sopa.", "The")
    words = [alternative.word for alternative in found]
    assert {"grandmother", "grandma"} & {*words}
    assert not {"gran", "grand", "grandm"} & {*words}


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
        [forced] = translator.force_decode(["gato come pan"], [text])
        assert best.translation.parts[0].log_prob == pytest.approx(forced.log_prob, abs=1e-4)
        # The end is one of what may follow a complete word.
        assert forced.log_probs[-1] - 1e-4 <= best.log_prob <= 0


def test_words_have_the_probabilities_of_forcing(translator: Translator) -> None:
    """A word that ends the sentence: its probability is at least that of its pieces and the end."""
    found = translator.alternatives("gato come pan", "cat eats", 3)
    pieces = translator.target.encode("cat eats")
    for alternative in filter(lambda each: each.word, found):
        text = f"cat eats {alternative.word}"
        [forced] = translator.force_decode(["gato come pan"], [text])
        assert translator.target.encode(text)[: len(pieces)] == pieces
        assert alternative.log_prob >= sum(forced.log_probs[len(pieces) :]) - 1e-4


def test_unknown_characters_in_the_prefix() -> None:
    tokenizer = small_tokenizer("unigram")
    for alternative in random_translator(1, tokenizer).alternatives("ab", "ж a", 30):
        assert alternative.translation.text.startswith("ж a")


def test_words_in_capitals_are_found() -> None:
    tokenizer = small_tokenizer("unigram", case_marks=True)
    for seed, text in enumerate(["", "AB BA", "AB BA CAB", "ab"]):
        found = random_translator(seed, tokenizer).alternatives("ab", text, 40)
        words = [alternative.word for alternative in found]
        assert len(set(words)) == len(words)
        assert any(word == word.upper() != "" for word in words)
        for alternative in found:
            assert alternative.translation.text.startswith(f"{text} {alternative.word}".strip())


def test_no_word_ends_within_a_character() -> None:
    """Bytes spell a character; an incomplete one is decoded as U+FFFD."""
    tokenizer = small_tokenizer("unigram", byte_fallback=True)
    for seed in range(5):
        found = random_translator(seed, tokenizer).alternatives("ab", number=30)
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
