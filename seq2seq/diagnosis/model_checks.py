"""Checks of a model: what must hold for any weights, and what must hold once it has learned.

Legend: B sentences, S source length, T target length, V vocabulary, N real target positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from seq2seq.data.batching import Batch
from seq2seq.diagnosis.finding import Finding, skipped
from seq2seq.diagnosis.patient import Patient, step_through, widen
from seq2seq.errors import CheckpointError
from seq2seq.inference.protocol import Hypothesis, SearchOptions
from seq2seq.inference.search import beam_search, greedy

Check = Callable[[Patient], Finding]

SUM_TOLERANCE = 1e-4
LOG_PROB_TOLERANCE = 1e-3  # nats of a whole sentence; rounding in fp32 makes some 1e-5
LOSS_TOLERANCE = 1e-4  # relative
LEAST_MOVE = 0.01
LEAST_EFFECT = 1e-4
LEAST_GAIN = 0.01  # nats a piece
EXTRA_PADDING = 7
NO_WEIGHTS = "the model has no attention weights"


def weights_sum_to_one(patient: Patient) -> Finding:
    """The weights of each step sum to 1 over the source positions."""
    batch = patient.batch()
    weights_BTS = step_through(patient, batch).weights_BTS
    if weights_BTS is None:
        return skipped(NO_WEIGHTS)
    error = float((weights_BTS.sum(2) - 1).abs()[batch.label_mask_BT].max())
    return Finding(error <= SUM_TOLERANCE, f"sums are off 1 by {error:.2g} at most")


def no_weight_on_padding(patient: Patient) -> Finding:
    """Padded source positions have weights of exactly 0."""
    batch = widen(patient.batch(), EXTRA_PADDING)
    weights_BTS = step_through(patient, batch).weights_BTS
    if weights_BTS is None:
        return skipped(NO_WEIGHTS)
    on_padding_BTS = weights_BTS.masked_fill(batch.source_mask_BS.unsqueeze(1), 0)
    most = float(on_padding_BTS.sum(2)[batch.label_mask_BT].max())
    return Finding(most == 0, f"a step has {most:.3g} of its weight on padding at most")


def batch_invariance(patient: Patient) -> Finding:
    """A sentence alone and beside longer neighbours: the same probabilities and translation."""
    batch = widen(patient.batch(), EXTRA_PADDING)
    beside_B = step_through(patient, batch).of_labels(batch)
    found = _search(patient, batch.source_BS, batch.source_mask_BS)
    worst, changed = 0.0, 0
    for number, pair in enumerate(patient.pairs):
        alone = patient.batch([pair])
        log_prob = step_through(patient, alone).of_labels(alone)[0]
        worst = _larger(worst, float((log_prob - beside_B[number]).abs()))
        (other,) = _search(patient, alone.source_BS, alone.source_mask_BS)
        changed += _differ(found[number], other)
    return Finding(
        worst <= LOG_PROB_TOLERANCE and not changed,
        f"log probabilities differ by {worst:.2g} at most; {changed} of {len(patient.pairs)} "
        "translations differ",
    )


def beam_one_is_greedy(patient: Patient) -> Finding:
    """A beam of 1 finds what greedy search finds."""
    batch = patient.batch()
    found = _search(patient, batch.source_BS, batch.source_mask_BS)
    decoding = patient.translator.decoding(batch.source_BS, batch.source_mask_BS)
    beams = beam_search(decoding, _greedy_options(patient))
    changed = sum(_differ(one, beam[0]) for one, beam in zip(found, beams, strict=True))
    return Finding(not changed, f"{changed} of {len(found)} translations differ")


def order_invariance(patient: Patient) -> Finding:
    """Lines in the opposite order have the same translations."""
    lines = [pair.source for pair in patient.pairs]
    forth = patient.translator.translate(lines)
    back = patient.translator.translate(lines[::-1])[::-1]
    changed = sum(
        one[0].text != other[0].text and abs(one[0].score - other[0].score) > LOG_PROB_TOLERANCE
        for one, other in zip(forth, back, strict=True)
    )
    return Finding(not changed, f"{changed} of {len(lines)} translations differ")


def steps_equal_training(patient: Patient) -> Finding:
    """Decoding step by step says what the teacher-forced pass of training says."""
    batch = patient.batch()
    steps = step_through(patient, batch)
    with torch.no_grad():
        features_BTO, weights_BTS = patient.model(
            batch.source_BS, batch.source_mask_BS, batch.inputs_BT
        )
        log_probs_BTV = patient.model.logits(features_BTO).float().log_softmax(-1)
    trained = replace(steps, log_probs_BTV=log_probs_BTV, weights_BTS=weights_BTS)
    worst = float((trained.of_labels(batch) - steps.of_labels(batch)).abs().max())
    return Finding(
        worst <= LOG_PROB_TOLERANCE, f"log probabilities of targets differ by {worst:.2g} at most"
    )


def history_counts(patient: Patient) -> Finding:
    """What came before the last piece changes what comes next."""
    batch = patient.batch()
    # The first piece of each target becomes that of another; the second one stays.
    inputs_BT = batch.inputs_BT.clone()
    if inputs_BT.shape[1] < 3:
        return skipped("no target has two pieces")
    inputs_BT[:, 1] = inputs_BT[:, 1].roll(1)
    usable_B = (batch.target_lengths_B >= 3) & (inputs_BT[:, 1] != batch.inputs_BT[:, 1])
    if not usable_B.any():
        return skipped("no two targets begin with different pieces")
    other = step_through(patient, replace(batch, inputs_BT=inputs_BT)).log_probs_BTV[:, 2]
    moved_B = _variation(step_through(patient, batch).log_probs_BTV[:, 2].exp(), other.exp())
    mean = float(moved_B[usable_B].mean())
    return Finding(
        mean >= LEAST_EFFECT, f"another piece before it moves {mean:.3g} of the next piece's mass"
    )


def attention_moves(patient: Patient) -> Finding:
    """From one step to the next the attention looks elsewhere."""
    batch = patient.batch()
    weights_BTS = step_through(patient, batch).weights_BTS
    if weights_BTS is None:
        return skipped(NO_WEIGHTS)
    moved_BT = _variation(weights_BTS[:, 1:], weights_BTS[:, :-1])
    real_BT = batch.label_mask_BT[:, 1:]
    if not real_BT.any():
        return skipped("no target has a piece")
    mean = float(moved_BT[real_BT].mean())
    return Finding(mean >= LEAST_MOVE, f"{mean:.3g} of the weight moves at a step")


def source_counts(patient: Patient) -> Finding:
    """A target is likelier beside its own source than beside another one."""
    batch = patient.batch()
    others = patient.batch(
        [replace(pair, source=patient.pairs[n - 1].source) for n, pair in enumerate(patient.pairs)]
    )
    own_B = step_through(patient, batch).of_labels(batch)
    other_B = step_through(patient, others).of_labels(others)
    gain = float((own_B - other_B).sum()) / batch.num_target_tokens
    return Finding(gain >= LEAST_GAIN, f"the own source is worth {gain:.3g} nats a target piece")


def loss_ignores_padding(patient: Patient) -> Finding:
    """The loss and its gradient do not depend on how wide the batch is padded."""
    batch = patient.batch()
    loss, norm = loss_and_gradient(patient, batch)
    padded_loss, padded_norm = loss_and_gradient(patient, widen(batch, EXTRA_PADDING))
    error = _larger(_relative(loss, padded_loss), _relative(norm, padded_norm))
    return Finding(
        error <= LOSS_TOLERANCE,
        f"{EXTRA_PADDING} columns of padding: loss {loss:.4f} becomes {padded_loss:.4f}, "
        f"gradient norm {norm:.3g} becomes {padded_norm:.3g}",
    )


def loss_and_gradient(patient: Patient, batch: Batch) -> tuple[float, float]:
    """Return the loss of a batch and the norm of its gradient; the model is left as it was."""
    parameters = [p for p in patient.model.parameters() if p.requires_grad]
    loss = patient.loss(patient.model, batch)
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


def examine(patient: Patient) -> dict[str, Finding]:
    """Make all checks of the model; one that meets numbers that are not finite fails."""
    return {name: _made(check, patient) for name, check in MODEL_CHECKS.items()}


def _made(check: Check, patient: Patient) -> Finding:
    try:
        return check(patient)
    except (FloatingPointError, CheckpointError) as error:
        return Finding(False, str(error))


def _greedy_options(patient: Patient) -> SearchOptions:
    return patient.translator.options(beam_size=1)


def _search(patient: Patient, source_BS: Tensor, mask_BS: Tensor) -> list[Hypothesis]:
    decoding = patient.translator.decoding(source_BS, mask_BS)
    return [found for [found] in greedy(decoding, _greedy_options(patient))]


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
