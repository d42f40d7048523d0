"""Checks of a model: what must hold for any weights, and what must hold once it has learned.

Legend: B sentences, S source length, T target length, V vocabulary, N real target positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from seq2seq.data.batching import Batch
from seq2seq.diagnosis.probe import Probe, step_through, widen
from seq2seq.errors import CheckpointError
from seq2seq.inference.protocol import Hypothesis, SearchOptions
from seq2seq.inference.search import beam_search, greedy


@dataclass(frozen=True)
class Finding:
    """What was found, with its number, in words; `passed` is None for a check not made."""

    passed: bool | None
    found: str

    def line(self, name: str, width: int) -> str:
        """Return a line for a person."""
        word = {True: "pass", False: "FAIL", None: "skip"}[self.passed]
        return f"{word}  {name:{width}}  {self.found}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)


def skipped(why: str) -> Finding:
    """Return that a check could not be made."""
    return Finding(None, why)


Check = Callable[[Probe], Finding]

SUM_TOLERANCE = 1e-4
LOG_PROB_TOLERANCE = 1e-3  # nats of a whole sentence; rounding in fp32 makes some 1e-5
LOSS_TOLERANCE = 1e-4  # relative
LEAST_MOVE = 0.01
LEAST_EFFECT = 1e-4
LEAST_GAIN = 0.01  # nats a piece
EXTRA_PADDING = 7
NO_WEIGHTS = "the model has no attention weights"


def weights_sum_to_one(probe: Probe) -> Finding:
    """The weights of each step sum to 1 over the source positions."""
    batch = probe.batch()
    weights_BTS = step_through(probe, batch).weights_BTS
    if weights_BTS is None:
        return skipped(NO_WEIGHTS)
    error = float((weights_BTS.sum(2) - 1).abs()[batch.label_mask_BT].max())
    return Finding(error <= SUM_TOLERANCE, f"sums are off 1 by {error:.2g} at most")


def no_weight_on_padding(probe: Probe) -> Finding:
    """Padded source positions have weights of exactly 0."""
    batch = widen(probe.batch(), EXTRA_PADDING)
    weights_BTS = step_through(probe, batch).weights_BTS
    if weights_BTS is None:
        return skipped(NO_WEIGHTS)
    on_padding_BTS = weights_BTS.masked_fill(batch.source_mask_BS.unsqueeze(1), 0)
    most = float(on_padding_BTS.sum(2)[batch.label_mask_BT].max())
    return Finding(most == 0, f"a step has {most:.3g} of its weight on padding at most")


def batch_invariance(probe: Probe) -> Finding:
    """A sentence alone and beside longer neighbours: the same probabilities and translation."""
    batch = widen(probe.batch(), EXTRA_PADDING)
    beside_B = step_through(probe, batch).of_labels(batch)
    found = _search(probe, batch.source_BS, batch.source_mask_BS)
    worst, changed = 0.0, 0
    for number, pair in enumerate(probe.pairs):
        alone = probe.batch([pair])
        log_prob = step_through(probe, alone).of_labels(alone)[0]
        worst = _larger(worst, float((log_prob - beside_B[number]).abs()))
        (other,) = _search(probe, alone.source_BS, alone.source_mask_BS)
        changed += _differ(found[number], other)
    return Finding(
        worst <= LOG_PROB_TOLERANCE and not changed,
        f"log probabilities differ by {worst:.2g} at most; {changed} of {len(probe.pairs)} "
        "translations differ",
    )


def beam_one_is_greedy(probe: Probe) -> Finding:
    """A beam of 1 finds what greedy search finds."""
    batch = probe.batch()
    found = _search(probe, batch.source_BS, batch.source_mask_BS)
    decoding = probe.translator.decoding(batch.source_BS, batch.source_mask_BS)
    beams = beam_search(decoding, _greedy_options(probe))
    changed = sum(_differ(one, beam[0]) for one, beam in zip(found, beams, strict=True))
    return Finding(not changed, f"{changed} of {len(found)} translations differ")


def order_invariance(probe: Probe) -> Finding:
    """Lines in the opposite order have the same translations."""
    lines = [pair.source for pair in probe.pairs]
    forth = probe.translator.translate(lines)
    back = probe.translator.translate(lines[::-1])[::-1]
    changed = sum(
        one[0].text != other[0].text and abs(one[0].score - other[0].score) > LOG_PROB_TOLERANCE
        for one, other in zip(forth, back, strict=True)
    )
    return Finding(not changed, f"{changed} of {len(lines)} translations differ")


def steps_equal_training(probe: Probe) -> Finding:
    """Decoding step by step says what the teacher-forced pass of training says."""
    batch = probe.batch()
    steps = step_through(probe, batch)
    with torch.no_grad():
        features_BTO, weights_BTS = probe.model(
            batch.source_BS, batch.source_mask_BS, batch.inputs_BT
        )
        log_probs_BTV = probe.model.logits(features_BTO).float().log_softmax(-1)
    trained = replace(steps, log_probs_BTV=log_probs_BTV, weights_BTS=weights_BTS)
    worst = float((trained.of_labels(batch) - steps.of_labels(batch)).abs().max())
    return Finding(
        worst <= LOG_PROB_TOLERANCE, f"log probabilities of targets differ by {worst:.2g} at most"
    )


def history_counts(probe: Probe) -> Finding:
    """What came before the last piece changes what comes next."""
    batch = probe.batch()
    # The first piece of each target becomes that of another; the second one stays.
    inputs_BT = batch.inputs_BT.clone()
    if inputs_BT.shape[1] < 3:
        return skipped("no target has two pieces")
    inputs_BT[:, 1] = inputs_BT[:, 1].roll(1)
    usable_B = (batch.target_lengths_B >= 3) & (inputs_BT[:, 1] != batch.inputs_BT[:, 1])
    if not usable_B.any():
        return skipped("no two targets begin with different pieces")
    other = step_through(probe, replace(batch, inputs_BT=inputs_BT)).log_probs_BTV[:, 2]
    moved_B = _variation(step_through(probe, batch).log_probs_BTV[:, 2].exp(), other.exp())
    mean = float(moved_B[usable_B].mean())
    return Finding(
        mean >= LEAST_EFFECT, f"another piece before it moves {mean:.3g} of the next piece's mass"
    )


def attention_moves(probe: Probe) -> Finding:
    """From one step to the next the attention looks elsewhere."""
    batch = probe.batch()
    weights_BTS = step_through(probe, batch).weights_BTS
    if weights_BTS is None:
        return skipped(NO_WEIGHTS)
    moved_BT = _variation(weights_BTS[:, 1:], weights_BTS[:, :-1])
    real_BT = batch.label_mask_BT[:, 1:]
    if not real_BT.any():
        return skipped("no target has a piece")
    mean = float(moved_BT[real_BT].mean())
    return Finding(mean >= LEAST_MOVE, f"{mean:.3g} of the weight moves at a step")


def source_counts(probe: Probe) -> Finding:
    """A target is likelier beside its own source than beside another one."""
    batch = probe.batch()
    others = probe.batch(
        [replace(pair, source=probe.pairs[n - 1].source) for n, pair in enumerate(probe.pairs)]
    )
    own_B = step_through(probe, batch).of_labels(batch)
    other_B = step_through(probe, others).of_labels(others)
    gain = float((own_B - other_B).sum()) / batch.num_target_tokens
    return Finding(gain >= LEAST_GAIN, f"the own source is worth {gain:.3g} nats a target piece")


def loss_ignores_padding(probe: Probe) -> Finding:
    """The loss and its gradient do not depend on how wide the batch is padded."""
    batch = probe.batch()
    loss, norm = loss_and_gradient(probe, batch)
    padded_loss, padded_norm = loss_and_gradient(probe, widen(batch, EXTRA_PADDING))
    error = _larger(_relative(loss, padded_loss), _relative(norm, padded_norm))
    return Finding(
        error <= LOSS_TOLERANCE,
        f"{EXTRA_PADDING} columns of padding: loss {loss:.4f} becomes {padded_loss:.4f}, "
        f"gradient norm {norm:.3g} becomes {padded_norm:.3g}",
    )


def loss_and_gradient(probe: Probe, batch: Batch) -> tuple[float, float]:
    """Return the loss of a batch and the norm of its gradient; the model is left as it was."""
    parameters = [p for p in probe.model.parameters() if p.requires_grad]
    loss = probe.loss(probe.model, batch)
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    squares = [g.double().square().sum() for g in gradients if g is not None]
    return float(loss.detach()), float(torch.stack(squares).sum().sqrt())


MODEL_CHECKS: dict[str, Check] = {
    "weights sum to 1": weights_sum_to_one,
    "no weight on padding": no_weight_on_padding,
    "batch invariance": batch_invariance,
    "order invariance": order_invariance,
    "beam 1 is greedy": beam_one_is_greedy,
    "steps equal training": steps_equal_training,
    "history counts": history_counts,
    "source counts": source_counts,
    "attention moves": attention_moves,
    "loss ignores padding": loss_ignores_padding,
}


def examine(probe: Probe) -> dict[str, Finding]:
    """Make all checks of the model; one that meets numbers that are not finite fails."""
    return {name: _made(check, probe) for name, check in MODEL_CHECKS.items()}


def _made(check: Check, probe: Probe) -> Finding:
    try:
        return check(probe)
    except (FloatingPointError, CheckpointError) as error:
        return Finding(False, str(error))


def _greedy_options(probe: Probe) -> SearchOptions:
    return probe.translator.options(beam_size=1)


def _search(probe: Probe, source_BS: Tensor, mask_BS: Tensor) -> list[Hypothesis]:
    decoding = probe.translator.decoding(source_BS, mask_BS)
    return [found for [found] in greedy(decoding, _greedy_options(probe))]


def _differ(one: Hypothesis, other: Hypothesis) -> bool:
    """Return whether two results differ by more than the rounding that settles a tie."""
    return one.tokens != other.tokens and not (
        abs(one.log_prob - other.log_prob) <= LOG_PROB_TOLERANCE
    )


def _variation(one: Tensor, other: Tensor) -> Tensor:
    """Return the total variation distance over the last axis: the mass that moves."""
    return (one - other).abs().sum(-1) / 2


def _relative(one: float, other: float) -> float:
    """Return the difference of two numbers over the larger one; of tiny ones it is rounding."""
    return abs(one - other) / max(abs(one), abs(other), 0.01)


def _larger(one: float, other: float) -> float:
    """Return the larger number; NaN is larger than all."""
    return other if not other <= one else one
