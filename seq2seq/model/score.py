"""Score functions: how well a query and a key fit. Each has two verbs.

`remember` does what depends on the keys alone, once a sentence; `forward` compares queries with
what was remembered, at each step, and gives scores [B, K, S].

Legend: B batch, K queries a sentence, S source length, Q query size, D key size,
A attention size.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from seq2seq.config import AttentionConfig


class Dot(nn.Module):
    """score = q'k (Luong et al. 2015, eq. 8); scaled: over sqrt(D) (Vaswani et al. 2017, eq. 1)."""

    def __init__(self, query_size: int, key_size: int, *, scaled: bool, project: bool) -> None:
        super().__init__()
        # sqrt of the size of one key: q'k is a sum of D terms, so its spread grows as sqrt(D).
        self.scale = 1 / math.sqrt(key_size) if scaled else 1.0
        needed = project and query_size != key_size
        self.query = nn.Linear(query_size, key_size, bias=False) if needed else None

    def remember(self, keys_BSD: Tensor) -> Tensor:
        return keys_BSD

    def forward(self, query_BKQ: Tensor, keys_BSD: Tensor) -> Tensor:
        query_BKD = query_BKQ if self.query is None else self.query(query_BKQ)
        return torch.bmm(query_BKD.to(keys_BSD.dtype), keys_BSD.transpose(1, 2)) * self.scale


class General(nn.Module):
    """score = q'Wk (Luong et al. 2015, eq. 8); Wk is computed once a sentence."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.key = nn.Linear(key_size, query_size, bias=False)

    def remember(self, keys_BSD: Tensor) -> Tensor:
        keys_BSQ: Tensor = self.key(keys_BSD)
        return keys_BSQ

    def forward(self, query_BKQ: Tensor, keys_BSQ: Tensor) -> Tensor:
        return torch.bmm(query_BKQ.to(keys_BSQ.dtype), keys_BSQ.transpose(1, 2))


class Additive(nn.Module):
    """score = v'tanh(W1 q + W2 k + b) (Bahdanau et al. 2014, A.1.2)."""

    def __init__(self, query_size: int, key_size: int, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_size, size, bias=False)
        self.key = nn.Linear(key_size, size)
        self.energy = nn.Parameter(torch.empty(size))

    def remember(self, keys_BSD: Tensor) -> Tensor:
        keys_BSA: Tensor = self.key(keys_BSD)
        return keys_BSA

    def forward(self, query_BKQ: Tensor, keys_BSA: Tensor) -> Tensor:
        return _energies(self.query(query_BKQ), keys_BSA, self.energy)


class Concat(nn.Module):
    """score = v'tanh(W[q; k]) (Luong et al. 2015, eq. 8).

    The one matrix W is used by halves, W[q; k] = W_q q + W_k k, so the key's half is computed once.
    """

    def __init__(self, query_size: int, key_size: int, size: int) -> None:
        super().__init__()
        self.query_size = query_size
        self.weight = nn.Parameter(torch.empty(size, query_size + key_size))
        self.energy = nn.Parameter(torch.empty(size))

    def remember(self, keys_BSD: Tensor) -> Tensor:
        return nn.functional.linear(keys_BSD, self.weight[:, self.query_size :])

    def forward(self, query_BKQ: Tensor, keys_BSA: Tensor) -> Tensor:
        query_BKA = nn.functional.linear(query_BKQ, self.weight[:, : self.query_size])
        return _energies(query_BKA, keys_BSA, self.energy)


def _energies(query_BKA: Tensor, keys_BSA: Tensor, energy_A: Tensor) -> Tensor:
    hidden_BKSA = torch.tanh(query_BKA.unsqueeze(2) + keys_BSA.unsqueeze(1))
    return hidden_BKSA @ energy_A.to(hidden_BKSA.dtype)


def build_score(
    config: AttentionConfig, query_size: int, key_size: int
) -> Dot | General | Additive | Concat:
    """Return the score function that the config names."""
    if config.score == "general":
        return General(query_size, key_size)
    if config.score == "additive":
        return Additive(query_size, key_size, config.size)
    if config.score == "concat":
        return Concat(query_size, key_size, config.size)
    scaled = config.score == "scaled_dot"
    return Dot(query_size, key_size, scaled=scaled, project=config.project_query)
