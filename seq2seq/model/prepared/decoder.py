"""The decoders, one step at a time; see seq2seq.model.bahdanau, luong and pre_attention.

Legend: R rows (B sentences x K hypotheses), D decoder size, G = 3D gates, X what is read of the
attention output, W readout size before maxout, O features size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq.model.bahdanau import BahdanauDecoder
from seq2seq.model.decoder import Decoder, DecoderState
from seq2seq.model.luong import LuongDecoder
from seq2seq.model.memory import Encoded
from seq2seq.model.pre_attention import PreAttentionDecoder
from seq2seq.model.prepared.attention import PreparedMemory, Reader, prepare_attention
from seq2seq.model.prepared.lookup import Lookup
from seq2seq.model.prepared.product import Product, product
from seq2seq.model.prepared.recurrent import Cell, bias_of, tanh_


class PreparedDecoder:
    """What the styles share: layers, initial state, attention."""

    attention: Reader
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

    def remember(self, encoded: Encoded, *, shared: bool) -> PreparedMemory:
        """Return what is fixed for these sentences."""
        keys, values = self.attention.remember(encoded, shared=shared)
        return PreparedMemory(
            keys,
            values,
            ~encoded.mask_BS.unsqueeze(1),
            encoded.mask_BS.sum(1),
            self._initial(encoded),
            shared,
        )

    def start(self, memory: PreparedMemory) -> DecoderState:
        """Return the state before the first target piece, one row a sentence."""
        return DecoderState(memory.initial_BD.chunk(len(self.cells), -1))

    def step(
        self, tokens_R: Tensor, state: DecoderState, memory: PreparedMemory
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        """Advance by one target piece: features [R, O], weights [R, S] or none, next state."""
        raise NotImplementedError

    def advance(
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
        self.maxout = self.bounded = decoder.maxout
        self.bounded = not decoder.maxout
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
        hidden = self.advance(gates_RG, state.hidden)
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
        hidden = self.advance(gates_RG, state.hidden)
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
        hidden = (query_RD, *self.advance(reads_RG, state.hidden, first=1))
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
