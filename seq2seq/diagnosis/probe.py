"""What the checks look at, and how they look.

Legend: B sentences, S source length, T target length, V vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from seq2seq.data.batching import Batch, make_batch
from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizer import PAD, normalize_line
from seq2seq.errors import DataError
from seq2seq.inference.translator import Translator
from seq2seq.model.model import TranslationModel
from seq2seq.training.loss import Objective

Loss = Callable[[TranslationModel, Batch], Tensor]

_CANDIDATES = 400
_MOST_PIECES = 60


def mean_loss(model: TranslationModel, batch: Batch) -> Tensor:
    """Return the training loss per target piece in nats; padding is left out."""
    total: Tensor = Objective(model)(batch)[0]
    return total / batch.num_target_tokens


@dataclass(frozen=True)
class Probe:
    """A model in its translator, some sentences, and the loss that it is trained by."""

    translator: Translator
    pairs: tuple[Pair, ...]
    loss: Loss = mean_loss

    @property
    def model(self) -> TranslationModel:
        """The model itself."""
        return self.translator.models[0]

    def copy(self) -> Probe:
        """Return the same with a model of its own; what is done to it changes no other.

        It translates with the model's own modules, so that a fault in one of them shows.
        """
        old = self.translator
        translator = Translator(
            [copy.deepcopy(self.model)], old.source, old.target, old.config,
            device=old.device, dtype=torch.float32, plain=True,
        )  # fmt: skip
        return replace(self, translator=translator)

    def batch(self, pairs: Sequence[Pair] | None = None) -> Batch:
        """Return all sentences, or others, in one batch in their order."""
        pairs = self.pairs if pairs is None else pairs
        source, target = self.translator.source, self.translator.target
        sources = source.encode_batch([normalize_line(pair.source) for pair in pairs])
        targets = target.encode_batch([normalize_line(pair.target) for pair in pairs])
        return make_batch(sources, targets, range(len(pairs))).to(self.translator.device)


def make_probe(translator: Translator, pairs: Sequence[Pair], *, sentences: int = 24) -> Probe:
    """Return a probe with sentences of all lengths that a test set begins with.

    Raises DataError where there are fewer than two usable ones.
    """
    usable: dict[int, Pair] = {}
    for number, pair in enumerate(pairs[:_CANDIDATES]):
        sizes = [
            len(tokenizer.encode(normalize_line(text)))
            for tokenizer, text in (
                (translator.source, pair.source), (translator.target, pair.target),
            )
        ]  # fmt: skip
        if min(sizes) > 0 and max(sizes) <= _MOST_PIECES:
            usable[number] = pair
    if len(usable) < 2:
        raise DataError(
            f"the checks need two sentence pairs or more of at most {_MOST_PIECES} pieces; the "
            f"test set begins with {len(usable)}"
        )
    by_length = sorted(usable, key=lambda number: len(usable[number].source))
    places = np.linspace(0, len(by_length) - 1, min(sentences, len(by_length))).astype(int)
    # In the order of the test set: neighbours in a batch are then of different lengths.
    return Probe(translator, tuple(usable[n] for n in sorted(by_length[p] for p in places)))


@dataclass(frozen=True)
class Steps:
    """What the model says at each step of known targets, padded positions and all."""

    log_probs_BTV: Tensor
    weights_BTS: Tensor | None

    def of_labels(self, batch: Batch) -> Tensor:
        """Return the log probability of each sentence's target."""
        chosen_BT = self.log_probs_BTV.gather(2, batch.labels_BT.unsqueeze(2)).squeeze(2)
        return chosen_BT.masked_fill(~batch.label_mask_BT, 0).sum(1)


@torch.no_grad()
def step_through(probe: Probe, batch: Batch) -> Steps:
    """Decode step by step, as a search does, with the batch's inputs as what was found."""
    decoding = probe.translator.decoding(batch.source_BS, batch.source_mask_BS)
    state = decoding.start()
    log_probs, weights = [], []
    for tokens_B in batch.inputs_BT.unbind(1):
        logits_BV, weights_BS, state = decoding.step(tokens_B, state)
        log_probs.append(logits_BV.float().log_softmax(-1))
        weights.append(weights_BS)
    known = [w for w in weights if w is not None]
    return Steps(torch.stack(log_probs, 1), torch.stack(known, 1) if known else None)


def widen(batch: Batch, columns: int) -> Batch:
    """Return the batch with so many more columns of padding on both sides."""

    def padded(tensor_BX: Tensor) -> Tensor:
        return torch.nn.functional.pad(tensor_BX, (0, columns), value=PAD)

    return replace(
        batch,
        source_BS=padded(batch.source_BS),
        inputs_BT=padded(batch.inputs_BT),
        labels_BT=padded(batch.labels_BT),
    )
