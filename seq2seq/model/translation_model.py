"""The whole model: source and target pieces to logits, for training and for search.

Legend: B sentences, R rows (B x hypotheses), S source length, T target length, V vocabulary,
E embedding size, O readout size, h encoder size, H memory size (both directions).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from seq2seq.config import ModelConfig
from seq2seq.model.attention import Encoded, Memory
from seq2seq.model.decoder import DECODERS, DecoderState
from seq2seq.model.layers import Dropout, stack_layers


class Encoder(nn.Module):
    """A stack of bidirectional GRU layers; a state is the concatenation of both directions."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        size = config.encoder_size
        sizes = [config.embedding_size] + [2 * size] * (config.encoder_layers - 1)
        self.forwards = stack_layers(sizes, size, layer_norm=config.layer_norm)
        self.backwards = stack_layers(sizes, size, layer_norm=config.layer_norm)
        self.dropout = Dropout(config.dropout, variational=config.variational_dropout)

    def forward(self, embedded_SBE: Tensor, mask_SB: Tensor) -> Encoded:
        """Return states [B, S, H]: zero at padding, and the same elsewhere with or without it."""
        layer_SBX = embedded_SBE
        for number, (forwards, backwards) in enumerate(
            zip(self.forwards, self.backwards, strict=True)
        ):
            if number:
                layer_SBX = self.dropout(layer_SBX, time_axis=0)
            zeros = layer_SBX.new_zeros(
                layer_SBX.shape[1], forwards.hidden_size, dtype=forwards.weight_hidden.dtype
            )
            forth_SBh = forwards(forwards.project(layer_SBX), zeros, mask_SB)
            back_SBh = backwards(backwards.project(layer_SBX), zeros, mask_SB, reverse=True)
            layer_SBX = torch.cat([forth_SBh, back_SBh], -1)
        states_BSH = (layer_SBX * mask_SB.unsqueeze(-1)).transpose(0, 1)
        states_BSH = self.dropout(states_BSH, time_axis=1)
        return Encoded(states_BSH, mask_SB.t(), torch.cat([forth_SBh[-1], back_SBh[0]], -1))


class TranslationModel(nn.Module):
    """Encoder, attentive decoder, embeddings and output projection."""

    def __init__(self, config: ModelConfig, source_vocab_size: int, target_vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(source_vocab_size, config.embedding_size)
        self.target_embedding = self.source_embedding
        if not config.joint_embeddings:
            self.target_embedding = nn.Embedding(target_vocab_size, config.embedding_size)
        self.encoder = Encoder(config)
        self.decoder = DECODERS[config.style](config)
        self.output_bias = nn.Parameter(torch.zeros(target_vocab_size))
        self.output_weight = self.target_embedding.weight
        if not config.tie_target:
            self.output_weight = nn.Parameter(torch.empty(target_vocab_size, config.readout_width))
        self.lexical: nn.Linear | None = None
        if config.lexical:
            self.lexical = nn.Linear(config.embedding_size, config.readout_width, bias=False)
        self.dropout = Dropout(config.dropout, variational=config.variational_dropout)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialize the weights as config.init says, with torch's global random generator."""
        if self.output_bias.is_meta:  # has no values, only a shape
            return
        for name, parameter in self.named_parameters():
            if "norm_" in name:
                continue
            if self.config.init == "uniform":
                parameter.uniform_(-0.1, 0.1)
            elif parameter.dim() == 1 and not name.endswith("energy"):
                parameter.zero_()
            elif "embedding" in name or name == "output_weight" or name.endswith("energy"):
                parameter.normal_(std=parameter.shape[-1] ** -0.5)
            elif name.endswith("weight_hidden"):
                for gate in parameter.chunk(3):
                    nn.init.orthogonal_(gate)
            else:
                nn.init.xavier_uniform_(parameter)

    @torch.no_grad()
    def init_output_bias(self, counts_V: Tensor) -> None:
        """Set output_bias to the log frequencies of the pieces, with add-one smoothing.

        An untrained model then predicts the unigram distribution, so that its hidden layers need
        not learn it first.
        """
        counts_V = counts_V.double() + 1
        self.output_bias.copy_((counts_V / counts_V.sum()).log())

    def encode(self, source_BS: Tensor, mask_BS: Tensor) -> Memory:
        """Return the decoder's memory of these source pieces."""
        embedded_SBE = self.dropout(self.source_embedding(source_BS.t()), time_axis=0)
        memory = self.decoder.attention.make_memory(self.encoder(embedded_SBE, mask_BS.t()))
        if self.lexical is None:
            return memory
        return replace(memory, words_BSO=self.lexical(embedded_SBE.transpose(0, 1)))

    def forward(
        self, source_BS: Tensor, source_mask_BS: Tensor, inputs_BT: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Return the readout [B, T, O] and weights [B, T, S] or None under teacher forcing.

        inputs_BT are the pieces that each step reads: BOS, y_1, ..., y_n.
        """
        memory = self.encode(source_BS, source_mask_BS)
        embedded_TBE = self.dropout(self.target_embedding(inputs_BT.t()), time_axis=0)
        readout_TBO, weights_TBS = self.decoder.unroll(embedded_TBE, memory)
        weights_BTS = None if weights_TBS is None else weights_TBS.transpose(0, 1)
        readout_BTO = add_words(readout_TBO.transpose(0, 1), weights_BTS, memory)
        return self.dropout(readout_BTO, time_axis=1), weights_BTS

    def logits(self, readout: Tensor) -> Tensor:
        """Return the logits of all target pieces: [..., O] to [..., V]."""
        return nn.functional.linear(readout, self.output_weight, self.output_bias)

    def decoding(self, source_BS: Tensor, mask_BS: Tensor) -> TranslationDecoding:
        """Return this model bound to a batch of sources, for search."""
        return TranslationDecoding(self, self.encode(source_BS, mask_BS))


def add_words(readout_BKO: Tensor, weights_BKS: Tensor | None, memory: Memory) -> Tensor:
    """Return the readout plus the lexical shortcut, if the model has one.

    The shortcut is tanh(sum over S of weights times W e_s) of the embeddings e_s of source pieces
    (after Nguyen and Chiang 2018, sec. 4, who give it an output layer of its own).
    """
    words_BSO = memory.words_BSO
    if words_BSO is None or weights_BKS is None:
        return readout_BKO
    return readout_BKO + torch.tanh(torch.bmm(weights_BKS.to(words_BSO.dtype), words_BSO))


@dataclass(frozen=True)
class TranslationDecoding:
    """A model and the memory of a batch, one step at a time."""

    model: TranslationModel
    memory: Memory

    def start(self) -> DecoderState:
        return self.model.decoder.start(self.memory)

    def step(
        self, tokens_R: Tensor, state: DecoderState
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        decoder, embedded_RE = self.model.decoder, self.model.target_embedding(tokens_R)
        output_RX, weights_RS, state = decoder.step(decoder.enter(embedded_RE), state, self.memory)
        readout_RO = decoder.read_out(state.hidden[-1], embedded_RE, output_RX)
        batch, length = self.memory.mask_BS.shape
        readout_BKO = add_words(
            readout_RO.view(batch, -1, readout_RO.shape[-1]),
            None if weights_RS is None else weights_RS.view(batch, -1, length),
            self.memory,
        )
        return self.model.logits(readout_BKO.flatten(0, 1)), weights_RS, state

    def steps(self, inputs_BT: Tensor) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Yield the logits [B, V] and weights [B, S] of steps that read known pieces."""
        state = self.start()
        for tokens_B in inputs_BT.unbind(1):
            logits_BV, weights_BS, state = self.step(tokens_B, state)
            yield logits_BV, weights_BS

    def select(self, sentences_B: Tensor) -> TranslationDecoding:
        return TranslationDecoding(self.model, self.memory.select(sentences_B))


def meta_parameters(config: ModelConfig, source_vocab: int, target_vocab: int) -> dict[str, Tensor]:
    """Return a model's parameters as meta tensors, which take no memory."""
    with torch.device("meta"), _WithoutNormal():
        return dict(TranslationModel(config, source_vocab, target_vocab).named_parameters())


class _WithoutNormal(TorchFunctionMode):
    """Skips the initialization of nn.Embedding, which takes seconds on meta tensors."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return None if func is torch.nn.init.normal_ else func(*args, **(kwargs or {}))
