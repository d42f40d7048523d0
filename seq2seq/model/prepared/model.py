"""The whole model, laid out for translating.

Legend: B sentences, R rows (B x hypotheses), S source length, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq.model.decoder import DecoderState
from seq2seq.model.prepared.attention import PreparedMemory
from seq2seq.model.prepared.decoder import prepare_decoder
from seq2seq.model.prepared.encoder import PreparedEncoder
from seq2seq.model.prepared.product import product
from seq2seq.model.translation import TranslationModel


class PreparedModel:
    """A copy of a model's weights, cast and laid out for the products that translating does.

    It is the function of `TranslationModel.decoding`, in which all products are done in
    `dtype` and all else in single dtype.
    """

    @torch.no_grad()
    def __init__(self, model: TranslationModel, dtype: torch.dtype) -> None:
        self.encoder = PreparedEncoder(model.encoder, model.source_embedding.weight, dtype)
        self.decoder = prepare_decoder(model.decoder, model.target_embedding.weight, dtype)
        # Search widens the logits itself, while it normalises them.
        self.output = product(
            model.output_weight,
            model.output_bias,
            dtype,
            bounded=self.decoder.bounded,
            widen=False,
        )

    def decoding(
        self, source_BS: Tensor, mask_BS: Tensor, *, shared: bool = False
    ) -> PreparedDecoding:
        """Return this model bound to a batch of sources, as the search wants it.

        With `shared` it is fast where each sentence has several hypotheses, else where it has one.
        """
        encoded = self.encoder(source_BS, mask_BS)
        return PreparedDecoding(self, self.decoder.remember(encoded, shared=shared))


@dataclass(frozen=True)
class PreparedDecoding:
    """A model and the memory of a batch of sentences; see seq2seq.inference.protocol.Decoding."""

    model: PreparedModel
    memory: PreparedMemory

    @property
    def num_sentences(self) -> int:
        """Sentences still in the batch."""
        return len(self.memory.lengths_B)

    @property
    def source_lengths_B(self) -> Tensor:
        """Source pieces of each sentence, EOS included."""
        return self.memory.lengths_B

    def start(self) -> DecoderState:
        """Return the state before the first target piece, one row a sentence."""
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
