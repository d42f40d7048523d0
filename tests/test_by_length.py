"""BLEU by source length, against sacreBLEU."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.analysis.plots import fixed_buckets
from seq2seq.evaluation.metrics import SEED
from studies.bootstrap import bleu_by_length, corpus_bleu, resampled_bleu, sentence_statistics

WORDS = ("the", "a", "cat", "dog", "eats", "sees", "bread", "water", "red", "big", "house", "boy")
Corpus = tuple[list[str], list[str], list[list[str]]]


def corpus(count: int, seed: int) -> Corpus:
    """Return sources, translations and one or two references each, which share many words."""
    generator = random.Random(seed)
    sources, hypotheses, references = [], [], []
    for _ in range(count):
        words = generator.choices(WORDS, k=generator.randint(1, 12))
        sources.append(" ".join(words))
        hypotheses.append(" ".join(w if generator.random() < 0.8 else "zebra" for w in words))
        second = [" ".join(words[::-1])] if generator.random() < 0.5 else []
        references.append([" ".join(words), *second])
    return sources, hypotheses, references


def sacre(hypotheses: list[str], references: list[list[str]]) -> float:
    depth = max(map(len, references))
    streams = [[r[n] if n < len(r) else None for r in references] for n in range(depth)]
    return sacrebleu.BLEU().corpus_score(hypotheses, streams).score  # type: ignore[arg-type]


def test_bucket_bleu_equals_sacrebleu() -> None:
    sources, hypotheses, references = corpus(80, 1)
    buckets = fixed_buckets(sources, "en", (3, 6, 9, 20))
    found = bleu_by_length(buckets, sentence_statistics(hypotheses, references, "en"))
    lengths = [len(source.split()) for source in sources]
    assert len(buckets) == 4
    assert sum(len(bucket.sentences) for bucket in buckets) == len(sources)
    edges = [(bucket.shortest, bucket.longest or 0) for bucket in buckets]
    assert all(one[1] < next_[0] for one, next_ in itertools.pairwise(edges))
    for bucket, (shortest, longest), scored in zip(buckets, edges, found, strict=True):
        inside = [n for n, x in enumerate(lengths) if shortest <= x <= longest]
        assert inside == list(bucket.sentences)
        expected = sacre([hypotheses[n] for n in inside], [references[n] for n in inside])
        assert scored == pytest.approx(expected, abs=1e-9)


def test_resampled_bleu_equals_resampled_sacrebleu() -> None:
    """With the same draws, each resampled corpus is scored by sacreBLEU."""
    _, hypotheses, references = corpus(25, 2)
    found = resampled_bleu(sentence_statistics(hypotheses, references, "en"), 30)
    generator = np.random.default_rng(SEED)
    for value in found:
        drawn = generator.integers(25, size=25)
        chosen = [hypotheses[n] for n in drawn], [references[n] for n in drawn]
        assert value == pytest.approx(sacre(*chosen))
    assert found.min() < sacre(hypotheses, references) < found.max()


def test_resamples_are_reproducible_and_closer_with_more_sentences() -> None:
    _, hypotheses, references = corpus(30, 3)
    few = resampled_bleu(sentence_statistics(hypotheses, references, "en"), 200)
    again = resampled_bleu(sentence_statistics(hypotheses, references, "en"), 200)
    np.testing.assert_array_equal(few, again)
    many = resampled_bleu(sentence_statistics(hypotheses * 16, references * 16, "en"), 200)
    # Sixteen times the sentences: a quarter of the width.
    width = [np.ptp(np.quantile(values, (0.025, 0.975))) for values in (few, many)]
    assert width[0] / width[1] == pytest.approx(4, rel=0.35)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 8), min_size=1, max_size=30), st.sets(st.integers(1, 10)))
def test_every_sentence_is_in_one_bucket(lengths: list[int], bounds: set[int]) -> None:
    sources = [" ".join(["a"] * length) for length in lengths]
    found = fixed_buckets(sources, "en", sorted(bounds))
    assert len(found) <= len(bounds) + 1
    assert all(bucket.sentences for bucket in found)
    assert sorted(n for bucket in found for n in bucket.sentences) == list(range(len(lengths)))
    for bucket in found:
        inside = [lengths[n] for n in bucket.sentences]
        assert bucket.shortest <= min(inside)
        assert max(inside) <= (bucket.longest or max(lengths))


def test_sums_of_statistics_give_corpus_bleu() -> None:
    _, hypotheses, references = corpus(40, 4)
    statistics = sentence_statistics(hypotheses, references, "en")
    assert statistics.shape == (40, 10)
    assert corpus_bleu(statistics.sum(0)) == pytest.approx(sacre(hypotheses, references))
    # Without any matching 4-gram BLEU is smoothed.
    hypotheses, references = (
        ["the cat eats bread now", "a dog"],
        [["the cat eats the bread"], ["a"]],
    )
    smoothed = corpus_bleu(sentence_statistics(hypotheses, references, "en").sum(0))
    assert smoothed == pytest.approx(sacre(hypotheses, references))
    assert smoothed > 0


def test_unequal_counts_raise_and_no_sentences_have_no_bucket() -> None:
    with pytest.raises(ValueError, match="shorter"):
        sentence_statistics(["a", "b"], [["a"]], "en")
    assert fixed_buckets([], "en") == []
