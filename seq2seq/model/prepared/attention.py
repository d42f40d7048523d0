"""Attention together with what reads it.

Whatever reads an attention output does so by a product, and products and weighted sums change
places: W sum_s(a_s v_s) = sum_s(a_s W v_s). So W is joined with the projections before it into
one matrix, and where several hypotheses share a sentence its product with the states is taken
once a sentence instead of once a step and hypothesis.

Legend: B batch, K hypotheses a sentence, R = B * K rows, S source length, Q query size,
M attention output size, X what is read, N heads, H memory size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from seq2seq.model.attention import (
    Attention,
    FixedContext,
    MultiHeadAttention,
    Residual,
    SingleHeadAttention,
)
from seq2seq.model.memory import Encoded
from seq2seq.model.prepared.product import product
from seq2seq.model.prepared.score import prepare_score

# With fewer queries a sentence MKL sums in other orders. How many hypotheses a sentence has at a
# step depends on its neighbours, and its translation must not.
_LEAST = 4


@dataclass(frozen=True)
class PreparedMemory:
    """What is fixed for a batch of sentences.

    `initial_BD` is what the decoder starts from; `shared` says that several hypotheses read what
    is kept of a sentence, so that all products with it are in the values already.
    """

    keys: Tensor
    values: Tensor
    padding_B1S: Tensor
    lengths_B: Tensor
    initial_BD: Tensor
    shared: bool

    def select(self, sentences_B: Tensor) -> PreparedMemory:
        """Return the memory of these sentences only."""
        return replace(
            self,
            keys=self.keys.index_select(0, sentences_B),
            values=self.values.index_select(0, sentences_B),
            padding_B1S=self.padding_B1S.index_select(0, sentences_B),
            lengths_B=self.lengths_B.index_select(0, sentences_B),
            initial_BD=self.initial_BD.index_select(0, sentences_B),
        )


class Reader:
    """An attention and the product of what reads it: W (context + residual) + b."""

    def __init__(self, attention: Attention, weight_XM: Tensor, dtype: torch.dtype) -> None:
        self.residual = None
        if attention.residual is not None:
            weight_XQ = _joined(weight_XM, attention.residual)
            self.residual = product(weight_XQ, None, dtype, bounded=True)

    def remember(self, encoded: Encoded, *, shared: bool) -> tuple[Tensor, Tensor]:
        """Return keys and values."""
        raise NotImplementedError

    def attend(self, query_BKQ: Tensor, memory: PreparedMemory) -> tuple[Tensor, Tensor | None]:
        """Return what is read of the contexts [B, K, X], and weights [B, K, S] if there are any."""
        raise NotImplementedError

    def __call__(self, query_RQ: Tensor, memory: PreparedMemory) -> tuple[Tensor, Tensor | None]:
        """Return reads [R, X] and weights [R, S] of one query a row."""
        query_BKQ = query_RQ.view(len(memory.lengths_B), -1, query_RQ.shape[1])
        count = query_BKQ.shape[1]
        if memory.shared and count < _LEAST:
            query_BKQ = nn.functional.pad(query_BKQ, (0, 0, 0, _LEAST - count))
        reads_BKX, weights_BKS = self.attend(query_BKQ, memory)
        reads_RX = reads_BKX[:, :count].flatten(0, 1)
        if self.residual is not None:
            reads_RX = reads_RX + self.residual(query_RQ)
        return reads_RX, None if weights_BKS is None else weights_BKS[:, :count].flatten(0, 1)


class SingleHead(Reader):
    """One score function; the values are the encoder's states, or what is read of them."""

    def __init__(
        self,
        attention: SingleHeadAttention,
        weight_XM: Tensor,
        bias_X: Tensor | None,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(attention, weight_XM, dtype)
        self.score = prepare_score(attention.score, attention.key, dtype)
        value = attention.value
        weight_XH = weight_XM if value is None else weight_XM @ value.weight
        self.read = product(weight_XH, bias_X, dtype, bounded=True)

    def remember(self, encoded: Encoded, *, shared: bool) -> tuple[Tensor, Tensor]:
        states_BSH = encoded.states_BSH
        # The weights of a sentence sum to one, so that the bias comes through unchanged.
        values = self.read(states_BSH) if shared else states_BSH
        return self.score.remember(states_BSH), values

    def attend(self, query_BKQ: Tensor, memory: PreparedMemory) -> tuple[Tensor, Tensor | None]:
        scores_BKS = self.score(query_BKQ, memory.keys)
        weights_BKS = scores_BKS.masked_fill_(memory.padding_B1S, -torch.inf).softmax(-1)
        context = torch.bmm(weights_BKS, memory.values)
        return context if memory.shared else self.read(context), weights_BKS


class MultiHead(Reader):
    """Heads, whose contexts go side by side through one product."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        weight_XM: Tensor,
        bias_X: Tensor | None,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(attention, weight_XM, dtype)
        self.heads = attention.heads
        query, output = attention.query, attention.output
        self.query = product(
            query.weight * attention.scale, query.bias * attention.scale, dtype, bounded=True
        )
        self.key = product(attention.key.weight, None, dtype, bounded=True)
        self.value = product(attention.value.weight, attention.value.bias, dtype, bounded=True)
        bias = weight_XM @ output.bias
        bias = bias if bias_X is None else bias + bias_X
        self.read = product(weight_XM @ output.weight, bias, dtype)

    def remember(self, encoded: Encoded, *, shared: bool) -> tuple[Tensor, Tensor]:
        states_BSH = encoded.states_BSH
        return self._split(self.key(states_BSH)), self._split(self.value(states_BSH))

    def attend(self, query_BKQ: Tensor, memory: PreparedMemory) -> tuple[Tensor, Tensor | None]:
        scores_BNKS = self._split(self.query(query_BKQ)) @ memory.keys.transpose(2, 3)
        padding_B11S = memory.padding_B1S.unsqueeze(1)
        weights_BNKS = scores_BNKS.masked_fill_(padding_B11S, -torch.inf).softmax(-1)
        context_BKM = (weights_BNKS @ memory.values).transpose(1, 2).flatten(2)
        return self.read(context_BKM), weights_BNKS.mean(1)

    def _split(self, sides_BXD: Tensor) -> Tensor:
        sides_BXNd = sides_BXD.reshape(*sides_BXD.shape[:2], self.heads, -1)
        return sides_BXNd.transpose(1, 2).contiguous()


class Summary(Reader):
    """No attention: every step reads the same of the source."""

    def __init__(
        self,
        attention: FixedContext,
        weight_XM: Tensor,
        bias_X: Tensor | None,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(attention, weight_XM, dtype)
        self.read = product(weight_XM, bias_X, dtype, bounded=True)

    def remember(self, encoded: Encoded, *, shared: bool) -> tuple[Tensor, Tensor]:
        return encoded.states_BSH[:, :, :0], self.read(encoded.summary_BH)

    def attend(self, query_BKQ: Tensor, memory: PreparedMemory) -> tuple[Tensor, Tensor | None]:
        return memory.values.unsqueeze(1).expand(-1, query_BKQ.shape[1], -1), None


def prepare_attention(
    attention: Attention, weight_XM: Tensor, bias_X: Tensor | None, dtype: torch.dtype
) -> Reader:
    """Return an attention together with the product of what reads it."""
    if isinstance(attention, SingleHeadAttention):
        return SingleHead(attention, weight_XM, bias_X, dtype)
    if isinstance(attention, MultiHeadAttention):
        return MultiHead(attention, weight_XM, bias_X, dtype)
    assert isinstance(attention, FixedContext)
    return Summary(attention, weight_XM, bias_X, dtype)


def _joined(weight_XM: Tensor, residual: Residual) -> Tensor:
    return weight_XM if residual.query is None else weight_XM @ residual.query.weight
