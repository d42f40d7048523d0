"""Score functions with every product that depends on the keys alone joined into one.

Legend: B batch, K hypotheses a sentence, S source length, H memory size, Q query size,
D key size, A attention size.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from seq2seq.model.prepared.product import product
from seq2seq.model.score import Additive, Concat, Dot, General


class PreparedScore(Protocol):
    """A score function that reads encoder states."""

    def remember(self, states_BSH: Tensor) -> Tensor:
        """Return the keys, all that depends on the source alone."""
        ...

    def __call__(self, query_BKQ: Tensor, keys: Tensor) -> Tensor:
        """Return scores [B, K, S], up to a term that is the same at all positions."""
        ...


class DotScore:
    """Dot products, scaled or general: the scale and the key's matrices go into the keys."""

    def __init__(self, score: Dot | General, key: nn.Linear | None, dtype: torch.dtype) -> None:
        self.scale = score.scale if isinstance(score, Dot) else 1.0
        weight = _joined(score.key.weight if isinstance(score, General) else None, key)
        self.key = None if weight is None else product(weight, None, dtype, bounded=True)
        query = score.query if isinstance(score, Dot) else None
        self.query = None if query is None else product(query.weight, None, dtype, bounded=True)

    def remember(self, states_BSH: Tensor) -> Tensor:
        return (states_BSH if self.key is None else self.key(states_BSH)) * self.scale

    def __call__(self, query_BKQ: Tensor, keys: Tensor) -> Tensor:
        query_BKD = query_BKQ if self.query is None else self.query(query_BKQ)
        return torch.bmm(query_BKD, keys.transpose(1, 2))


class AdditiveScore:
    """v'tanh(q + k) as 2v'sigmoid(2q + 2k) - sum(v); the softmax cancels the sum."""

    def __init__(self, score: Additive | Concat, key: nn.Linear | None, dtype: torch.dtype) -> None:
        if isinstance(score, Additive):
            query_AQ, key_AD, bias_A = score.query.weight, score.key.weight, score.key.bias * 2
        else:
            query_AQ = score.weight[:, : score.query_size]
            key_AD, bias_A = score.weight[:, score.query_size :], None
        weight_AH = key_AD if key is None else key_AD @ key.weight
        self.key = product(weight_AH * 2, bias_A, dtype, bounded=True)
        self.query = product(query_AQ * 2, None, dtype, bounded=True)
        self.energy_A = score.energy.detach() * 2

    def remember(self, states_BSH: Tensor) -> Tensor:
        return self.key(states_BSH)

    def __call__(self, query_BKQ: Tensor, keys: Tensor) -> Tensor:
        query_BKA = self.query(query_BKQ)
        hidden_BKSA = torch.add(query_BKA.unsqueeze(2), keys.unsqueeze(1)).sigmoid_()
        return hidden_BKSA @ self.energy_A


def prepare_score(
    score: Dot | General | Additive | Concat, key: nn.Linear | None, dtype: torch.dtype
) -> PreparedScore:
    """Return a score function with the projection of its keys."""
    if isinstance(score, Dot | General):
        return DotScore(score, key, dtype)
    return AdditiveScore(score, key, dtype)


def _joined(after: Tensor | None, before: nn.Linear | None) -> Tensor | None:
    """Return the matrix of two projections in a row, either of which may be missing."""
    if after is None or before is None:
        return after if before is None else before.weight
    return after @ before.weight
