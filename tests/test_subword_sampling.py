"""Subword sampling, through Tokenizer.sample_batch."""

import itertools
import math
import random
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seq2seq.config import TokenizerConfig
from seq2seq.data.cleaning import normalize
from seq2seq.data.tokenizer import UNK, Tokenizer, train_tokenizer
from seq2seq.errors import DataError

WORD = "camarones"
COUNT = 20_000


def sentences(count: int) -> list[str]:
    generator = random.Random(0)
    ends = ("", "", "n", "r")
    syllables = ["".join(parts) for parts in itertools.product("cmnrtpls", "aeo", ends)]
    words = ["".join(generator.choices(syllables, k=generator.randint(1, 4))) for _ in range(2000)]
    return [" ".join(generator.choices(words, k=6)) for _ in range(count)]


TEXTS = sentences(500)


def train(kind: str = "unigram", size: int = 560, byte_fallback: bool = True) -> Tokenizer:
    config = TokenizerConfig(type=kind, byte_fallback=byte_fallback)
    return train_tokenizer(TEXTS, config=config, vocab_size=size, name="source")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train()


def sample(tokenizer: Tokenizer, texts: list[str], alpha: float, seed: int) -> list[list[int]]:
    return tokenizer.sample_batch(texts, alpha=alpha, generator=np.random.default_rng(seed))


def spellings(tokenizer: Tokenizer, rows: list[list[int]]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokenizer.pieces(row)) for row in rows)


def assert_drawn_from(counts: Counter, probabilities: dict) -> None:
    """Compare counts with probabilities: chi-square, at five standard deviations."""
    assert counts.keys() <= probabilities.keys()
    total = counts.total()
    expected = {key: p * total for key, p in probabilities.items() if p * total >= 5}
    rest = total - sum(expected.values())
    terms = [(counts[key] - mean) ** 2 / mean for key, mean in expected.items()]
    if rest >= 5:
        seen = sum(count for key, count in counts.items() if key not in expected)
        terms.append((seen - rest) ** 2 / rest)
    degrees = len(terms) - 1
    assert sum(terms) < degrees + 5 * math.sqrt(2 * degrees)


def probabilities(tokenizer: Tokenizer, word: str, alpha: float) -> dict:
    """Return the probability of each of the 64 best segmentations of a word: by enumeration."""
    processor = tokenizer._processor
    scores = {
        processor.IdToPiece(i): processor.GetScore(i) for i in range(4, processor.vocab_size())
    }
    weights = {}
    for cuts in itertools.product((False, True), repeat=len(word) - 1):
        places = [0, *(place for place, cut in enumerate(cuts, 1) if cut), len(word)]
        pieces = tuple(word[a:b] for a, b in itertools.pairwise(places))
        if all(piece in scores for piece in pieces):
            weights[pieces] = sum(scores[piece] for piece in pieces)
    best = sorted(weights, key=weights.__getitem__, reverse=True)[:64]
    shares = {pieces: math.exp(alpha * weights[pieces]) for pieces in best}
    return {pieces: share / sum(shares.values()) for pieces, share in shares.items()}


@pytest.mark.parametrize("alpha", [0.01, 0.2, 0.5, 1.0])
def test_words_are_drawn_from_the_64_best_by_their_probability(tokenizer, alpha):
    word = "camaronespelar"
    expected = probabilities(tokenizer, f"▁{word}", alpha)
    assert len(expected) == 64
    rows = sample(tokenizer, [word] * COUNT, alpha, 1)
    assert_drawn_from(spellings(tokenizer, rows), expected)


def test_words_are_drawn_independently(tokenizer):
    rows = sample(tokenizer, [f"{WORD} {WORD}"] * COUNT, 0.5, 1)
    one = probabilities(tokenizer, f"▁{WORD}", 0.5)
    two = {a + b: p * q for (a, p), (b, q) in itertools.product(one.items(), repeat=2)}
    assert_drawn_from(spellings(tokenizer, rows), two)


@given(text=st.text(alphabet=st.one_of(st.characters(), st.sampled_from(" aeinostr"))))
@example("«¿Qué?» — 1.º, 2ª … ½ ﬁn Ａ漢字")
@example("<s> </s> <unk> <pad> <0x41> ▁a▁▁b▁")
@example("cama" * 12 + " " + "漢" * 50)
@settings(max_examples=150, deadline=None)
@pytest.mark.parametrize("alpha", [0.01, 0.2, 1.0])
def test_samples_spell_the_text(tokenizer, alpha, text):
    expected = normalize(text.replace("▁", " "))
    assert tokenizer.decode(sample(tokenizer, [text], alpha, 0)[0]) == expected


def test_bpe_models_are_refused():
    with pytest.raises(DataError, match=r"data\.tokenizer\.sampling_alpha: .*not a unigram model"):
        sample(train("bpe"), [WORD], 0.1, 1)


def test_unknown_characters_without_byte_fallback():
    tokenizer = train(size=120, byte_fallback=False)
    for text in ("cama 😀", "漢字", "ca漢字ma 漢"):
        (ids,) = sample(tokenizer, [text], 0.2, 1)
        assert ids.count(UNK) == tokenizer.encode(text).count(UNK)
        assert tokenizer.decode(ids) == tokenizer.decode(tokenizer.encode(text))


def test_very_long_words_are_not_sampled(tokenizer, capfd):
    words = ["a" * 50, ("cama" * 13)[:50], "aeo" * 16]  # the list is made in silence
    sample(tokenizer, words, 0.2, 1)
    word = "cama" * 300
    assert sample(tokenizer, [word], 0.2, 1) == [tokenizer.encode(word)]
    assert capfd.readouterr() == ("", "")


def test_samples_vary_with_the_seed_and_within_a_batch(tokenizer):
    first, second = (sample(tokenizer, TEXTS, 0.2, seed) for seed in (1, 2))
    assert sum(a != b for a, b in zip(first, second, strict=True)) > len(TEXTS) / 2
    assert len(spellings(tokenizer, sample(tokenizer, [WORD] * 50, 0.2, 1))) > 5


def test_samples_depend_only_on_texts_alpha_and_seed(tokenizer):
    first = sample(tokenizer, TEXTS, 0.2, 5)
    sample(tokenizer, TEXTS[::-1], 0.2, 6)
    assert sample(tokenizer, TEXTS, 0.2, 5) == first
    np.random.seed(3)
    sentencepiece.set_random_generator_seed(99)
    sample(tokenizer, TEXTS, 0.5, 5)
    assert sample(tokenizer, TEXTS, 0.2, 5) == first
    with ThreadPoolExecutor(4) as pool:
        fresh = Tokenizer(tokenizer._model_proto)
        found = pool.map(lambda _: sample(fresh, TEXTS, 0.2, 5), range(8))
        assert all(rows == first for rows in found)


def test_samples_are_equal_in_every_process(tokenizer, tmp_path):
    path = tmp_path / "a.model"
    tokenizer.save(path)
    code = (
        "import numpy as np; from seq2seq.data.tokenizer import Tokenizer\n"
        f"tokenizer = Tokenizer.load({str(path)!r})\n"
        f"generator = np.random.default_rng({2**40})\n"
        f"print(tokenizer.sample_batch({TEXTS[:50]!r}, alpha=0.3, generator=generator))"
    )
    command = [sys.executable, "-c", code]
    found = {
        subprocess.run(command, capture_output=True, check=True, text=True).stdout for _ in range(2)
    }
    assert found == {f"{sample(tokenizer, TEXTS[:50], 0.3, 2**40)}\n"}
