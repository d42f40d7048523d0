"""A model with sentences to examine it on, and step-by-step decoding of known targets.

Legend: B sentences, S source length, T target length, V vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2seq.data.batching import Batch, make_batch
from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizer import PAD, normalize_line
from seq2seq.errors import DataError
from seq2seq.inference.torch_backend import TorchBackend
from seq2seq.inference.translator import Translator
from seq2seq.model.model import TranslationModel
from seq2seq.training.loss import Objective

_CANDIDATES = 400
_MOST_PIECES = 60


def mean_loss(model: TranslationModel, batch: Batch) -> Tensor:
    """Return the training loss per target piece in nats, without padding."""
    total: Tensor = Objective(model)(batch)[0]
    return total / batch.num_target_tokens


@dataclass(frozen=True)
class Probe:
    """A model in its translator, sentences to examine it on, and its loss."""

    translator: Translator
    pairs: tuple[Pair, ...]
    loss: Callable[[TranslationModel, Batch], Tensor] = mean_loss

    @property
    def model(self) -> TranslationModel:
        """The model."""
        return self.translator.models[0]

    def copy(self) -> Probe:
        """Return a probe with a copy of the model, for changes that leave the original alone."""
        old, model = self.translator, TorchBackend(copy.deepcopy(self.model))
        return replace(self, translator=Translator([model], old.source, old.target, old.config))

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.model.output_bias.device

    def batch(self, pairs: Sequence[Pair] | None = None) -> Batch:
        """Return the given sentences, by default all of the probe's, as one batch in order."""
        pairs = self.pairs if pairs is None else pairs
        source, target = self.translator.source, self.translator.target
        sources = source.encode_batch([normalize_line(pair.source) for pair in pairs])
        targets = target.encode_batch([normalize_line(pair.target) for pair in pairs])
        return make_batch(sources, targets, range(len(pairs))).to(self.device)


def make_probe(translator: Translator, pairs: Sequence[Pair], *, sentences: int = 24) -> Probe:
    """Return a probe with sentences of all lengths from the beginning of a test set.

    Raises DataError for fewer than two usable sentences.
    """
    candidates = pairs[:_CANDIDATES]
    sources = translator.source.encode_batch([normalize_line(p.source) for p in candidates])
    targets = translator.target.encode_batch([normalize_line(p.target) for p in candidates])
    usable = [
        number
        for number, (source, target) in enumerate(zip(sources, targets, strict=True))
        if 0 < len(source) <= _MOST_PIECES and 0 < len(target) <= _MOST_PIECES
    ]
    if len(usable) < 2:
        raise DataError(
            "the test set must begin with two or more sentence pairs of 1 to "
            f"{_MOST_PIECES} pieces, found {len(usable)}; choose another test set"
        )
    by_length = sorted(usable, key=lambda number: len(pairs[number].source))
    chosen = np.linspace(0, len(by_length) - 1, min(sentences, len(by_length))).astype(int)
    # In the order of the test set, neighbors in a batch differ in length.
    return Probe(translator, tuple(pairs[n] for n in sorted(by_length[c] for c in chosen)))


@dataclass(frozen=True)
class Steps:
    """The output of each decoding step for known targets, padded positions included."""

    log_probs_BTV: Tensor
    weights_BTS: Tensor | None

    def target_log_probs(self, batch: Batch) -> Tensor:
        """Return the log probability of the target of each sentence [B]."""
        chosen_BT = self.log_probs_BTV.gather(2, batch.labels_BT.unsqueeze(2)).squeeze(2)
        return chosen_BT.masked_fill(~batch.label_mask_BT, 0).sum(1)


@torch.no_grad()
def step_through(probe: Probe, batch: Batch) -> Steps:
    """Decode step by step, as a search does, with the batch's own inputs."""
    decoding = probe.model.decoding(batch.source_BS, batch.source_mask_BS)
    state = decoding.start()
    log_probs, weights = [], []
    for tokens_B in batch.inputs_BT.unbind(1):
        logits_BV, weights_BS, state = decoding.step(tokens_B, state)
        log_probs.append(logits_BV.float().log_softmax(-1))
        if weights_BS is not None:
            weights.append(weights_BS)
    return Steps(torch.stack(log_probs, 1), torch.stack(weights, 1) if weights else None)


def widen(batch: Batch, columns: int) -> Batch:
    """Return the batch with this many extra columns of padding on both sides."""
    return replace(
        batch,
        source_BS=pad(batch.source_BS, (0, columns), value=PAD),
        inputs_BT=pad(batch.inputs_BT, (0, columns), value=PAD),
        labels_BT=pad(batch.labels_BT, (0, columns), value=PAD),
    )
