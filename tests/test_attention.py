"""Scores, mask, softmax and context: formulas, invariances, extremes.

Legend: B batch, K queries a sentence, S source length, Q query size, H memory size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import layers
from torch import Tensor

from seq2seq.config import AttentionConfig, Score
from seq2seq.model.attention import (
    Attention,
    Encoded,
    FixedContext,
    Memory,
    build_attention,
    masked_softmax,
)

MEMORY = 6
LENGTHS = (4, 1, 5)
QUERIES = 3

VARIANTS: dict[str, tuple[Score, dict[str, Any], int]] = {
    "dot": ("dot", {}, MEMORY),
    "dot of a key size": ("dot", {"key_size": 5}, 5),
    "dot of a projected query": ("dot", {"project_query": True}, 5),
    "scaled dot": ("scaled_dot", {}, MEMORY),
    "scaled dot of a projected query": ("scaled_dot", {"project_query": True, "key_size": 4}, 5),
    "general": ("general", {}, 5),
    "general of a value size": ("general", {"value_size": 4, "key_size": 4}, 5),
    "additive": ("additive", {}, 5),
    "additive of a key size": ("additive", {"key_size": 4}, 5),
    "concat": ("concat", {}, 5),
    "concat of a value size": ("concat", {"value_size": 5}, 5),
    "one head": ("multi_head", {}, 5),
    "two heads": ("multi_head", {"heads": 2}, 5),
    "two heads of other sizes": ("multi_head", {"heads": 2, "key_size": 4, "value_size": 8}, 5),
}
every_score = pytest.mark.parametrize("variant", VARIANTS)


def build(variant: str, *, residual: bool = False, dtype: torch.dtype = torch.float64) -> Attention:
    """Return the attention of a variant with random weights."""
    score, choice, query_size = VARIANTS[variant]
    torch.manual_seed(0)
    attention = build_attention(
        AttentionConfig(score=score, **{"size": 3, **choice}),
        query_size=query_size,
        memory_size=MEMORY,
        residual=residual,
    )
    assert isinstance(attention, Attention)
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return attention.to(dtype)


def random_queries(variant: str) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(
        len(LENGTHS), QUERIES, VARIANTS[variant][2], generator=generator, dtype=torch.float64
    )


def random_states(lengths: tuple[int, ...] = LENGTHS) -> Encoded:
    generator = torch.Generator().manual_seed(2)
    mask_BS = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    states = torch.randn(*mask_BS.shape, MEMORY, generator=generator, dtype=torch.float64)
    return encoded(states * mask_BS.unsqueeze(-1), mask_BS)


def encoded(states_BSH: Tensor, mask_BS: Tensor) -> Encoded:
    return Encoded(states_BSH, mask_BS, states_BSH[:, 0])


def attend(attention: Attention, query_BKQ: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    output_BKM, weights_BKS = attention(query_BKQ, memory)
    assert weights_BKS is not None
    return output_BKM, weights_BKS


@every_score
@pytest.mark.parametrize("residual", [False, True], ids=["context", "residual"])
@torch.no_grad()
def test_output_and_weights_match_formulas(variant: str, residual: bool) -> None:
    attention, queries = build(variant, residual=residual), random_queries(variant)
    states = random_states()
    score, choice, _ = VARIANTS[variant]
    output, weights = attend(attention, queries, attention.make_memory(states))
    arrays = {name: p.numpy() for name, p in attention.named_parameters()}
    for row, length in enumerate(LENGTHS):
        vectors = list(states.states_BSH[row, :length].numpy())
        for number in range(QUERIES):
            expected, shares = layers.attend(
                AttentionConfig(score=score, **choice),
                arrays,
                queries[row, number].numpy(),
                vectors,
                vectors[0],
                residual=residual,
            )
            np.testing.assert_allclose(output[row, number], expected, rtol=0, atol=1e-12)
            found = weights[row, number, :length]
            np.testing.assert_allclose(found, np.array(shares), rtol=0, atol=1e-12)
            assert not weights[row, number, length:].any()


@every_score
@torch.no_grad()
def test_source_order_does_not_matter(variant: str) -> None:
    attention, queries, states = build(variant), random_queries(variant), random_states((5, 5, 5))
    order = torch.tensor([3, 0, 4, 2, 1])
    output, weights = attend(attention, queries, attention.make_memory(states))
    moved = encoded(states.states_BSH[:, order], states.mask_BS)
    moved_output, moved_weights = attend(attention, queries, attention.make_memory(moved))
    torch.testing.assert_close(moved_weights, weights[:, :, order])
    torch.testing.assert_close(moved_output, output)


@every_score
@torch.no_grad()
def test_values_at_padding_do_not_matter(variant: str) -> None:
    attention, queries, states = build(variant), random_queries(variant), random_states()
    rubbish = torch.where(states.mask_BS.unsqueeze(-1), states.states_BSH, 1e6)
    output, weights = attend(attention, queries, attention.make_memory(states))
    memory = attention.make_memory(encoded(rubbish, states.mask_BS))
    other_output, other_weights = attend(attention, queries, memory)
    torch.testing.assert_close(other_weights, weights)
    torch.testing.assert_close(other_output, output)


@every_score
@torch.no_grad()
def test_equal_scores_give_uniform_weights(variant: str) -> None:
    attention, queries, states = build(variant), random_queries(variant), random_states()
    same = states.states_BSH[:, :1].expand_as(states.states_BSH)
    _, weights = attend(attention, queries, attention.make_memory(encoded(same, states.mask_BS)))
    for row, length in enumerate(LENGTHS):
        expected = torch.full((QUERIES, length), 1 / length, dtype=torch.float64)
        torch.testing.assert_close(weights[row, :, :length], expected)
        assert not weights[row, :, length:].any()


@every_score
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_huge_scores_stay_finite(variant: str, dtype: torch.dtype) -> None:
    attention, states = build(variant, dtype=dtype), random_states()
    with torch.no_grad():
        for name, parameter in attention.named_parameters():
            if name.endswith("energy"):  # there the tanh keeps queries from making scores huge
                parameter.mul_(1e5)
    queries = (random_queries(variant) * 1e5).to(dtype).requires_grad_()
    memory = attention.make_memory(encoded(states.states_BSH.to(dtype), states.mask_BS))
    assert attention.scores(queries, memory).abs().max() > 1e4
    output, weights = attend(attention, queries, memory)
    assert weights.isfinite().all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2], dtype=dtype))
    (output.sum() + weights.square().sum()).backward()
    assert queries.grad is not None
    assert queries.grad.isfinite().all()
    for name, parameter in attention.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@every_score
@torch.no_grad()
def test_single_source_piece_gets_all_weight(variant: str) -> None:
    attention, queries = build(variant), random_queries(variant)
    memory = attention.make_memory(random_states((1, 1, 1)))
    _, weights = attend(attention, queries, memory)
    assert torch.equal(weights, torch.ones_like(weights))


@every_score
@torch.no_grad()
def test_weights_over_500_pieces_sum_to_one(variant: str) -> None:
    attention, queries = build(variant), random_queries(variant)
    output, weights = attend(
        attention, queries, attention.make_memory(random_states((500, 499, 3)))
    )
    assert output.isfinite().all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(len(LENGTHS), QUERIES).double())


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=8), st.floats(-1e4, 1e4), st.integers(0, 4)
)
def test_masked_softmax_is_shift_invariant_and_ignores_masked_scores(
    scores: list[float], shift: float, padding: int
) -> None:
    row = torch.tensor(scores, dtype=torch.float64)
    mask = torch.arange(len(scores) + padding) < len(scores)
    padded = torch.cat([row, torch.full((padding,), 1e8, dtype=torch.float64)])
    weights = masked_softmax(padded, mask)
    expected = torch.tensor(layers.softmax(scores), dtype=torch.float64)
    torch.testing.assert_close(weights[: len(scores)], expected, rtol=1e-10, atol=1e-12)
    assert not weights[len(scores) :].any()
    torch.testing.assert_close(masked_softmax(padded + shift, mask), weights, rtol=1e-7, atol=1e-9)


def test_softmax_of_bf16_is_fp32() -> None:
    scores, mask = torch.randn(2, 300).bfloat16(), torch.ones(2, 300, dtype=torch.bool)
    weights = masked_softmax(scores, mask)
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights.sum(-1), torch.ones(2))


@torch.no_grad()
def test_scaled_dot_divides_by_sqrt_of_key_size() -> None:
    queries, states = random_queries("dot"), random_states()
    dot, scaled = build("dot"), build("scaled dot")
    plain = dot.scores(queries, dot.make_memory(states))
    torch.testing.assert_close(scaled.scores(queries, scaled.make_memory(states)), plain / 6**0.5)


@pytest.mark.parametrize("residual", [False, True])
def test_fixed_context_returns_summary_for_every_query(residual: bool) -> None:
    attention = build_attention(
        AttentionConfig(score="none"), query_size=MEMORY, memory_size=MEMORY, residual=residual
    )
    assert isinstance(attention, FixedContext)
    states, queries = random_states(), random_queries("dot")
    output, weights = attention(queries, attention.make_memory(states))
    assert weights is None
    expected = states.summary_BH.unsqueeze(1) + (queries if residual else torch.zeros_like(queries))
    torch.testing.assert_close(output, expected)


@torch.no_grad()
def test_heads_have_own_weights_and_mean_is_returned() -> None:
    attention, queries, states = build("two heads"), random_queries("two heads"), random_states()
    memory = attention.make_memory(states)
    heads_BNKS = attention.weights(attention.scores(queries, memory), memory)
    assert heads_BNKS.shape == (len(LENGTHS), 2, QUERIES, max(LENGTHS))
    assert (heads_BNKS[0, 0] - heads_BNKS[0, 1]).abs().max() > 0.01
    torch.testing.assert_close(attend(attention, queries, memory)[1], heads_BNKS.mean(1))
