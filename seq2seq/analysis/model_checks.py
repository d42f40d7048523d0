"""Checks of a model: properties of any weights, and properties of a trained model.

A probe is a model with sentences to examine it on. Decoding it step by step with known targets
gives the weights and probabilities that most checks compare.

Legend: B sentences, S source length, T target length, V vocabulary, O readout size.
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
from seq2seq.data.tokenizer import PAD
from seq2seq.errors import CheckpointError, DataError
from seq2seq.inference.protocol import Hypothesis
from seq2seq.inference.search import beam_search, search
from seq2seq.inference.torch_backend import TorchBackend
from seq2seq.inference.translator import Translator
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.loss import teacher_forced_loss

_CANDIDATES = 400
_MOST_PIECES = 60
SUM_TOLERANCE = 1e-4
LOG_PROB_TOLERANCE = 1e-3  # nats per sentence; rounding in fp32 causes about 1e-5
LOSS_TOLERANCE = 1e-4  # relative
LEAST_MOVE = 0.01
LEAST_EFFECT = 1e-4
LEAST_GAIN = 0.01  # nats per piece
EXTRA_PADDING = 7


def mean_loss(model: TranslationModel, batch: Batch) -> Tensor:
    """Return the training loss per target piece in nats, without padding."""
    total: Tensor = teacher_forced_loss(model, batch)[0]
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
        sources = source.encode_batch([pair.source for pair in pairs])
        targets = target.encode_batch([pair.target for pair in pairs])
        return make_batch(sources, targets, range(len(pairs))).to(self.device)


def make_probe(translator: Translator, pairs: Sequence[Pair], *, sentences: int = 24) -> Probe:
    """Return a probe with sentences of all lengths from the beginning of a test set.

    Raises DataError for fewer than two usable sentences.
    """
    pairs = pairs[:_CANDIDATES]
    batch = Probe(translator, tuple(pairs)).batch()
    sizes = torch.stack([batch.source_lengths_B, batch.target_lengths_B]) - 1  # without the end
    usable = ((sizes > 0) & (sizes <= _MOST_PIECES)).all(0).nonzero().flatten().tolist()
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
    """The output of each decoding step for the targets of a batch, padded positions included."""

    batch: Batch
    log_probs_BTV: Tensor
    weights_BTS: Tensor | None

    @property
    def target_log_probs_B(self) -> Tensor:
        """The log probability of the target of each sentence."""
        chosen_BT = self.log_probs_BTV.gather(2, self.batch.labels_BT.unsqueeze(2)).squeeze(2)
        return chosen_BT.masked_fill(~self.batch.label_mask_BT, 0).sum(1)


@torch.no_grad()
def step_through(probe: Probe, batch: Batch) -> Steps:
    """Decode step by step, as a search does, with the batch's own inputs."""
    decoding = probe.model.decoding(batch.source_BS, batch.source_mask_BS)
    logits, weights = zip(*decoding.steps(batch.inputs_BT), strict=True)
    known = [weights_BS for weights_BS in weights if weights_BS is not None]
    log_probs_BTV = torch.stack(logits, 1).float().log_softmax(-1)
    return Steps(batch, log_probs_BTV, torch.stack(known, 1) if known else None)


def widen(batch: Batch, columns: int) -> Batch:
    """Return the batch with this many extra columns of padding on both sides."""
    return replace(
        batch,
        source_BS=pad(batch.source_BS, (0, columns), value=PAD),
        inputs_BT=pad(batch.inputs_BT, (0, columns), value=PAD),
        labels_BT=pad(batch.labels_BT, (0, columns), value=PAD),
    )


# --- Checks


@dataclass(frozen=True)
class Finding:
    """The result of a check, and in words what it found, with the number."""

    passed: bool | None  # None: skipped
    found: str

    @property
    def word(self) -> str:
        """The result as one word."""
        return {True: "pass", False: "FAIL", None: "skip"}[self.passed]


class Skipped(Exception):
    """A check cannot be made; the message says why."""


def _weights(steps: Steps) -> Tensor:
    if steps.weights_BTS is None:
        raise Skipped("the model has no attention weights")
    return steps.weights_BTS


def weights_sum_to_1(_: Probe, steps: Steps) -> Finding:
    """Check that the weights of each step sum to 1 over the source positions."""
    error = float((_weights(steps).sum(2) - 1).abs()[steps.batch.label_mask_BT].max())
    return Finding(error <= SUM_TOLERANCE, f"sums differ from 1 by at most {error:.2g}")


def no_weight_on_padding(_: Probe, steps: Steps) -> Finding:
    """Check that padded source positions have weights of exactly 0."""
    on_padding_BTS = _weights(steps).masked_fill(steps.batch.source_mask_BS.unsqueeze(1), 0)
    most = float(on_padding_BTS.sum(2)[steps.batch.label_mask_BT].max())
    return Finding(most == 0, f"at most {100 * most:.3g} % of a step's weight is on padding")


def batch_invariance(probe: Probe, steps: Steps) -> Finding:
    """Check that longer neighbors change no probability and no translation of a sentence."""
    batches = [probe.batch([pair]) for pair in probe.pairs]
    alone_B = torch.cat([step_through(probe, batch).target_log_probs_B for batch in batches])
    worst = float((alone_B - steps.target_log_probs_B).abs().max())
    alone = [hypothesis for batch in batches for hypothesis in search_greedily(probe, batch)]
    changed = sum(map(_differ, search_greedily(probe, steps.batch), alone))
    return Finding(
        worst <= LOG_PROB_TOLERANCE and not changed,
        f"log probabilities differ by at most {worst:.2g}; {changed} of {len(probe.pairs)} "
        "translations differ",
    )


def beam_1_is_greedy(probe: Probe, steps: Steps) -> Finding:
    """Check that a beam of 1 finds what greedy search finds."""
    found = search_greedily(probe, steps.batch)
    beams = search_greedily(probe, steps.batch, strategy=beam_search)
    changed = sum(map(_differ, found, beams))
    return Finding(not changed, f"{changed} of {len(found)} translations differ")


def order_invariance(probe: Probe, _: Steps) -> Finding:
    """Check that lines in reverse order have the same translations."""
    lines = [pair.source for pair in probe.pairs]
    forward = probe.translator.translate(lines)
    backward = probe.translator.translate(lines[::-1])[::-1]
    changed = sum(
        one[0].text != other[0].text and abs(one[0].score - other[0].score) > LOG_PROB_TOLERANCE
        for one, other in zip(forward, backward, strict=True)
    )
    return Finding(not changed, f"{changed} of {len(lines)} translations differ")


def steps_equal_training(probe: Probe, steps: Steps) -> Finding:
    """Check that step-by-step decoding gives the probabilities of the teacher-forced pass."""
    batch, model = steps.batch, probe.model
    with torch.no_grad():
        readout_BTO, _ = model(batch.source_BS, batch.source_mask_BS, batch.inputs_BT)
        log_probs_BTV = model.logits(readout_BTO).float().log_softmax(-1)
    trained_B = replace(steps, log_probs_BTV=log_probs_BTV).target_log_probs_B
    worst = float((trained_B - steps.target_log_probs_B).abs().max())
    return Finding(
        worst <= LOG_PROB_TOLERANCE, f"log probabilities of targets differ by at most {worst:.2g}"
    )


def history_counts(probe: Probe, steps: Steps) -> Finding:
    """Check that the pieces before the last one influence the next piece."""
    # Each target gets the first piece of another target and keeps its second piece.
    batch, inputs_BT = steps.batch, steps.batch.inputs_BT.clone()
    inputs_BT[:, 1] = inputs_BT[:, 1].roll(1)
    usable_B = (batch.target_lengths_B >= 3) & (inputs_BT[:, 1] != batch.inputs_BT[:, 1])
    if not usable_B.any():
        raise Skipped("no two targets of two pieces or more begin with different pieces")
    other = step_through(probe, replace(batch, inputs_BT=inputs_BT)).log_probs_BTV[:, 2]
    moved_B = _variation(steps.log_probs_BTV[:, 2].exp(), other.exp())
    mean = float(moved_B[usable_B].mean())
    return Finding(
        mean >= LEAST_EFFECT,
        f"replacing the first piece moves {100 * mean:.3g} % of the third piece's probability",
    )


def attention_moves(_: Probe, steps: Steps) -> Finding:
    """Check that the attention moves from one step to the next."""
    weights_BTS, real_BT = _weights(steps), steps.batch.label_mask_BT[:, 1:]
    mean = float(_variation(weights_BTS[:, 1:], weights_BTS[:, :-1])[real_BT].mean())
    return Finding(
        mean >= LEAST_MOVE, f"{100 * mean:.3g} % of the weight moves from one step to the next"
    )


def source_counts(probe: Probe, steps: Steps) -> Finding:
    """Check that a target is more probable with its own source than with another one."""
    exchanged = [
        replace(pair, source=probe.pairs[n - 1].source) for n, pair in enumerate(probe.pairs)
    ]
    others = step_through(probe, widen(probe.batch(exchanged), EXTRA_PADDING))
    difference_B = steps.target_log_probs_B - others.target_log_probs_B
    gain = float(difference_B.sum()) / steps.batch.num_target_tokens
    return Finding(
        gain >= LEAST_GAIN, f"the right source is worth {gain:.3g} nats per target piece"
    )


def loss_ignores_padding(probe: Probe, steps: Steps) -> Finding:
    """Check that the loss and its gradient do not depend on the width of the batch."""
    loss, norm = loss_and_gradient(probe, probe.batch())
    padded_loss, padded_norm = loss_and_gradient(probe, steps.batch)
    errors = _relative(loss, padded_loss), _relative(norm, padded_norm)
    return Finding(
        all(error <= LOSS_TOLERANCE for error in errors),
        f"{EXTRA_PADDING} columns of padding: loss {loss:.4f} becomes {padded_loss:.4f}, "
        f"gradient norm {norm:.3g} becomes {padded_norm:.3g}",
    )


def loss_and_gradient(probe: Probe, batch: Batch) -> tuple[float, float]:
    """Return the loss of a batch and the norm of its gradient, without changing the model."""
    parameters = [p for p in probe.model.parameters() if p.requires_grad]
    loss = probe.loss(probe.model, batch)
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    squares = [g.double().square().sum() for g in gradients if g is not None]
    return float(loss.detach()), float(torch.stack(squares).sum().sqrt())


_CHECKS: tuple[Callable[[Probe, Steps], Finding], ...] = (
    weights_sum_to_1, no_weight_on_padding, batch_invariance, order_invariance, beam_1_is_greedy,
    steps_equal_training, history_counts, source_counts, attention_moves, loss_ignores_padding,
)  # fmt: skip
MODEL_CHECKS = {check.__name__.replace("_", " "): check for check in _CHECKS}


def examine(probe: Probe) -> dict[str, Finding]:
    """Return the findings of all checks of the model; numbers that are not finite fail a check."""
    findings, steps = {}, step_through(probe, widen(probe.batch(), EXTRA_PADDING))
    for name, check in MODEL_CHECKS.items():
        try:
            findings[name] = check(probe, steps)
        except Skipped as reason:
            findings[name] = Finding(None, str(reason))
        except (FloatingPointError, CheckpointError) as error:
            findings[name] = Finding(False, str(error))
    return findings


def search_greedily(
    probe: Probe, batch: Batch, *, strategy: Callable[..., list[list[Hypothesis]]] = search
) -> list[Hypothesis]:
    """Return the best hypothesis of each sentence with a beam of 1."""
    decoding = probe.translator.decoding(batch.source_BS.cpu().numpy())
    return [found[0] for found in strategy(decoding, probe.translator.options(beam_size=1))]


def _differ(one: Hypothesis, other: Hypothesis) -> bool:
    """Return whether two hypotheses differ, and not only by how rounding breaks a tie."""
    return one.tokens != other.tokens and not (
        abs(one.log_prob - other.log_prob) <= LOG_PROB_TOLERANCE
    )


def _variation(one: Tensor, other: Tensor) -> Tensor:
    """Return the total variation distance over the last axis: the mass that moves."""
    return (one - other).abs().sum(-1) / 2


def _relative(one: float, other: float) -> float:
    """Return the difference of two numbers relative to the larger, but at least to 0.01."""
    return abs(one - other) / max(abs(one), abs(other), 0.01)
