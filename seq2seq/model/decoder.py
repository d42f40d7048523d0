"""The decoders: how queries are made, and where the context enters.

`start` returns the state before the first target piece. Three methods then take each piece: `enter`
multiplies its embedding, `step` advances the state and queries the attention, and `read_out`
returns the readout, from which the output projection predicts the next piece. `unroll` takes all
pieces of a known target, with the same results; what does not depend on the recurrence is computed
for all time steps at once.

Legend: R rows (B sentences x K hypotheses, sentence-major), B batch, T target length,
S source length, E embedding size, D decoder size, G gates (3 D), M attention output size,
O readout size, X a size that depends on the style.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from seq2seq.config import ModelConfig
from seq2seq.model.attention import Memory, build_attention
from seq2seq.model.kernels import for_gates, matrix_gradients_at_once, maxout
from seq2seq.model.layers import Dropout, Linear, stack_layers

Masks = tuple[Tensor, ...]


@dataclass(frozen=True)
class DecoderState:
    """The GRU layers' states [R, D], and the attentional state that Luong's input feeding reads."""

    hidden: tuple[Tensor, ...]
    attentional_RO: Tensor | None = None

    def select(self, rows_R: Tensor | ArrayLike) -> DecoderState:
        """Return the states of these rows, in this order; rows may repeat."""
        rows = torch.as_tensor(rows_R).to(self.hidden[0].device, non_blocking=True)
        attentional = self.attentional_RO
        return DecoderState(
            tuple(layer.index_select(0, rows) for layer in self.hidden),
            None if attentional is None else attentional.index_select(0, rows),
        )


class Decoder(nn.Module):
    """Layers, initial state and attention of every style."""

    def __init__(
        self, config: ModelConfig, input_sizes: list[int], *, states: int | None = None
    ) -> None:
        """Make layers that read inputs of these sizes; normally each has a state of its own."""
        super().__init__()
        self.states = states or len(input_sizes)
        memory_size = 2 * config.encoder_size
        self.layers = stack_layers(input_sizes, config.decoder_size, layer_norm=config.layer_norm)
        self.attention = build_attention(
            config.attention,
            query_size=config.decoder_size,
            memory_size=memory_size,
            residual=config.residual,
        )
        self.initial_state = config.initial_state
        self.initial: nn.Linear | None = None
        if config.initial_state != "zeros":
            start_size = config.encoder_size if config.initial_state == "backward" else memory_size
            self.initial = nn.Linear(start_size, config.decoder_size * self.states)
        self.dropout = Dropout(config.dropout, variational=config.variational_dropout)

    def start(self, memory: Memory) -> DecoderState:
        """Return the state before the first target piece, one row per sentence.

        The state is zeros, or tanh(W h + b) of encoder states h: for `backward` the backward state
        of the first position (Bahdanau et al. 2014, A.2.2), for `mean` the mean state, for `last`
        the last states of both directions.
        """
        if self.initial is None:
            size = self.states * self.layers[0].hidden_size
            initial = memory.summary_BH.new_zeros(len(memory.summary_BH), size)
        else:
            summary = memory.mean_BH if self.initial_state == "mean" else memory.summary_BH
            if self.initial_state == "backward":
                summary = summary.chunk(2, -1)[1]
            initial = torch.tanh(self.initial(summary))
        dtype = self.layers[0].weight_hidden.dtype
        return DecoderState(tuple(initial.to(dtype).chunk(self.states, -1)))

    def enter(self, embedded: Tensor) -> Tensor:
        """Return the products of embeddings, as `step` reads them: [..., E] to [..., X]."""
        return self.layers[0].project(embedded)

    def step(
        self, entering_RX: Tensor, state: DecoderState, memory: Memory, masks: Masks = ()
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        """Return an output [R, X], weights [R, S] or None, and the state after one target piece."""
        raise NotImplementedError

    def read_out(self, state: Tensor, embedded: Tensor, output: Tensor) -> Tensor:
        """Return the readout [..., O] from the last layer's state, the embedding and the output."""
        raise NotImplementedError

    def unroll(self, embedded_TBE: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Return the readout [T, B, O] and weights [T, B, S] or None under teacher forcing."""
        state = self.start(memory)
        outputs, weights, states = [], [], []
        entering_TBX = for_gates(self.enter(embedded_TBE), state.hidden[0])
        all_masks = self.layer_masks(len(embedded_TBE), state)
        with matrix_gradients_at_once():
            for entering_BX, masks in zip(entering_TBX, all_masks, strict=True):
                output_BX, weights_BS, state = self.step(entering_BX, state, memory, masks)
                outputs.append(output_BX)
                if weights_BS is not None:
                    weights.append(weights_BS)
                states.append(state.hidden[-1])
        readout_TBO = self.read_out(torch.stack(states), embedded_TBE, torch.stack(outputs))
        return readout_TBO, torch.stack(weights) if weights else None

    def step_layers(
        self, gates_RG: Tensor, hidden: tuple[Tensor, ...], *, first: int = 0, masks: Masks = ()
    ) -> tuple[Tensor, ...]:
        """Return the next states of the layers from `first` on, given the inputs of its gates.

        The other layers read the state of the layer below, times its dropout mask if there is one.
        """
        states: list[Tensor] = []
        for number, state in enumerate(hidden):
            layer = self.layers[first + number]
            if states:
                gates_RG = layer.project(states[-1] * masks[number - 1] if masks else states[-1])
            states.append(layer.step(gates_RG, state))
        return tuple(states)

    def layer_masks(self, steps: int, state: DecoderState) -> list[Masks]:
        """Return the dropout masks between the layers for each step; none outside training."""
        below = [layer_RD.expand(steps, -1, -1) for layer_RD in state.hidden[:-1]]
        drawn = [self.dropout.mask(layer_TRD, time_axis=0) for layer_TRD in below]
        masks = [mask.expand(steps, -1, -1).unbind() for mask in drawn if mask is not None]
        return list(zip(*masks, strict=True)) or [()] * steps

    def _run_layer(self, number: int, inputs_TBX: Tensor, state: DecoderState) -> Tensor:
        """Return the states [T, B, D] of one layer over all time steps."""
        layer = self.layers[number]
        result: Tensor = layer(layer.project(inputs_TBX), state.hidden[number])
        return result

    def _attend_all(self, query_TBD: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Return outputs [T, B, M] and weights [T, B, S] of the queries of all time steps."""
        output_BTM, weights_BTS = self.attention(query_TBD.transpose(0, 1), memory)
        weights_TBS = None if weights_BTS is None else weights_BTS.transpose(0, 1)
        return output_BTM.transpose(0, 1), weights_TBS


class DeepOutputDecoder(Decoder):
    """Its readout reads the state, the previous piece and the context.

    t_i = maxout or tanh of U s_i + V y_{i-1} + C c_i (Bahdanau et al. 2014, A.2.2; the readout
    reads s_i, as in eq. 4, where the appendix has s_{i-1}). Subclasses define one step.
    """

    def __init__(
        self, config: ModelConfig, input_sizes: list[int], *, states: int | None = None
    ) -> None:
        super().__init__(config, input_sizes, states=states)
        self.maxout = config.readout == "maxout"
        width = config.readout_width * (2 if self.maxout else 1)
        read = config.decoder_size + config.embedding_size + self.attention.output_size
        self.readout = nn.Linear(read, width)

    def read_out(self, state: Tensor, embedded: Tensor, output: Tensor) -> Tensor:
        deep: Tensor = self.readout(torch.cat([state, embedded, output.to(state.dtype)], -1))
        if self.maxout:
            return maxout(deep)
        return torch.tanh(deep)


class BahdanauDecoder(DeepOutputDecoder):
    """Query s_{i-1}; the context enters the GRU with the embedding (Bahdanau et al. 2014).

    c_i = attend(s_{i-1}),  s_i = GRU([y_{i-1}; c_i], s_{i-1}). With `previous_piece` the query is
    s_{i-1} + W y_{i-1}, since s_{i-1} has not read y_{i-1}.
    """

    def __init__(self, config: ModelConfig) -> None:
        size, embedding = config.decoder_size, config.embedding_size
        super().__init__(config, [embedding] + [size] * (config.decoder_layers - 1))
        # The first layer reads [y; c]. Its product with y does not need the context and is computed
        # for all time steps at once; the product with c is added at each step.
        self.context = Linear(self.attention.output_size, 3 * size, bias=False)
        seen = config.attention.previous_piece
        self.query = nn.Linear(embedding, size, bias=False) if seen else None

    def enter(self, embedded: Tensor) -> Tensor:
        gates = super().enter(embedded)
        return gates if self.query is None else torch.cat([gates, self.query(embedded)], -1)

    def step(
        self, entering_RX: Tensor, state: DecoderState, memory: Memory, masks: Masks = ()
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        query_RD, size = state.hidden[-1], self.layers[0].hidden_size
        if self.query is not None:
            entering_RX, seen_RD = torch.split(entering_RX, [3 * size, size], -1)
            query_RD = query_RD + seen_RD
        output_RM, weights_RS = self.attention(query_RD, memory)
        gates_RG = entering_RX + self.context(output_RM)
        hidden = self.step_layers(gates_RG, state.hidden, masks=masks)
        return output_RM, weights_RS, DecoderState(hidden)


class ConditionalDecoder(DeepOutputDecoder):
    """The conditional GRU: one state, two transitions, and the attention between them.

    s'_i = GRU_1(y_{i-1}, s_{i-1}),  c_i = attend(s'_i),  s_i = GRU_2(c_i, s'_i) (Sennrich et al.
    2017, "Nematus", sec. 2; Marian's s2s). The query has read y_{i-1}, as in Luong's decoder, and
    the context enters the recurrence, as in Bahdanau's.
    """

    def __init__(self, config: ModelConfig) -> None:
        layers = config.decoder_layers
        sizes = [config.embedding_size, config.attention_output_size]
        super().__init__(config, sizes + [config.decoder_size] * (layers - 1), states=layers)

    def step(
        self, entering_RX: Tensor, state: DecoderState, memory: Memory, masks: Masks = ()
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        query_RD = self.layers[0].step(entering_RX, state.hidden[0])
        output_RM, weights_RS = self.attention(query_RD, memory)
        gates_RG = self.layers[1].project(output_RM)
        hidden = self.step_layers(gates_RG, (query_RD, *state.hidden[1:]), first=1, masks=masks)
        return output_RM, weights_RS, DecoderState(hidden)


class LuongDecoder(Decoder):
    """Query s_i; attentional state tanh(W[c; s]) (Luong et al. 2015, eq. 5).

    With input feeding (sec. 3.3) the first layer also reads the previous attentional state;
    without it, all queries are known before the attention is computed.
    """

    def __init__(self, config: ModelConfig) -> None:
        size = config.decoder_size
        super().__init__(config, [config.embedding_size] + [size] * (config.decoder_layers - 1))
        self.readout_width = config.readout_width
        self.feed = (
            Linear(config.readout_width, 3 * size, bias=False) if config.input_feeding else None
        )
        self.combine = Linear(self.attention.output_size + size, config.readout_width, bias=False)

    def start(self, memory: Memory) -> DecoderState:
        state = super().start(memory)
        if self.feed is None:
            return state
        zeros = state.hidden[0].new_zeros(len(state.hidden[0]), self.readout_width)
        return DecoderState(state.hidden, zeros)

    def unroll(self, embedded_TBE: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        if self.feed is not None:
            return super().unroll(embedded_TBE, memory)
        state = self.start(memory)
        hidden_TBX = embedded_TBE
        for number in range(len(self.layers)):
            if number:
                hidden_TBX = self.dropout(hidden_TBX, time_axis=0)
            hidden_TBX = self._run_layer(number, hidden_TBX, state)
        output_TBM, weights_TBS = self._attend_all(hidden_TBX, memory)
        return self._attentional(output_TBM, hidden_TBX), weights_TBS

    def step(
        self, gates_RG: Tensor, state: DecoderState, memory: Memory, masks: Masks = ()
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        if self.feed is not None:
            gates_RG = gates_RG + self.feed(state.attentional_RO)
        hidden = self.step_layers(gates_RG, state.hidden, masks=masks)
        output_RM, weights_RS = self.attention(hidden[-1], memory)
        readout_RO = self._attentional(output_RM, hidden[-1])
        fed = None if self.feed is None else readout_RO.to(hidden[-1].dtype)
        return readout_RO, weights_RS, DecoderState(hidden, fed)

    def read_out(self, state: Tensor, embedded: Tensor, output: Tensor) -> Tensor:
        return output

    def _attentional(self, output: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(self.combine(torch.cat([output.to(state.dtype), state], -1)))


class PreAttentionDecoder(Decoder):
    """A classic course example: one GRU computes queries, further layers read the attention.

    q_i = GRU_1(y_{i-1}),  a_i = attend(q_i) (+ q_i, the residual),  s_i = GRU_2..(a_i). Queries and
    attention do not depend on the upper layers, so each layer runs over all time steps at once.
    """

    def __init__(self, config: ModelConfig) -> None:
        size = config.decoder_size
        output_size = config.attention_output_size
        super().__init__(
            config, [config.embedding_size, output_size] + [size] * (config.decoder_layers - 1)
        )
        same = size == config.readout_width
        self.readout = None if same else nn.Linear(size, config.readout_width)

    def step(
        self, entering_RX: Tensor, state: DecoderState, memory: Memory, masks: Masks = ()
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        query_RD = self.layers[0].step(entering_RX, state.hidden[0])
        output_RM, weights_RS = self.attention(query_RD, memory)
        gates_RG = self.layers[1].project(output_RM)
        hidden = self.step_layers(gates_RG, state.hidden[1:], first=1, masks=masks)
        return output_RM, weights_RS, DecoderState((query_RD, *hidden))

    def unroll(self, embedded_TBE: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        state = self.start(memory)
        query_TBD = self._run_layer(0, embedded_TBE, state)
        output_TBM, weights_TBS = self._attend_all(query_TBD, memory)
        hidden_TBX = output_TBM
        for number in range(1, len(self.layers)):
            hidden_TBX = self._run_layer(number, self.dropout(hidden_TBX, time_axis=0), state)
        return self.read_out(hidden_TBX, embedded_TBE, output_TBM), weights_TBS

    def read_out(self, state: Tensor, embedded: Tensor, output: Tensor) -> Tensor:
        return state if self.readout is None else torch.tanh(self.readout(state))


DECODERS: dict[str, Callable[[ModelConfig], Decoder]] = {
    "bahdanau": BahdanauDecoder,
    "conditional": ConditionalDecoder,
    "luong": LuongDecoder,
    "pre_attention": PreAttentionDecoder,
}
