"""The whole model, laid out for translating.

Legend: B sentences, R rows (B x hypotheses), S source length, V vocabulary.
D state of one direction, H both directions, G = 3D gates in the order r, z, n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq.model.attention import Encoded
from seq2seq.model.decoder import DecoderState
from seq2seq.model.model import Encoder, TranslationModel
from seq2seq.model.prepared.decoder import PreparedMemory, prepare_decoder
from seq2seq.model.prepared.product import Cell, Lookup, bias_of, product


class PreparedEncoder:
    """The layers of an encoder, each with one input product for both directions."""

    def __init__(self, encoder: Encoder, embedding_VE: Tensor, dtype: torch.dtype) -> None:
        self.layers: list[tuple[Callable[[Tensor], Tensor], Cell, Cell]] = []
        for forwards, backwards in zip(encoder.forwards, encoder.backwards, strict=True):
            weight = torch.cat([forwards.weight_input, backwards.weight_input])
            bias = torch.cat([bias_of(forwards), bias_of(backwards)])
            enter = (
                product(weight, bias, dtype, bounded=True)
                if self.layers
                else Lookup(embedding_VE, weight, bias, dtype)
            )
            self.layers.append((enter, Cell(forwards, dtype), Cell(backwards, dtype)))

    def __call__(self, source_BS: Tensor, mask_BS: Tensor) -> Encoded:
        """Return what seq2seq.model.model.Encoder does."""
        layer_SBX = source_BS.t()
        for enter, forwards, backwards in self.layers:
            forth_SBG, back_SBG = enter(layer_SBX).chunk(2, -1)
            mask_SB1 = mask_BS.t().unsqueeze(-1).to(forth_SBG.dtype)
            forth_SBD = forwards.run(forth_SBG, mask_SB1, reverse=False)
            back_SBD = backwards.run(back_SBG, mask_SB1, reverse=True)
            layer_SBX = torch.cat([forth_SBD, back_SBD], -1)
        last_B = mask_BS.sum(1) - 1
        last_BD = forth_SBD[last_B, torch.arange(len(last_B), device=last_B.device)]
        states_BSH = layer_SBX.transpose(0, 1).contiguous()
        return Encoded(states_BSH, mask_BS, torch.cat([last_BD, back_SBD[0]], -1))


class PreparedModel:
    """A copy of a model's weights, cast and laid out for the products that translating does.

    It is the function of `TranslationModel.decoding`, in which all products are done in
    `dtype` and all else in single dtype.
    """

    @torch.no_grad()
    def __init__(self, model: TranslationModel, dtype: torch.dtype) -> None:
        self.encoder = PreparedEncoder(model.encoder, model.source_embedding.weight, dtype)
        self.decoder = prepare_decoder(model.decoder, model.target_embedding.weight, dtype)
        # Search widens the logits itself, while it normalizes them.
        self.output = product(
            model.output_weight,
            model.output_bias,
            dtype,
            bounded=self.decoder.bounded,
            widen=False,
        )

    def decoding(
        self, source_BS: Tensor, mask_BS: Tensor, *, is_beam: bool = False
    ) -> PreparedDecoding:
        """Return this model bound to a batch of sources, for search.

        `is_beam` makes it fast for several hypotheses a sentence, at the cost of a single one.
        """
        encoded = self.encoder(source_BS, mask_BS)
        return PreparedDecoding(self, self.decoder.make_memory(encoded, is_beam=is_beam))


@dataclass(frozen=True)
class PreparedDecoding:
    """A model and the memory of a batch of sentences; see seq2seq.inference.protocol.Decoding."""

    model: PreparedModel
    memory: PreparedMemory

    @property
    def source_lengths_B(self) -> Tensor:
        """Source pieces of each sentence, EOS included."""
        return self.memory.lengths_B

    def start(self) -> DecoderState:
        """Return the state before the first target piece, one row per sentence."""
        return self.model.decoder.start(self.memory)

    def step(
        self, tokens_R: Tensor, state: DecoderState
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        """Return logits [R, V], weights [R, S] or none, and the state after these pieces."""
        features_RO, weights_RS, state = self.model.decoder.step(tokens_R, state, self.memory)
        return self.model.output(features_RO), weights_RS, state

    def select(self, sentences_B: Tensor) -> PreparedDecoding:
        """Return the same for these sentences only."""
        return PreparedDecoding(self.model, self.memory.select(sentences_B))
