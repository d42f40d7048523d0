"""The decoder of the classic course example: a GRU, attention with residual, further GRUs.

Legend: R rows (B sentences x K hypotheses), B batch, T target length, S source length,
E embedding size, D decoder size, G gates (3 D), M attention output size, O features size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq.config import ModelConfig
from seq2seq.model.decoder import Decoder, DecoderState
from seq2seq.model.memory import Memory


class PreAttentionDecoder(Decoder):
    """A first GRU over the target gives the queries; the attention feeds further GRU layers.

    q_i = GRU_1(y_{i-1}),  a_i = attend(q_i) (+ q_i, the residual),  s_i = GRU_2..(a_i). Neither
    the queries nor the attention wait for the upper layers: all of it runs over all time steps.
    """

    def __init__(self, config: ModelConfig) -> None:
        size = config.decoder_size
        output_size = config.attention_output_size
        super().__init__(
            config, [config.embedding_size, output_size] + [size] * (config.decoder_layers - 1)
        )
        same = size == config.features_size
        self.readout = None if same else nn.Linear(size, config.features_size)

    def step(
        self, embedded_RE: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        query_RD = self.layers[0].step(self.layers[0].project(embedded_RE), state.hidden[0])
        output_RM, weights_RS = self.attend(query_RD, memory)
        hidden = (query_RD, *self.advance(output_RM, state.hidden, first=1))
        return self._features(hidden[-1]), weights_RS, DecoderState(hidden)

    def unroll(self, embedded_TBE: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        state = self.start(memory)
        query_TBD = self._sequence(0, embedded_TBE, state)
        hidden_TBX, weights_TBS = self._attend_all(query_TBD, memory)
        for number in range(1, len(self.layers)):
            hidden_TBX = self._sequence(number, self.dropout(hidden_TBX, time_axis=0), state)
        return self._features(hidden_TBX), weights_TBS

    def _features(self, state: Tensor) -> Tensor:
        return state if self.readout is None else torch.tanh(self.readout(state))
