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
from seq2seq.data import subwords
from seq2seq.data.cleaning import normalize
from seq2seq.data.subwords import Pieces
from seq2seq.data.tokenizer import UNK, Tokenizer, train_tokenizer

WORD = "camarones"
COUNT = 20_000


def sentences(count: int) -> list[str]:
    generator = random.Random(0)
    ends = ("", "", "n", "r")
    syllables = ["".join(parts) for parts in itertools.product("cmnrtpls", "aeo", ends)]
    words = ["".join(generator.choices(syllables, k=generator.randint(1, 4))) for _ in range(2000)]
    return [" ".join(generator.choices(words, k=6)) for _ in range(count)]


TEXTS = sentences(500)


def train(kind: str, size: int = 560, byte_fallback: bool = True) -> Tokenizer:
    config = TokenizerConfig(type=kind, byte_fallback=byte_fallback)
    return train_tokenizer(TEXTS, config=config, vocab_size=size, name="source")


@pytest.fixture(scope="module")
def unigram() -> Tokenizer:
    return train("unigram")


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return train("bpe")


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def tokenizer(request) -> Tokenizer:
    return request.getfixturevalue(request.param)


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


def unigram_probabilities(tokenizer: Tokenizer, word: str, alpha: float) -> dict:
    """Return the probability of each segmentation of a word: by enumeration."""
    scores = Pieces(tokenizer._processor).scores
    weights = {}
    for cuts in itertools.product((False, True), repeat=len(word) - 1):
        places = [0, *(place for place, cut in enumerate(cuts, 1) if cut), len(word)]
        pieces = tuple(word[a:b] for a, b in itertools.pairwise(places))
        if all(piece in scores for piece in pieces):
            weights[pieces] = math.exp(alpha * sum(scores[piece] for piece in pieces))
    return {pieces: weight / sum(weights.values()) for pieces, weight in weights.items()}


def dropout_probabilities(tokenizer: Tokenizer, word: str, alpha: float) -> dict:
    """Return the probability of each end of algorithm 1 of Provilkov et al. 2020.

    At each step every subset of the possible merges is left out once.
    """
    scores = Pieces(tokenizer._processor).scores
    found: Counter[tuple[str, ...]] = Counter()
    going = Counter({tuple(word): 1.0})
    while going:
        symbols, probability = going.popitem()
        merges = [
            i for i, pair in enumerate(itertools.pairwise(symbols)) if "".join(pair) in scores
        ]
        for kept in itertools.product((False, True), repeat=len(merges)):
            share = probability * math.prod(1 - alpha if keep else alpha for keep in kept)
            left = [place for place, keep in zip(merges, kept, strict=True) if keep]
            if not left:
                found[symbols] += share
                continue
            best = max(left, key=lambda i: (scores[symbols[i] + symbols[i + 1]], -i))
            merged = symbols[best] + symbols[best + 1]
            going[(*symbols[:best], merged, *symbols[best + 2 :])] += share
    return found


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 1.0])
def test_unigram_draws_each_segmentation_with_its_probability(unigram, alpha):
    rows = unigram.sample_batch([WORD] * COUNT, alpha=alpha, seed=1)
    probabilities = unigram_probabilities(unigram, f"▁{WORD}", alpha)
    assert len(probabilities) > 30
    assert_drawn_from(spellings(unigram, rows), probabilities)


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_bpe_draws_each_segmentation_with_its_probability(bpe, alpha):
    rows = bpe.sample_batch([WORD] * COUNT, alpha=alpha, seed=1)
    assert_drawn_from(spellings(bpe, rows), dropout_probabilities(bpe, f"▁{WORD}", alpha))


def test_unigram_matches_sentencepiece(unigram):
    options = {"out_type": int, "enable_sampling": True, "nbest_size": -1, "alpha": 0.2}
    theirs = spellings(unigram, unigram._processor.Encode([WORD] * COUNT, **options))
    ours = spellings(unigram, unigram.sample_batch([WORD] * COUNT, alpha=0.2, seed=1))
    for pieces, count in theirs.most_common(20):
        assert ours[pieces] == pytest.approx(count, abs=6 * math.sqrt(2 * count))


def test_words_are_drawn_independently(unigram):
    rows = unigram.sample_batch([f"{WORD} {WORD}"] * COUNT, alpha=0.5, seed=1)
    one = unigram_probabilities(unigram, f"▁{WORD}", 0.5)
    two = {a + b: p * q for (a, p), (b, q) in itertools.product(one.items(), repeat=2)}
    assert_drawn_from(spellings(unigram, rows), two)


@given(text=st.text(alphabet=st.one_of(st.characters(), st.sampled_from(" aeinostr"))))
@example("«¿Qué?» — 1.º, 2ª … ½ ﬁn Ａ漢字")
@example("<s> </s> <unk> <pad> <0x41> ▁a▁▁b▁")
@example("cama" * 20 + " " + "漢" * 1100)
@settings(max_examples=150, deadline=None)
@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0])
def test_samples_spell_the_text(tokenizer, alpha, text):
    expected = normalize(text.replace("▁", " "))
    assert tokenizer.decode(tokenizer.sample_batch([text], alpha=alpha, seed=0)[0]) == expected


@given(st.lists(st.text(alphabet="acelmnoprst .ñ漢"), max_size=5))
@settings(deadline=None)
def test_bpe_without_dropout_matches_encode(bpe, texts):
    assert bpe.sample_batch(texts, alpha=0.0, seed=1) == bpe.encode_batch(texts)
    assert bpe.sample_batch(TEXTS, alpha=0.0, seed=1) == bpe.encode_batch(TEXTS)


def test_bpe_with_all_merges_dropped_gives_characters(bpe):
    (ids,) = bpe.sample_batch(["la cama"], alpha=1.0, seed=1)
    assert bpe.pieces(ids) == list("▁la▁cama")


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_unknown_characters_without_byte_fallback(kind):
    tokenizer = train(kind, size=120, byte_fallback=False)
    for text in ("cama 😀", "漢字", "ca漢字ma 漢"):
        (ids,) = tokenizer.sample_batch([text], alpha=0.2, seed=1)
        assert ids.count(UNK) == tokenizer.encode(text).count(UNK)
        assert tokenizer.decode(ids) == tokenizer.decode(tokenizer.encode(text))


def test_very_long_words_are_not_sampled(tokenizer):
    word = "cama" * 300
    assert tokenizer.sample_batch([word], alpha=0.2, seed=1) == [tokenizer.encode(word)]


def test_samples_vary_with_the_seed_and_within_a_batch(tokenizer):
    first, second = (tokenizer.sample_batch(TEXTS, alpha=0.2, seed=seed) for seed in (1, 2))
    assert sum(a != b for a, b in zip(first, second, strict=True)) > len(TEXTS) / 2
    assert len(spellings(tokenizer, tokenizer.sample_batch([WORD] * 50, alpha=0.2, seed=1))) > 5


def test_samples_depend_only_on_texts_alpha_and_seed(tokenizer, monkeypatch):
    first = tokenizer.sample_batch(TEXTS, alpha=0.2, seed=5)
    tokenizer.sample_batch(TEXTS[::-1], alpha=0.2, seed=6)
    assert tokenizer.sample_batch(TEXTS, alpha=0.2, seed=5) == first
    np.random.seed(3)
    sentencepiece.set_random_generator_seed(99)
    tokenizer.sample_batch(TEXTS, alpha=0.5, seed=5)
    assert tokenizer.sample_batch(TEXTS, alpha=0.2, seed=5) == first
    with ThreadPoolExecutor(4) as pool:
        fresh = Tokenizer(tokenizer._model_proto)
        found = pool.map(lambda _: fresh.sample_batch(TEXTS, alpha=0.2, seed=5), range(8))
        assert all(rows == first for rows in found)


def test_discarding_graphs_does_not_change_samples(tokenizer, monkeypatch):
    monkeypatch.setattr(subwords, "_CHUNK", 7)
    kept = tokenizer.sample_batch(TEXTS, alpha=0.2, seed=5)
    for kind in (subwords.UnigramSampler, subwords.MergeSampler):
        monkeypatch.setattr(kind, "most_edges", 0)
    assert tokenizer.sample_batch(TEXTS, alpha=0.2, seed=5) == kept
    assert not tokenizer._sampler._starts


def test_samples_are_equal_in_every_process(tokenizer, tmp_path):
    path = tmp_path / "a.model"
    tokenizer.save(path)
    code = (
        "import sys; from seq2seq.data.tokenizer import Tokenizer\n"
        f"tokenizer = Tokenizer.load({str(path)!r})\n"
        f"print(tokenizer.sample_batch({TEXTS[:50]!r}, alpha=0.3, seed=2**40))"
    )
    command = [sys.executable, "-c", code]
    found = {
        subprocess.run(command, capture_output=True, check=True, text=True).stdout for _ in range(2)
    }
    assert found == {f"{tokenizer.sample_batch(TEXTS[:50], alpha=0.3, seed=2**40)}\n"}
