"""The decoder of Bahdanau et al. (2014): attend first, then advance.

Legend: R rows (B sentences x K hypotheses), B batch, T target length, S source length,
E embedding size, D decoder size, G gates (3 D), M attention output size, O features size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq.config import ModelConfig
from seq2seq.model.decoder import Decoder, DecoderState, Masks, stack_weights
from seq2seq.model.memory import Memory


class BahdanauDecoder(Decoder):
    """Query s_{i-1}; the context enters the GRU with the embedding (Bahdanau et al. 2014).

    c_i = attend(s_{i-1}),  s_i = GRU([y_{i-1}; c_i], s_{i-1}),
    t_i = maxout(U s_i + V y_{i-1} + C c_i) or tanh of it (A.2.2; the readout sees s_i, as in
    eq. 4, where the appendix writes s_{i-1}).
    """

    def __init__(self, config: ModelConfig) -> None:
        size, embedding = config.decoder_size, config.embedding_size
        super().__init__(config, [embedding] + [size] * (config.decoder_layers - 1))
        context_size = self.attention.output_size
        # The first layer's input is [y; c]. Its product with y needs no context: it is taken
        # for all time steps at once, outside the loop; the product with c is added inside.
        self.context = nn.Linear(context_size, 3 * size, bias=False)
        self.maxout = config.readout == "maxout"
        width = config.features_size * (2 if self.maxout else 1)
        self.readout = nn.Linear(size + embedding + context_size, width)

    def step(
        self, embedded_RE: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        gates_RG = self.layers[0].project(embedded_RE)
        output_RM, weights_RS, state = self._advance(gates_RG, state, memory)
        return self._features(state.hidden[-1], embedded_RE, output_RM), weights_RS, state

    def unroll(self, embedded_TBE: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        state = self.start(memory)
        gates_TBG = self.layers[0].project(embedded_TBE)
        states, outputs, weights = [], [], []
        for gates_BG, masks in zip(gates_TBG, self.masks(len(gates_TBG), state), strict=True):
            output_BM, weights_BS, state = self._advance(gates_BG, state, memory, masks)
            states.append(state.hidden[-1])
            outputs.append(output_BM)
            weights.append(weights_BS)
        states_TBD, outputs_TBM = torch.stack(states), torch.stack(outputs)
        features_TBO = self._features(states_TBD, embedded_TBE, outputs_TBM)
        return features_TBO, stack_weights(weights)

    def _advance(
        self, gates_RG: Tensor, state: DecoderState, memory: Memory, masks: Masks = ()
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        output_RM, weights_RS = self.attend(state.hidden[-1], memory)
        gates_RG = gates_RG + self.context(output_RM)
        hidden = self.advance(gates_RG, state.hidden, first=0, masks=masks)
        return output_RM, weights_RS, DecoderState(hidden)

    def _features(self, state: Tensor, embedded: Tensor, output: Tensor) -> Tensor:
        deep: Tensor = self.readout(torch.cat([state, embedded, output.to(state.dtype)], -1))
        if self.maxout:
            return deep.view(*deep.shape[:-1], -1, 2).amax(-1)
        return torch.tanh(deep)
