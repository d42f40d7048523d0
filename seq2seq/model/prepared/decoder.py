"""The decoders laid out for translating, one step at a time; see seq2seq.model.decoder.

Products and weighted sums change places: W sum_s(a_s v_s) = sum_s(a_s W v_s). Every product that
depends on the keys alone is therefore joined into one, and so is the product W by which a decoder
reads the output of its attention with the projections before it. Where several hypotheses share a
sentence, its product with the states is computed once per sentence instead of once per step and
hypothesis.

Legend: B sentences, K hypotheses per sentence, R = B * K rows, S source length, H memory size,
Q query size, A attention size, N heads, d size of one head, M attention output size, X what is
read of the attention output, E embedding size, V vocabulary, D decoder size, G = 3D gates,
W readout size before maxout, O features size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn

from seq2seq.model.attention import (
    Additive,
    Attention,
    Concat,
    Dot,
    Encoded,
    FixedContext,
    General,
    MultiHeadAttention,
    Residual,
    ScoreFunction,
    SingleHeadAttention,
)
from seq2seq.model.decoder import (
    BahdanauDecoder,
    Decoder,
    DecoderState,
    LuongDecoder,
    PreAttentionDecoder,
)
from seq2seq.model.prepared.product import Cell, Lookup, Product, bias_of, product, tanh_


class PreparedScore(Protocol):
    """A score function that reads encoder states."""

    def project_keys(self, states_BSH: Tensor) -> Tensor:
        """Return the keys, all that depends on the source alone."""
        ...

    def __call__(self, query_BKQ: Tensor, keys: Tensor) -> Tensor:
        """Return scores [B, K, S], up to a term that is the same at all positions."""
        ...


class DotScore:
    """Dot products, scaled or general: the scale and the key's matrices go into the keys."""

    def __init__(self, score: Dot | General, key: nn.Linear | None, dtype: torch.dtype) -> None:
        self.scale = score.scale if isinstance(score, Dot) else 1.0
        weight = _joined_scores(score.key.weight if isinstance(score, General) else None, key)
        self.key = None if weight is None else product(weight, None, dtype, bounded=True)
        query = score.query if isinstance(score, Dot) else None
        self.query = None if query is None else product(query.weight, None, dtype, bounded=True)

    def project_keys(self, states_BSH: Tensor) -> Tensor:
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

    def project_keys(self, states_BSH: Tensor) -> Tensor:
        return self.key(states_BSH)

    def __call__(self, query_BKQ: Tensor, keys: Tensor) -> Tensor:
        query_BKA = self.query(query_BKQ)
        hidden_BKSA = torch.add(query_BKA.unsqueeze(2), keys.unsqueeze(1)).sigmoid_()
        return hidden_BKSA @ self.energy_A


def prepare_score(score: ScoreFunction, key: nn.Linear | None, dtype: torch.dtype) -> PreparedScore:
    """Return a score function with the projection of its keys."""
    if isinstance(score, Dot | General):
        return DotScore(score, key, dtype)
    if isinstance(score, Additive | Concat):
        return AdditiveScore(score, key, dtype)
    raise AssertionError(f"no prepared form of {type(score).__name__}")


def _joined_scores(after: Tensor | None, before: nn.Linear | None) -> Tensor | None:
    """Return the matrix of two projections in a row, either of which may be missing."""
    if after is None or before is None:
        return after if before is None else before.weight
    return after @ before.weight


# With fewer queries a sentence MKL sums in other orders. How many hypotheses a sentence has at a
# step depends on its neighbors, and its translation must not.
_LEAST = 4


@dataclass(frozen=True)
class PreparedMemory:
    """What is fixed for a batch of sentences.

    `initial_BD` is what the decoder starts from; `is_beam` says that several hypotheses read the
    values of a sentence, which are therefore projected already.
    """

    keys: Tensor
    values: Tensor
    padding_B1S: Tensor
    lengths_B: Tensor
    initial_BD: Tensor
    is_beam: bool

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


class FusedAttention:
    """An attention and the product of what reads it: W (context + residual) + b."""

    def __init__(self, attention: Attention, weight_XM: Tensor, dtype: torch.dtype) -> None:
        self.residual = None
        if attention.residual is not None:
            weight_XQ = _joined(weight_XM, attention.residual)
            self.residual = product(weight_XQ, None, dtype, bounded=True)

    def keys_and_values(self, encoded: Encoded, *, is_beam: bool) -> tuple[Tensor, Tensor]:
        """Return what is computed of the source once per sentence."""
        raise NotImplementedError

    def attend(self, query_BKQ: Tensor, memory: PreparedMemory) -> tuple[Tensor, Tensor | None]:
        """Return what is read of the contexts [B, K, X], and weights [B, K, S] if there are any."""
        raise NotImplementedError

    def __call__(self, query_RQ: Tensor, memory: PreparedMemory) -> tuple[Tensor, Tensor | None]:
        """Return reads [R, X] and weights [R, S] of one query a row."""
        query_BKQ = query_RQ.view(len(memory.lengths_B), -1, query_RQ.shape[1])
        count = query_BKQ.shape[1]
        if memory.is_beam and count < _LEAST:
            query_BKQ = nn.functional.pad(query_BKQ, (0, 0, 0, _LEAST - count))
        reads_BKX, weights_BKS = self.attend(query_BKQ, memory)
        reads_RX = reads_BKX[:, :count].flatten(0, 1)
        if self.residual is not None:
            reads_RX = reads_RX + self.residual(query_RQ)
        return reads_RX, None if weights_BKS is None else weights_BKS[:, :count].flatten(0, 1)


class SingleHead(FusedAttention):
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

    def keys_and_values(self, encoded: Encoded, *, is_beam: bool) -> tuple[Tensor, Tensor]:
        states_BSH = encoded.states_BSH
        # The weights of a sentence sum to one, so that the bias comes through unchanged.
        values = self.read(states_BSH) if is_beam else states_BSH
        return self.score.project_keys(states_BSH), values

    def attend(self, query_BKQ: Tensor, memory: PreparedMemory) -> tuple[Tensor, Tensor | None]:
        scores_BKS = self.score(query_BKQ, memory.keys)
        weights_BKS = scores_BKS.masked_fill_(memory.padding_B1S, -torch.inf).softmax(-1)
        context = torch.bmm(weights_BKS, memory.values)
        return context if memory.is_beam else self.read(context), weights_BKS


class MultiHead(FusedAttention):
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

    def keys_and_values(self, encoded: Encoded, *, is_beam: bool) -> tuple[Tensor, Tensor]:
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


class Summary(FusedAttention):
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

    def keys_and_values(self, encoded: Encoded, *, is_beam: bool) -> tuple[Tensor, Tensor]:
        return encoded.states_BSH[:, :, :0], self.read(encoded.summary_BH)

    def attend(self, query_BKQ: Tensor, memory: PreparedMemory) -> tuple[Tensor, Tensor | None]:
        return memory.values.unsqueeze(1).expand(-1, query_BKQ.shape[1], -1), None


def prepare_attention(
    attention: Attention, weight_XM: Tensor, bias_X: Tensor | None, dtype: torch.dtype
) -> FusedAttention:
    """Return an attention together with the product of what reads it."""
    if isinstance(attention, SingleHeadAttention):
        return SingleHead(attention, weight_XM, bias_X, dtype)
    if isinstance(attention, MultiHeadAttention):
        return MultiHead(attention, weight_XM, bias_X, dtype)
    assert isinstance(attention, FixedContext)
    return Summary(attention, weight_XM, bias_X, dtype)


def _joined(weight_XM: Tensor, residual: Residual) -> Tensor:
    return weight_XM if residual.query is None else weight_XM @ residual.query.weight


class PreparedDecoder:
    """What the styles share: layers, initial state, attention."""

    attention: FusedAttention
    lookup: Lookup  # the embedding's share of all that it enters
    bounded = True  # features are within [-1, 1]

    def __init__(self, decoder: Decoder, dtype: torch.dtype) -> None:
        self.cells = [Cell(layer, dtype) for layer in decoder.layers]
        # Of the first layer's inputs each style takes care.
        self.enter: list[Product] = [
            product(layer.weight_input, layer.bias_input, dtype, bounded=True)
            for layer in list(decoder.layers)[1:]
        ]
        self.initial_state = decoder.initial_state
        initial = decoder.initial
        self.initial = (
            None if initial is None else product(initial.weight, initial.bias, dtype, bounded=True)
        )

    def make_memory(self, encoded: Encoded, *, is_beam: bool) -> PreparedMemory:
        """Return what is fixed for these sentences."""
        keys, values = self.attention.keys_and_values(encoded, is_beam=is_beam)
        return PreparedMemory(
            keys,
            values,
            ~encoded.mask_BS.unsqueeze(1),
            encoded.mask_BS.sum(1),
            self._initial(encoded),
            is_beam,
        )

    def start(self, memory: PreparedMemory) -> DecoderState:
        """Return the state before the first target piece, one row per sentence."""
        return DecoderState(memory.initial_BD.chunk(len(self.cells), -1))

    def step(
        self, tokens_R: Tensor, state: DecoderState, memory: PreparedMemory
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        """Advance by one target piece: features [R, O], weights [R, S] or none, next state."""
        raise NotImplementedError

    def step_layers(
        self, gates_RG: Tensor, hidden: tuple[Tensor, ...], *, first: int = 0
    ) -> tuple[Tensor, ...]:
        """Advance the layers from `first` on, whose inputs are projected; return their states."""
        states: list[Tensor] = []
        for number, state in enumerate(hidden[first:], first):
            if states:
                gates_RG = self.enter[number - 1](states[-1])
            states.append(self.cells[number].step(gates_RG, state))
        return tuple(states)

    def _initial(self, encoded: Encoded) -> Tensor:
        summary_BH = encoded.summary_BH
        if self.initial is None:
            size = sum(cell.size for cell in self.cells)
            return summary_BH.new_zeros(len(summary_BH), size)
        if self.initial_state == "mean":
            mask_BS1 = encoded.mask_BS.unsqueeze(-1)
            summary_BH = encoded.states_BSH.sum(1) / mask_BS1.sum(1)  # zero at padding
        elif self.initial_state == "backward":
            summary_BH = summary_BH.chunk(2, -1)[1]
        return tanh_(self.initial(summary_BH))


class PreparedBahdanau(PreparedDecoder):
    """The context enters the first layer and the readout, and so does the embedding."""

    def __init__(self, decoder: BahdanauDecoder, embedding_VE: Tensor, dtype: torch.dtype) -> None:
        super().__init__(decoder, dtype)
        readout, layer = decoder.readout, decoder.layers[0]
        self.maxout, self.bounded = decoder.maxout, not decoder.maxout
        order = torch.arange(len(readout.weight), device=readout.weight.device)
        if decoder.maxout:  # pairs become halves, whose maximum is fast
            order = torch.cat([order[0::2], order[1::2]])
        size, context_size = self.cells[0].size, decoder.attention.output_size
        sizes = (size, embedding_VE.shape[1], context_size)
        state_WD, embedded_WE, context_WM = readout.weight[order].split_with_sizes(sizes, 1)
        self.sizes = (3 * size, len(order))
        self.lookup = Lookup(
            embedding_VE,
            torch.cat([layer.weight_input, embedded_WE]),
            torch.cat([bias_of(layer), readout.bias[order]]),
            dtype,
        )
        weight_XM = torch.cat([decoder.context.weight, context_WM])
        self.attention = prepare_attention(decoder.attention, weight_XM, None, dtype)
        self.readout = product(state_WD, None, dtype, bounded=True)

    def step(
        self, tokens_R: Tensor, state: DecoderState, memory: PreparedMemory
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        reads_RX, weights_RS = self.attention(state.hidden[-1], memory)
        gates_RG, deep_RW = self.lookup(tokens_R).add_(reads_RX).split_with_sizes(self.sizes, -1)
        hidden = self.step_layers(gates_RG, state.hidden)
        deep_RW = deep_RW + self.readout(hidden[-1])
        features_RO = torch.maximum(*deep_RW.chunk(2, -1)) if self.maxout else tanh_(deep_RW)
        return features_RO, weights_RS, DecoderState(hidden)


class PreparedLuong(PreparedDecoder):
    """The attentional state reads context and state; with input feeding it enters the layers."""

    def __init__(self, decoder: LuongDecoder, embedding_VE: Tensor, dtype: torch.dtype) -> None:
        super().__init__(decoder, dtype)
        layer, combine = decoder.layers[0], decoder.combine
        self.lookup = Lookup(embedding_VE, layer.weight_input, bias_of(layer), dtype)
        sizes = (decoder.attention.output_size, self.cells[0].size)
        context_OM, state_OD = combine.weight.split_with_sizes(sizes, 1)
        self.attention = prepare_attention(decoder.attention, context_OM, None, dtype)
        self.combine = product(state_OD, None, dtype, bounded=True)
        self.features_size = decoder.features_size
        self.feed = (
            None
            if decoder.feed is None
            else product(decoder.feed.weight, None, dtype, bounded=True)
        )

    def start(self, memory: PreparedMemory) -> DecoderState:
        hidden = super().start(memory).hidden
        if self.feed is None:
            return DecoderState(hidden)
        return DecoderState(hidden, hidden[0].new_zeros(len(hidden[0]), self.features_size))

    def step(
        self, tokens_R: Tensor, state: DecoderState, memory: PreparedMemory
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        gates_RG = self.lookup(tokens_R)
        if self.feed is not None and state.attentional_RO is not None:
            gates_RG.add_(self.feed(state.attentional_RO))
        hidden = self.step_layers(gates_RG, state.hidden)
        reads_RO, weights_RS = self.attention(hidden[-1], memory)
        features_RO = tanh_(reads_RO + self.combine(hidden[-1]))
        fed = None if self.feed is None else features_RO
        return features_RO, weights_RS, DecoderState(hidden, fed)


class PreparedPreAttention(PreparedDecoder):
    """The first layer asks, the second one reads the attention output."""

    def __init__(
        self, decoder: PreAttentionDecoder, embedding_VE: Tensor, dtype: torch.dtype
    ) -> None:
        super().__init__(decoder, dtype)
        layer, above = decoder.layers[0], decoder.layers[1]
        self.lookup = Lookup(embedding_VE, layer.weight_input, bias_of(layer), dtype)
        self.attention = prepare_attention(
            decoder.attention, above.weight_input, above.bias_input, dtype
        )
        readout = decoder.readout
        self.readout = (
            None if readout is None else product(readout.weight, readout.bias, dtype, bounded=True)
        )

    def step(
        self, tokens_R: Tensor, state: DecoderState, memory: PreparedMemory
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        query_RD = self.cells[0].step(self.lookup(tokens_R), state.hidden[0])
        reads_RG, weights_RS = self.attention(query_RD, memory)
        hidden = (query_RD, *self.step_layers(reads_RG, state.hidden, first=1))
        features = hidden[-1] if self.readout is None else tanh_(self.readout(hidden[-1]))
        return features, weights_RS, DecoderState(hidden)


def prepare_decoder(decoder: Decoder, embedding_VE: Tensor, dtype: torch.dtype) -> PreparedDecoder:
    """Return a decoder laid out for translating."""
    if isinstance(decoder, BahdanauDecoder):
        return PreparedBahdanau(decoder, embedding_VE, dtype)
    if isinstance(decoder, LuongDecoder):
        return PreparedLuong(decoder, embedding_VE, dtype)
    assert isinstance(decoder, PreAttentionDecoder)
    return PreparedPreAttention(decoder, embedding_VE, dtype)
