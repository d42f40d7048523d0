"""The decoder of Luong et al. (2015): advance first, then attend.

Legend: R rows (B sentences x K hypotheses), B batch, T target length, S source length,
E embedding size, D decoder size, G gates (3 D), M attention output size, O features size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq.config import ModelConfig
from seq2seq.model.decoder import Decoder, DecoderState, Masks, stack_weights
from seq2seq.model.memory import Memory


class LuongDecoder(Decoder):
    """Query s_i; attentional state tanh(W[c; s]) (Luong et al. 2015, eq. 5).

    With input feeding (sec. 3.3) the attentional state of the step before enters the first layer
    beside the embedding; without, all queries are known before the attention is asked.
    """

    def __init__(self, config: ModelConfig) -> None:
        size = config.decoder_size
        super().__init__(config, [config.embedding_size] + [size] * (config.decoder_layers - 1))
        self.features_size = config.features_size
        self.feed = (
            nn.Linear(config.features_size, 3 * size, bias=False) if config.input_feeding else None
        )
        self.combine = nn.Linear(
            self.attention.output_size + size, config.features_size, bias=False
        )

    def start(self, memory: Memory) -> DecoderState:
        state = super().start(memory)
        if self.feed is None:
            return state
        zeros = state.hidden[0].new_zeros(len(state.hidden[0]), self.features_size)
        return DecoderState(state.hidden, zeros)

    def step(
        self, embedded_RE: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        return self._advance(self.layers[0].project(embedded_RE), state, memory)

    def unroll(self, embedded_TBE: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        state = self.start(memory)
        if self.feed is not None:
            return self._unroll_fed(embedded_TBE, state, memory)
        hidden_TBX = embedded_TBE
        for number in range(len(self.layers)):
            if number:
                hidden_TBX = self.dropout(hidden_TBX, time_axis=0)
            hidden_TBX = self._sequence(number, hidden_TBX, state)
        output_TBM, weights_TBS = self._attend_all(hidden_TBX, memory)
        return self._attentional(output_TBM, hidden_TBX), weights_TBS

    def _unroll_fed(
        self, embedded_TBE: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, Tensor | None]:
        features, weights = [], []
        gates_TBG = self.layers[0].project(embedded_TBE)
        for gates_BG, masks in zip(gates_TBG, self.masks(len(gates_TBG), state), strict=True):
            features_BO, weights_BS, state = self._advance(gates_BG, state, memory, masks)
            features.append(features_BO)
            weights.append(weights_BS)
        return torch.stack(features), stack_weights(weights)

    def _advance(
        self, gates_RG: Tensor, state: DecoderState, memory: Memory, masks: Masks = ()
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        if self.feed is not None:
            gates_RG = gates_RG + self.feed(state.attentional_RO)
        hidden = self.advance(gates_RG, state.hidden, first=0, masks=masks)
        output_RM, weights_RS = self.attend(hidden[-1], memory)
        features_RO = self._attentional(output_RM, hidden[-1])
        fed = None if self.feed is None else features_RO.to(hidden[-1].dtype)
        return features_RO, weights_RS, DecoderState(hidden, fed)

    def _attentional(self, output: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(self.combine(torch.cat([output.to(state.dtype), state], -1)))
