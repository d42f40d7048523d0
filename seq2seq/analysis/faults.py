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

from seq2seq.analysis.model_checks import Probe, mean_loss
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
    """A fault, and how to put it into a copy of a probe; templates/faults.html describes it."""

    name: str
    title: str
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
    Fault("softmax-axis", "Softmax over the wrong axis", _as(SoftmaxOverQueries)),
    Fault("no-mask", "No padding mask", _as(NoMask)),
    Fault("length-scale", "Scaled by the length", _as(ScaledByLength)),
    Fault("state-reset", "Decoder state reset at each step", _as(StateReset)),
    Fault("ignores-source", "Attention that ignores the source", _as(IgnoresSource)),
    Fault("reads-padding", "Output that depends on the batch", _as(ReadsPadding)),
    Fault(
        "loss-mean",
        "A mean loss that counts padding",
        lambda probe: replace(probe, loss=loss_counting_padding),
    ),
)
FAULTS: dict[str, Fault] = {fault.name: fault for fault in _FAULTS}
