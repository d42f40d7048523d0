"""Famous faults of attentional translators, each to be put into a copy of a healthy model.

They are mistakes that projects and tutorials have had. Each is a subclass of what it spoils or a
function in its place; nothing here is imported by what translates or trains.

Legend: B batch, K queries a sentence, S source length, R rows, E embedding size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from seq2seq.data.batching import Batch
from seq2seq.diagnosis.probe import Probe, mean_loss
from seq2seq.errors import DataError
from seq2seq.model.attention import Attention, Encoded, FixedContext, Memory
from seq2seq.model.decoder import Decoder, DecoderState
from seq2seq.model.model import Encoder, TranslationModel


class SoftmaxOverQueries(Attention):
    """The softmax runs over the queries, of which greedy search has one a sentence."""

    def weights(self, scores: Tensor, memory: Memory) -> Tensor:
        over_queries = scores.float().softmax(-2)
        return over_queries * memory.mask_BS.view(len(memory.mask_BS), *_ones(scores), -1)


class NoMask(Attention):
    """Padding is given scores and weights like any word."""

    def weights(self, scores: Tensor, memory: Memory) -> Tensor:
        return scores.float().softmax(-1)


class ScaledByLength(Attention):
    """Scores are divided by the root of the sentence's length, not of the key's size."""

    def weights(self, scores: Tensor, memory: Memory) -> Tensor:
        return super().weights(scores / math.sqrt(scores.shape[-1]), memory)


class IgnoresSource(Attention):
    """The keys are constant, so all scores are the same and all weights are 1 over the length."""

    def weights(self, scores: Tensor, memory: Memory) -> Tensor:
        return super().weights(torch.zeros_like(scores), memory)


class Forgetful(Decoder):
    """Each step of decoding starts from the initial state again; only training carries it on."""

    def step(
        self, embedded_RE: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        sentences_B = torch.arange(len(memory.mask_BS), device=memory.mask_BS.device)
        rows_R = sentences_B.repeat_interleave(len(embedded_RE) // len(sentences_B))
        return super().step(embedded_RE, self.start(memory).select(rows_R), memory)


class ReadsPadding(Encoder):
    """The encoder takes padding for words: what it says of a sentence depends on the batch."""

    def forward(self, embedded_SBE: Tensor, mask_SB: Tensor) -> Encoded:
        encoded = super().forward(embedded_SBE, torch.ones_like(mask_SB))
        return replace(encoded, mask_BS=mask_SB.t())


def loss_counting_padding(model: TranslationModel, batch: Batch) -> Tensor:
    """Return the sum of the loss over real pieces, divided by all positions."""
    return mean_loss(model, batch) * batch.num_target_tokens / batch.labels_BT.numel()


@dataclass(frozen=True)
class Fault:
    """A fault: what is wrong, what it looks like, and how it is put into a probe's copy.

    `seen` is where one of its kind was reported.
    """

    name: str
    title: str
    story: str
    look: str
    seen: str
    infect: Callable[[Probe], Probe]


def _in_attention(kind: type[Attention]) -> Callable[[Probe], Probe]:
    def infect(probe: Probe) -> Probe:
        if isinstance(probe.model.decoder.attention, FixedContext):
            raise DataError("the model has attention.score none; faults of attention need another")
        _become(probe.model.decoder.attention, kind)
        return probe

    return infect


def _in_decoder(probe: Probe) -> Probe:
    _become(probe.model.decoder, Forgetful)
    return probe


def _in_encoder(probe: Probe) -> Probe:
    _become(probe.model.encoder, ReadsPadding)
    return probe


def _in_loss(probe: Probe) -> Probe:
    return replace(probe, loss=loss_counting_padding)


def _become(module: nn.Module, kind: type[nn.Module]) -> None:
    """Make a module behave as `kind` where that says something, else as it did."""
    own = type(module)
    module.__class__ = type(f"{kind.__name__}{own.__name__}", (kind, own), {})


def _ones(scores: Tensor) -> list[int]:
    """Return a 1 for each axis of the scores between the batch and the source."""
    return [1] * (scores.dim() - 2)


FAULTS: tuple[Fault, ...] = (
    Fault(
        "softmax-axis",
        "Softmax over the wrong axis",
        "The softmax runs over the queries instead of the source positions. While one piece is "
        "decoded at a time there is one query, and the softmax of one number is 1.",
        "Every weight is 1: the context is the sum of all states, the same at each step.",
        "github.com/PetrochukM/PyTorch-NLP/issues/2 (2018)",
        _in_attention(SoftmaxOverQueries),
    ),
    Fault(
        "no-mask",
        "No padding mask",
        "Scores of padded positions are not set to minus infinity before the softmax.",
        "Weights run on beyond the end of the sentence, and the words get what is left.",
        "github.com/tensorflow/tensorflow/issues/512 (2015), "
        "github.com/OpenNMT/OpenNMT-py/issues/318 (2017)",
        _in_attention(NoMask),
    ),
    Fault(
        "length-scale",
        "Scaled by the length",
        "Scores are divided by the root of the source length, taken from the wrong axis, instead "
        "of the root of the key's size, and the length is that of the padded batch.",
        "The same places as before, but pale: the weights are smeared over the sentence.",
        "github.com/lucidrains/vit-pytorch/issues/65 (2021; another wrong size)",
        _in_attention(ScaledByLength),
    ),
    Fault(
        "state-reset",
        "Decoder state reset at each step",
        "The loop that decodes does not hand the new state on, so each step starts from the "
        "initial one. Training, which runs over the whole target, is right.",
        "All rows are alike, or depend on the last piece alone, and the same words come again.",
        "github.com/pytorch/examples/issues/88 (2017; in training too)",
        _in_decoder,
    ),
    Fault(
        "ignores-source",
        "Attention that ignores the source",
        "The keys are constant (never filled, or detached from the encoder), so that all source "
        "positions have the same score.",
        "All cells of all rows are equal: one over the number of source pieces.",
        "github.com/ZiyueHuang/MXSeq2Seq/issues/3 (2020; scores without the encoder)",
        _in_attention(IgnoresSource),
    ),
    Fault(
        "reads-padding",
        "Output that depends on the batch",
        "The encoder runs over padding as if it were words; its backward direction reads the "
        "padding first, and the decoder starts from there.",
        "Close to the healthy picture; what is wrong shows when a neighbour changes.",
        "github.com/pytorch/translate/issues/308 (2019)",
        _in_encoder,
    ),
    Fault(
        "loss-mean",
        "A mean loss that counts padding",
        "The loss of padded positions is set to 0, but the mean is taken over all positions, so "
        "that the more a batch is padded, the less its words count. It is a fault of training; "
        "the BLEU here is that of the healthy weights.",
        "No heat map: the loss looks better, and the gradient is smaller, the more padding.",
        "github.com/tensorflow/addons/issues/2637 (2021), "
        "github.com/d2l-ai/d2l-en/issues/2076 (2022)",
        _in_loss,
    ),
)
