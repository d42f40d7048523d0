"""Attention: memory, score, masked softmax, context, residual.

At each step a query of the decoder is compared with the keys of its sentence:

    scores_BKS  = score(query_BKQ, keys)
    weights_BKS = softmax over S of the scores, zero at padding
    context_BKM = sum over S of weights and values
    output_BKM  = context, plus the query if there is a residual

The softmax runs over the keys, never over the batch or the queries. The weights are computed for
each sentence, not learned, so their number follows its length. All that depends on the source
alone is computed once per sentence and kept in a `Memory` (`Attention.make_memory`).

Legend: B batch, K queries a sentence (hypotheses, or target positions), S source length,
Q query size, D key size, A attention size, M value size, H memory size (both directions of the
encoder), N heads, d and m key and value size of one head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from seq2seq.config import AttentionConfig
from seq2seq.model.kernels import (
    for_tanh,
    inner_products,
    linear,
    product_dtype,
    tanh_energies,
    weighted_sums,
)
from seq2seq.model.layers import Linear


@dataclass(frozen=True)
class Encoded:
    """The encoder's output: states, mask, and the last states of both directions."""

    states_BSH: Tensor
    mask_BS: Tensor
    summary_BH: Tensor


@dataclass(frozen=True)
class Memory:
    """Everything that decoding reads of a batch of sources, computed once.

    keys: projected keys [B, S, ...]; the score compares them with queries.
    values_BSM: the context is their weighted sum. mask_BS: true at real positions.
    summary_BH: last forward and first backward state. mean_BH: mean state.
    words_BSO: projected embeddings for the lexical shortcut, if the model has one.
    """

    keys: Tensor
    values_BSM: Tensor
    mask_BS: Tensor
    summary_BH: Tensor
    mean_BH: Tensor
    words_BSO: Tensor | None = None

    @classmethod
    def of(cls, encoded: Encoded, keys: Tensor, values_BSM: Tensor) -> Memory:
        """Return the memory of encoded sources, laid out for the products of every step."""
        mask_BS1 = encoded.mask_BS.unsqueeze(-1)
        mean_BH = (encoded.states_BSH * mask_BS1).sum(1) / mask_BS1.sum(1)
        keys, values_BSM = keys.contiguous(), values_BSM.to(product_dtype(values_BSM)).contiguous()
        return cls(keys, values_BSM, encoded.mask_BS, encoded.summary_BH, mean_BH)

    def select(self, sentences: Tensor) -> Memory:
        """Return the memory of these sentences only."""
        chosen = {n: t.index_select(0, sentences) for n, t in vars(self).items() if t is not None}
        return replace(self, **chosen)


class Dot(nn.Module):
    """score = q'k (Luong et al. 2015, sec. 3.1); scaled: over sqrt(D) (Vaswani et al. 2017)."""

    def __init__(self, query_size: int, key_size: int, *, scaled: bool, project: bool) -> None:
        super().__init__()
        # sqrt of the size of one key: q'k is a sum of D terms, so its spread grows as sqrt(D).
        self.scale = 1 / math.sqrt(key_size) if scaled else 1.0
        needed = project and query_size != key_size
        self.query = Linear(query_size, key_size, bias=False) if needed else None

    def project_keys(self, keys_BSD: Tensor) -> Tensor:
        return keys_BSD

    def forward(self, query_BKQ: Tensor, keys_BSD: Tensor) -> Tensor:
        query_BKD = query_BKQ if self.query is None else self.query(query_BKQ)
        return inner_products(query_BKD, keys_BSD) * self.scale


class General(nn.Module):
    """score = q'Wk (Luong et al. 2015, sec. 3.1); Wk is computed once per sentence."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.key = nn.Linear(key_size, query_size, bias=False)

    def project_keys(self, keys_BSD: Tensor) -> Tensor:
        keys_BSQ: Tensor = self.key(keys_BSD)
        return keys_BSQ

    def forward(self, query_BKQ: Tensor, keys_BSQ: Tensor) -> Tensor:
        return inner_products(query_BKQ, keys_BSQ)


class Additive(nn.Module):
    """score = v'tanh(W1 q + W2 k + b) (Bahdanau et al. 2014, A.1.2)."""

    def __init__(self, query_size: int, key_size: int, size: int) -> None:
        super().__init__()
        self.query = Linear(query_size, size, bias=False)
        self.key = nn.Linear(key_size, size)
        self.energy = nn.Parameter(torch.empty(size))

    def project_keys(self, keys_BSD: Tensor) -> Tensor:
        return for_tanh(self.key(keys_BSD))

    def forward(self, query_BKQ: Tensor, keys_BSA: Tensor) -> Tensor:
        return tanh_energies(self.query(query_BKQ), keys_BSA, self.energy)


class Concat(nn.Module):
    """score = v'tanh(W[q; k]) (Luong et al. 2015, sec. 3.1).

    The one matrix W is used by halves, W[q; k] = W_q q + W_k k, so the key's half is computed once.
    """

    def __init__(self, query_size: int, key_size: int, size: int) -> None:
        super().__init__()
        self.query_size = query_size
        self.weight = nn.Parameter(torch.empty(size, query_size + key_size))
        self.energy = nn.Parameter(torch.empty(size))

    def project_keys(self, keys_BSD: Tensor) -> Tensor:
        return for_tanh(nn.functional.linear(keys_BSD, self.weight[:, self.query_size :]))

    def forward(self, query_BKQ: Tensor, keys_BSA: Tensor) -> Tensor:
        query_BKA = linear(query_BKQ, self.weight[:, : self.query_size])
        return tanh_energies(query_BKA, keys_BSA, self.energy)


ScoreFunction = Dot | General | Additive | Concat


def build_score(config: AttentionConfig, query_size: int, key_size: int) -> ScoreFunction:
    """Return the score function that the config names."""
    if config.score in ("dot", "scaled_dot"):
        scaled = config.score == "scaled_dot"
        return Dot(query_size, key_size, scaled=scaled, project=config.project_query)
    if config.score == "general":
        return General(query_size, key_size)
    kind = Additive if config.score == "additive" else Concat
    return kind(query_size, key_size, config.size)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the softmax over the last axis, in fp32 at least, exactly zero where mask is false."""
    wide = scores.float() if scores.dtype == torch.bfloat16 else scores
    return wide.masked_fill(~mask, -torch.inf).softmax(-1)


class Residual(nn.Module):
    """The query to add to the context, projected if their sizes differ."""

    def __init__(self, query_size: int, output_size: int) -> None:
        super().__init__()
        same = query_size == output_size
        self.query = None if same else Linear(query_size, output_size, bias=False)

    def forward(self, query: Tensor) -> Tensor:
        """Return the query in the size of the output."""
        return query if self.query is None else self.query(query)


class Attention(nn.Module):
    """The steps of attention in order; subclasses define projection, score and context."""

    def __init__(self, *, query_size: int, output_size: int, residual: bool) -> None:
        super().__init__()
        self.output_size = output_size
        self.residual = Residual(query_size, output_size) if residual else None

    def forward(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Return output [..., M] and weights [..., S] of queries [B, K, Q] or, in rows, [B K, Q].

        The rows of a sentence are queries to one memory; no key or value is copied for a beam. With
        heads, the weights are their mean.
        """
        query_BKQ = query.view(len(memory.mask_BS), -1, query.shape[-1])
        scores = self.scores(query_BKQ, memory)
        weights = self.weights(scores, memory)
        output_BKM = self.add_query(self.context(weights, memory), query_BKQ)
        weights_BKS = weights.mean(1) if weights.dim() == 4 else weights
        rows = query.shape[:-1]
        return output_BKM.view(*rows, -1), weights_BKS.view(*rows, -1)

    def make_memory(self, encoded: Encoded) -> Memory:
        """Return the memory of these sentences, to be read by every query."""
        raise NotImplementedError

    def scores(self, query_BKQ: Tensor, memory: Memory) -> Tensor:
        """Return scores [B, K, S] or [B, N, K, S] before the mask."""
        raise NotImplementedError

    def weights(self, scores: Tensor, memory: Memory) -> Tensor:
        """Return the softmax of the scores over the source positions, exactly zero at padding."""
        batch, length = memory.mask_BS.shape
        return masked_softmax(scores, memory.mask_BS.view(batch, *[1] * (scores.dim() - 2), length))

    def context(self, weights: Tensor, memory: Memory) -> Tensor:
        """Return the weighted sum of values [B, K, M]."""
        raise NotImplementedError

    def add_query(self, context: Tensor, query: Tensor) -> Tensor:
        """Return the attention output: the context, plus the query if there is a residual."""
        return context if self.residual is None else context + self.residual(query)


class SingleHeadAttention(Attention):
    """Attention with one score function."""

    def __init__(
        self, config: AttentionConfig, *, query_size: int, memory_size: int, residual: bool
    ) -> None:
        value_size = config.value_size or memory_size
        super().__init__(query_size=query_size, output_size=value_size, residual=residual)
        self.key = _projection(memory_size, config.key_size)
        self.value = _projection(memory_size, config.value_size)
        self.score = build_score(config, query_size, config.key_size or memory_size)

    def make_memory(self, encoded: Encoded) -> Memory:
        keys = encoded.states_BSH if self.key is None else self.key(encoded.states_BSH)
        values = encoded.states_BSH if self.value is None else self.value(encoded.states_BSH)
        return Memory.of(encoded, self.score.project_keys(keys), values)

    def scores(self, query_BKQ: Tensor, memory: Memory) -> Tensor:
        scores_BKS: Tensor = self.score(query_BKQ, memory.keys)
        return scores_BKS

    def context(self, weights_BKS: Tensor, memory: Memory) -> Tensor:
        return weighted_sums(weights_BKS, memory.values_BSM)


def _projection(size: int, wanted: int | None) -> nn.Linear | None:
    return None if wanted is None else nn.Linear(size, wanted, bias=False)


class MultiHeadAttention(Attention):
    """Scaled dot products in N subspaces at once (Vaswani et al. 2017, sec. 3.2.2)."""

    def __init__(
        self, config: AttentionConfig, *, query_size: int, memory_size: int, residual: bool
    ) -> None:
        key_size = config.key_size or memory_size
        value_size = config.value_size or memory_size
        super().__init__(query_size=query_size, output_size=value_size, residual=residual)
        self.heads = config.heads
        self.scale = 1 / math.sqrt(key_size // config.heads)
        self.query = Linear(query_size, key_size)
        # A bias in the keys would add one number to all scores of a query; the softmax cancels it.
        self.key = nn.Linear(memory_size, key_size, bias=False)
        self.value = nn.Linear(memory_size, value_size)
        self.output = Linear(value_size, value_size)

    def make_memory(self, encoded: Encoded) -> Memory:
        return Memory.of(encoded, self.key(encoded.states_BSH), self.value(encoded.states_BSH))

    def scores(self, query_BKQ: Tensor, memory: Memory) -> Tensor:
        query_BNKd, keys_BNSd = self._split(self.query(query_BKQ)), self._split(memory.keys)
        return query_BNKd.to(keys_BNSd.dtype) @ keys_BNSd.transpose(2, 3) * self.scale

    def context(self, weights_BNKS: Tensor, memory: Memory) -> Tensor:
        heads_BNKm = weights_BNKS.to(memory.values_BSM.dtype) @ self._split(memory.values_BSM)
        context_BKM: Tensor = self.output(heads_BNKm.transpose(1, 2).flatten(2))
        return context_BKM

    def _split(self, vectors: Tensor) -> Tensor:
        """Return vectors [B, X, D] as those of the heads [B, N, X, d]."""
        return vectors.reshape(*vectors.shape[:2], self.heads, -1).transpose(1, 2)


class FixedContext(Attention):
    """No attention: every step sees the same summary of the source (Cho et al. 2014, fig. 1)."""

    def make_memory(self, encoded: Encoded) -> Memory:
        nothing = encoded.states_BSH[:, :, :0]
        return Memory.of(encoded, nothing, nothing)

    def forward(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Return the summary for each query [..., H], and no weights."""
        query_BKQ = query.view(len(memory.mask_BS), -1, query.shape[-1])
        summary_BKH = memory.summary_BH.unsqueeze(1).expand(-1, query_BKQ.shape[1], -1)
        return self.add_query(summary_BKH, query_BKQ).reshape(*query.shape[:-1], -1), None


def build_attention(
    config: AttentionConfig, *, query_size: int, memory_size: int, residual: bool
) -> Attention:
    """Return the attention that the config names."""
    if config.score == "none":
        return FixedContext(query_size=query_size, output_size=memory_size, residual=residual)
    kind = MultiHeadAttention if config.score == "multi_head" else SingleHeadAttention
    return kind(config, query_size=query_size, memory_size=memory_size, residual=residual)
