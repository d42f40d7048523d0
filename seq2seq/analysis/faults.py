"""Famous faults of attentional translators, each to be put into a copy of a healthy model.

Projects and tutorials have had all of them. Each is a subclass of the module that it breaks, or a
function that replaces the correct one. Nothing that translates or trains imports this file.

Legend: B batch, K queries a sentence, S source length, R rows, E embedding size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seq2seq.analysis.probe import Probe, mean_loss
from seq2seq.data.batching import Batch
from seq2seq.errors import DataError
from seq2seq.model.attention import Attention, Encoded, FixedContext, Memory
from seq2seq.model.decoder import Decoder, DecoderState
from seq2seq.model.model import Encoder, TranslationModel


class SoftmaxOverQueries(Attention):
    """The softmax runs over the queries, of which greedy search has one per sentence."""

    def weights(self, scores: Tensor, memory: Memory) -> Tensor:
        ones = [1] * (scores.dim() - 2)  # for the axes between batch and source
        mask = memory.mask_BS.view(len(memory.mask_BS), *ones, -1)
        return scores.float().softmax(-2) * mask


class NoMask(Attention):
    """Padding gets scores and weights like any word."""

    def weights(self, scores: Tensor, memory: Memory) -> Tensor:
        return scores.float().softmax(-1)


class ScaledByLength(Attention):
    """Scores are divided by the root of the source length instead of the key size."""

    def weights(self, scores: Tensor, memory: Memory) -> Tensor:
        return super().weights(scores / math.sqrt(scores.shape[-1]), memory)


class IgnoresSource(Attention):
    """The keys are constant, so all scores are equal and all weights are 1 / length."""

    def weights(self, scores: Tensor, memory: Memory) -> Tensor:
        return super().weights(torch.zeros_like(scores), memory)


class StateReset(Decoder):
    """Each decoding step starts from the initial state again; only training keeps the state."""

    def step(
        self, embedded_RE: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        sentences_B = torch.arange(len(memory.mask_BS), device=memory.mask_BS.device)
        rows_R = sentences_B.repeat_interleave(len(embedded_RE) // len(sentences_B))
        return super().step(embedded_RE, self.start(memory).select(rows_R), memory)


class ReadsPadding(Encoder):
    """The encoder treats padding as words, so that its output depends on the batch."""

    def forward(self, embedded_SBE: Tensor, mask_SB: Tensor) -> Encoded:
        encoded = super().forward(embedded_SBE, torch.ones_like(mask_SB))
        return replace(encoded, mask_BS=mask_SB.t())


def loss_counting_padding(model: TranslationModel, batch: Batch) -> Tensor:
    """Return the sum of the loss over real pieces, divided by all positions."""
    return mean_loss(model, batch) * batch.num_target_tokens / batch.labels_BT.numel()


@dataclass(frozen=True)
class Fault:
    """A fault: what is wrong, what it looks like, and how to put it into a copy of a probe."""

    name: str
    title: str
    story: str
    look: str
    seen: str  # where a fault of this kind was reported
    inject: Callable[[Probe], Probe]


def _as(kind: type[Attention] | type[Decoder] | type[Encoder]) -> Callable[[Probe], Probe]:
    """Let the module that `kind` breaks use its methods, and its own for the rest."""

    def inject(probe: Probe) -> Probe:
        decoder = probe.model.decoder
        parts = {Attention: decoder.attention, Decoder: decoder, Encoder: probe.model.encoder}
        module = parts[kind.__bases__[0]]
        if isinstance(module, FixedContext):
            raise DataError(
                "the model has attention.score none, so there are no weights to break; choose "
                "another run"
            )
        own = type(module)
        module.__class__ = type(f"{kind.__name__}{own.__name__}", (kind, own), {})
        return probe

    return inject


_FAULTS = (
    Fault(
        "softmax-axis",
        "Softmax over the wrong axis",
        "The softmax runs over the queries instead of the source positions. Decoding has one query "
        "per step, and the softmax of one number is 1.",
        "Every weight is 1: the context is the sum of all states, the same at each step.",
        "github.com/PetrochukM/PyTorch-NLP/issues/2 (2018)",
        _as(SoftmaxOverQueries),
    ),
    Fault(
        "no-mask",
        "No padding mask",
        "Scores of padded positions are not set to minus infinity before the softmax.",
        "Padding after the end of the sentence gets weight, which the words lose.",
        "github.com/tensorflow/tensorflow/issues/512 (2015), "
        "github.com/OpenNMT/OpenNMT-py/issues/318 (2017)",
        _as(NoMask),
    ),
    Fault(
        "length-scale",
        "Scaled by the length",
        "Scores are divided by the root of the source length, taken from the wrong axis, instead "
        "of the root of the key's size, and the length is that of the padded batch.",
        "The peaks are where they were, but pale: the weights are spread over the sentence.",
        "github.com/lucidrains/vit-pytorch/issues/65 (2021; another wrong size)",
        _as(ScaledByLength),
    ),
    Fault(
        "state-reset",
        "Decoder state reset at each step",
        "The decoding loop drops the new state, so each step starts from the initial one. "
        "Training, which runs over the whole target, is correct.",
        "All rows are equal, or depend on the last piece only, and the same words are repeated.",
        "github.com/pytorch/examples/issues/88 (2017; in training too)",
        _as(StateReset),
    ),
    Fault(
        "ignores-source",
        "Attention that ignores the source",
        "The keys are constant (never filled, or detached from the encoder), so that all source "
        "positions have the same score.",
        "All cells are equal: 1 divided by the number of source pieces.",
        "github.com/ZiyueHuang/MXSeq2Seq/issues/3 (2020; scores without the encoder)",
        _as(IgnoresSource),
    ),
    Fault(
        "reads-padding",
        "Output that depends on the batch",
        "The encoder reads padding as if it were words; its backward direction starts with the "
        "padding, and the decoder starts from its last state.",
        "Almost the healthy picture; the fault shows when the neighbors in the batch change.",
        "github.com/pytorch/translate/issues/308 (2019)",
        _as(ReadsPadding),
    ),
    Fault(
        "loss-mean",
        "A mean loss that counts padding",
        "The loss of padded positions is set to 0, but the mean is taken over all positions, so "
        "that the words of a batch with more padding count less. This is a fault of training; the "
        "BLEU is that of the healthy weights.",
        "No heat map: the more padding, the better the loss looks and the smaller is the gradient.",
        "github.com/tensorflow/addons/issues/2637 (2021), "
        "github.com/d2l-ai/d2l-en/issues/2076 (2022)",
        lambda probe: replace(probe, loss=loss_counting_padding),
    ),
)
FAULTS: dict[str, Fault] = {fault.name: fault for fault in _FAULTS}
