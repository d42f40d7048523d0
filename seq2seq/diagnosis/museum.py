"""Each fault in a copy of a model: what it looks like, what it costs, and which check finds it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from seq2seq.data.corpus import Pair
from seq2seq.diagnosis.faults import FAULTS, Fault
from seq2seq.diagnosis.finding import Finding
from seq2seq.diagnosis.model_checks import examine, loss_and_gradient
from seq2seq.diagnosis.patient import Patient, step_through, widen
from seq2seq.evaluation.evaluate import references_of
from seq2seq.evaluation.metrics import score, sentence_chrf
from seq2seq.inference.search import greedy
from seq2seq.inference.translation import Part

log = logging.getLogger(__name__)

LOSS = "loss-mean"  # the one fault that has no heat map
BATCH = 50
PADDINGS = (0, 5, 10, 20, 40)
_MOST_ROWS = 14
_WORDS = range(4, 8)  # of the sentence that is shown
_MORE_PIECES = 20  # of its neighbour


@dataclass(frozen=True)
class Exhibit:
    """A model, healthy or with a fault, as the museum shows it."""

    bleu: float
    findings: dict[str, Finding]
    picture: Part  # a sentence beside a longer one: its weights on padding are shown too
    losses: list[tuple[float, float]]  # loss and norm of the gradient by columns of padding

    @property
    def caught_by(self) -> list[str]:
        """The checks that fail."""
        return [name for name, found in self.findings.items() if found.passed is False]


@dataclass(frozen=True)
class Museum:
    """The healthy model and each fault beside it."""

    healthy: Exhibit
    faulty: dict[str, Exhibit]  # by the name of the fault
    sentences: int

    @property
    def faults(self) -> Mapping[str, Fault]:
        """The faults by their names."""
        return {fault.name: fault for fault in FAULTS}

    @property
    def holds(self) -> bool:
        """Whether the healthy model passes all checks and every fault is caught by one."""
        return not self.healthy.caught_by and all(e.caught_by for e in self.faulty.values())


def tour(patient: Patient, pairs: Sequence[Pair]) -> Museum:
    """Return the museum of a model; pairs are what BLEU is measured on.

    The patient is not changed. Raises DataError for a model without attention.
    """
    shown = _shown_pairs(patient, pairs)
    healthy = _exhibit(patient.copy(), pairs, shown)
    faulty = {}
    for fault in FAULTS:
        log.info("%s", fault.title)
        faulty[fault.name] = _exhibit(fault.infect(patient.copy()), pairs, shown)
    return Museum(healthy, faulty, len(pairs))


def _exhibit(patient: Patient, pairs: Sequence[Pair], shown: Sequence[Pair]) -> Exhibit:
    texts = translate_in_order(patient, pairs)
    bleu = score(texts, references_of(pairs), metrics=("bleu",))["bleu"].score
    widened = [widen(patient.batch(), columns) for columns in PADDINGS]
    losses = [loss_and_gradient(patient, batch) for batch in widened]
    return Exhibit(bleu, examine(patient), picture(patient, shown), losses)


def translate_in_order(patient: Patient, pairs: Sequence[Pair]) -> list[str]:
    """Translate greedily in batches of 50 as the pairs come, so that batches have padding.

    The translator itself puts sentences of like length together, where little is padded and some
    faults do not show.
    """
    options = patient.translator.options(beam_size=1)
    found = []
    for start in range(0, len(pairs), BATCH):
        batch = patient.batch(pairs[start : start + BATCH])
        decoding = patient.translator.decoding(batch.source_BS, batch.source_mask_BS)
        found += [patient.translator.target.decode(h.tokens) for [h] in greedy(decoding, options)]
    return found


def picture(patient: Patient, pairs: Sequence[Pair]) -> Part:
    """Return the first sentence's translation with all weights of its row of the batch."""
    translator = patient.translator
    batch = patient.batch(pairs)
    decoding = translator.decoding(batch.source_BS, batch.source_mask_BS)
    [found] = greedy(decoding, translator.options(beam_size=1))[0]
    # The search keeps no weights on padding; the same pieces once more show them.
    steps = min(_MOST_ROWS, len(found.tokens) + 1)
    inputs_BT = torch.full((len(batch), steps), translator.options().bos, device=translator.device)
    inputs_BT[:, 1:] = torch.tensor(found.tokens[: steps - 1], device=translator.device)
    weights_BTS = step_through(patient, replace(batch, inputs_BT=inputs_BT)).weights_BTS
    pieces = [*translator.target.pieces(found.tokens), "</s>"]
    source = translator.source.encode(pairs[0].source)
    padding = ["<pad>"] * (batch.source_BS.shape[1] - len(source) - 1)
    return Part(
        source=pairs[0].source,
        source_pieces=[*translator.source.pieces(source), "</s>", *padding],
        target_pieces=pieces[:steps],
        text=translator.target.decode(found.tokens),
        score=found.score,
        log_prob=found.log_prob,
        finished=found.finished,
        weights=None if weights_BTS is None else weights_BTS[0].cpu(),
    )


def _shown_pairs(patient: Patient, pairs: Sequence[Pair]) -> list[Pair]:
    """Return a short sentence that the model translates well, and one that is much longer."""
    chrf = sentence_chrf(translate_in_order(patient, pairs), references_of(pairs))
    sizes = [len(patient.translator.source.encode(pair.source)) for pair in pairs]
    short = [n for n, pair in enumerate(pairs) if len(pair.source.split()) in _WORDS]
    best = min(short or range(len(pairs)), key=lambda n: (-round(chrf[n], 6), sizes[n]))
    wanted = sizes[best] + _MORE_PIECES
    neighbour = min(range(len(pairs)), key=lambda n: abs(sizes[n] - wanted))
    return [pairs[best], pairs[neighbour]]
