from __future__ import annotations

import math

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from seq2seq.analysis.report import (
    WordError,
    attention_figures,
    repetition,
    scores_by_length,
    unknown_share,
    word_errors,
)
from seq2seq.inference.text import Part


def part(weights: list[list[float]] | None) -> Part:
    return Part("", [], [], "", 0.0, 0.0, True, None if weights is None else np.array(weights))


def test_entropy_and_coverage_by_hand() -> None:
    # Rows: 1 bit, 2 bits, 0 bits; sums over the rows, without the end: 1.75, 0.75, 0.25.
    found = attention_figures(
        [part([[0.5, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25], [1, 0, 0, 0]]), part(None)]
    )
    assert found is not None
    assert found["entropy"] == pytest.approx(1)
    assert found["relative_entropy"] == pytest.approx(0.5)
    assert found["coverage"] == pytest.approx((1 + 0.75 + 0.25) / 3)
    assert found["neglected"] == 0
    # A source of only its end has one possible row of weights.
    alone = attention_figures([part([[1.0], [1.0]])])
    assert alone is not None
    assert (alone["entropy"], alone["relative_entropy"], alone["coverage"]) == (0, 0, 0)
    assert attention_figures([part(None)]) is None
    assert attention_figures([]) is None


def test_attention_figures_are_means_over_all_pieces() -> None:
    generator = np.random.default_rng(1)
    matrices = [generator.dirichlet(np.full(s, 0.3), t) for t, s in ((3, 5), (7, 2), (1, 9))]
    found = attention_figures([part(matrix.tolist()) for matrix in matrices])
    rows = [row for matrix in matrices for row in matrix]
    bits = [-sum(w * math.log2(w) for w in row if w > 0) for row in rows]
    sums = [total for matrix in matrices for total in matrix.sum(0)[:-1]]
    assert found is not None
    assert found["entropy"] == pytest.approx(np.mean(bits), abs=1e-5)
    shares = [bit / math.log2(len(row)) for bit, row in zip(bits, rows, strict=True)]
    assert found["relative_entropy"] == pytest.approx(np.mean(shares), abs=1e-5)
    assert found["coverage"] == pytest.approx(np.mean([min(1, total) for total in sums]), abs=1e-5)
    assert found["neglected"] == pytest.approx(np.mean([total < 0.1 for total in sums]))


def test_repetition_by_hand() -> None:
    # a-b b-a a-b b-c: one of four repeats; x has no bigram; p-q occurs once.
    assert repetition(["a b a b c", "x", "p q"]) == pytest.approx(1 / 5)
    assert repetition(["a b", "a b"]) == 0
    assert repetition(["the the the the"]) == pytest.approx(2 / 3)
    assert repetition(["a b c a b c"], size=3) == pytest.approx(1 / 4)
    assert repetition([]) == 0
    assert repetition(["猫犬猫犬"]) == pytest.approx(1 / 3)


def test_unknown_share() -> None:
    pieces = [["▁a", "<0xF0>", "<unk>", "</s>"], ["<0x", "b", "</s>"], ["</s>"]]
    assert unknown_share(pieces) == pytest.approx(2 / 5)
    assert unknown_share([]) == 0


def test_scores_by_length_equal_sacrebleu() -> None:
    sizes = [1, 5, 6, 10, 0, 41, 100, 5]
    sources = [" ".join("w" * size) for size in sizes]
    hypotheses = [f"a b c d e f {n}" for n in range(len(sizes))]
    references = [["a b c d e f 1", "a b c d"] for _ in sizes]
    scores = scores_by_length(sources, hypotheses, references, ("en", "en"))
    assert [(s.label, s.shortest, s.longest, s.sentences) for s in scores] == [
        ("1-5", 1, 5, 4), ("6-10", 6, 10, 2), ("over 40", 41, None, 2),
    ]  # fmt: skip
    streams = [[refs[n] for refs in references[:4]] for n in (0, 1)]
    first = [hypotheses[n] for n in (0, 1, 4, 7)]
    assert scores[0].bleu == BLEU().corpus_score(first, streams).score
    assert scores[0].chrf == CHRF().corpus_score(first, streams).score
    assert scores[0].length_ratio == 1


def test_word_errors_by_hand() -> None:
    missing, added = word_errors(
        ["the cat sat.", "a dog the the"],
        [["the cat sat there.", "quite another one"], ["the dog, a dog"]],
    )
    assert missing == [
        WordError(",", 1, 1, 1, (2,)), WordError("dog", 1, 2, 1, (2,)),
        WordError("there", 1, 1, 1, (1,)),
    ]  # fmt: skip
    assert added == [WordError("the", 1, 3, 1, (2,))]


def test_word_errors_keep_the_most_frequent() -> None:
    missing, added = word_errors(["x"] * 5, [["a b"]] * 4 + [["b"]], most=1)
    assert missing == [WordError("b", 5, 5, 5, (1, 2, 3))]
    assert added == [WordError("x", 5, 5, 5, (1, 2, 3))]
