"""The decoders: how queries are made, and where the context enters.

A decoder has three verbs. `start` makes the state before the first target piece, `step` advances
it by one piece, `unroll` does all steps of a known target at once and gives what steps give.

Legend: R rows (B sentences x K hypotheses, sentence-major), B batch, T target length,
S source length, E embedding size, D decoder size, M attention output size, O features size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2seq.config import ModelConfig
from seq2seq.model.attention import build_attention
from seq2seq.model.dropout import Dropout
from seq2seq.model.memory import Memory
from seq2seq.model.recurrent import Layers

Masks = tuple[Tensor, ...]


@dataclass(frozen=True)
class DecoderState:
    """What changes with each step: the GRU layers' states, and Luong's attentional state."""

    hidden: tuple[Tensor, ...]
    attentional_RO: Tensor | None = None

    def select(self, rows_R: Tensor) -> DecoderState:
        """Return the states of these rows, in this order; rows may repeat."""
        attentional = self.attentional_RO
        return DecoderState(
            tuple(layer.index_select(0, rows_R) for layer in self.hidden),
            None if attentional is None else attentional.index_select(0, rows_R),
        )


class Decoder(nn.Module):
    """What the styles share: layers, initial state, attention over a memory by rows."""

    def __init__(self, config: ModelConfig, input_sizes: list[int]) -> None:
        super().__init__()
        memory_size = 2 * config.encoder_size
        self.layers = Layers(input_sizes, config.decoder_size, layer_norm=config.layer_norm)
        self.attention = build_attention(
            config.attention,
            query_size=config.decoder_size,
            memory_size=memory_size,
            residual=config.residual,
        )
        self.initial_state = config.initial_state
        start_size = config.encoder_size if config.initial_state == "backward" else memory_size
        self.initial = (
            None
            if config.initial_state == "zeros"
            else nn.Linear(start_size, config.decoder_size * len(input_sizes))
        )
        self.dropout = Dropout(config.dropout, variational=config.variational_dropout)

    def start(self, memory: Memory) -> DecoderState:
        """Return the state before the first target piece, one row a sentence.

        backward: tanh(W h) of the backward state of the first position (Bahdanau et al. 2014,
        A.2.2); mean: of the mean state; last: of both directions' last states; zeros.
        """
        if self.initial is None:
            size = sum(layer.hidden_size for layer in self.layers)
            initial = memory.summary_BH.new_zeros(len(memory.summary_BH), size)
        else:
            summary = memory.mean_BH if self.initial_state == "mean" else memory.summary_BH
            if self.initial_state == "backward":
                summary = summary.chunk(2, -1)[1]
            initial = torch.tanh(self.initial(summary))
        dtype = self.layers[0].weight_hidden.dtype
        return DecoderState(tuple(initial.to(dtype).chunk(len(self.layers), -1)))

    def attend(self, query_RD: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Return attention output [R, M] and weights [R, S] of one query a row.

        The rows of a sentence share its keys and values by view; nothing is copied for a beam.
        """
        batch = len(memory.mask_BS)
        output_BKM, weights_BKS = self.attention(
            query_RD.view(batch, -1, query_RD.shape[-1]), memory
        )
        weights_RS = None if weights_BKS is None else weights_BKS.flatten(0, 1)
        return output_BKM.flatten(0, 1), weights_RS

    def advance(
        self, inputs_RX: Tensor, hidden: tuple[Tensor, ...], *, first: int, masks: Masks = ()
    ) -> tuple[Tensor, ...]:
        """Advance the layers from `first` on by one step; return their states.

        The first of them gets its inputs as they are, each other one the state of the layer below,
        times its dropout mask where there are masks.
        """
        states: list[Tensor] = []
        for number, state in enumerate(hidden[first:], first):
            layer = self.layers[number]
            if states:
                inputs_RX = states[-1] * masks[number - 1] if masks else states[-1]
            gates_RG = inputs_RX if number == 0 else layer.project(inputs_RX)
            states.append(layer.step(gates_RG, state))
        return tuple(states)

    def masks(self, steps: int, state: DecoderState) -> list[Masks]:
        """Return for each step the dropout masks between the layers; none outside training."""
        below = [layer_RD.expand(steps, -1, -1) for layer_RD in state.hidden[:-1]]
        drawn = [self.dropout.mask(layer_TRD, time_axis=0) for layer_TRD in below]
        masks = [mask.expand(steps, -1, -1).unbind() for mask in drawn if mask is not None]
        return list(zip(*masks, strict=True)) or [()] * steps

    def step(
        self, embedded_RE: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        """Advance by one target piece: features [R, O], weights [R, S] or none, next state."""
        raise NotImplementedError

    def unroll(self, embedded_TBE: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Return features [T, B, O] and weights [T, B, S] for a known target (teacher forcing)."""
        raise NotImplementedError

    def _sequence(self, number: int, inputs_TBX: Tensor, state: DecoderState) -> Tensor:
        """Run one layer over all time steps."""
        layer = self.layers[number]
        result: Tensor = layer(layer.project(inputs_TBX), state.hidden[number])
        return result

    def _attend_all(self, query_TBD: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Attend with the queries of all time steps at once."""
        output_BTM, weights_BTS = self.attention(query_TBD.transpose(0, 1), memory)
        weights_TBS = None if weights_BTS is None else weights_BTS.transpose(0, 1)
        return output_BTM.transpose(0, 1), weights_TBS


def stack_weights(weights: list[Tensor | None]) -> Tensor | None:
    """Return weights [T, B, S] of all steps, or none for a model without attention."""
    known = [w for w in weights if w is not None]
    return torch.stack(known) if known else None
