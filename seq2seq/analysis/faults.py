"""Famous faults of attentional translators: put into copies of a model, and caught by checks.

Projects and tutorials have had all of them. Each is a subclass of the module that it breaks, or a
function that replaces the correct one. Nothing that translates or trains imports this file.

Legend: B batch, K queries a sentence, S source length, T steps, R rows, E embedding size.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from seq2seq.analysis.heatmaps import attention_figure
from seq2seq.analysis.model_checks import (
    Finding,
    Probe,
    examine,
    loss_and_gradient,
    mean_loss,
    search_greedily,
    step_through,
    widen,
)
from seq2seq.analysis.pages import render
from seq2seq.analysis.plots import write_figure
from seq2seq.data.batching import Batch
from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizer import BOS
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import references_of
from seq2seq.evaluation.metrics import score, sentence_chrf
from seq2seq.files import make_folder, write_atomic
from seq2seq.inference.text import Part, Sentence
from seq2seq.model.attention import Attention, Encoded, FixedContext, Memory
from seq2seq.model.decoder import Decoder, DecoderState, Masks
from seq2seq.model.translation_model import Encoder, TranslationModel

log = logging.getLogger(__name__)

LOSS = "loss-mean"  # the only fault without a heat map
BATCH = 50
PADDINGS = (0, 5, 10, 20, 40)
_MOST_ROWS = 14
_WORDS = range(4, 8)  # of the sentence that is shown
_EXTRA_PIECES = 20  # by which its neighbor is longer
_DOTS = 80  # per inch of a figure


class SoftmaxOverQueries(Attention):
    """The softmax runs over the queries; greedy search has one query per sentence."""

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

    _unrolls = False

    def unroll(self, embedded_TBE: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        self._unrolls = True
        try:
            return super().unroll(embedded_TBE, memory)
        finally:
            self._unrolls = False

    def step(
        self, entering_RX: Tensor, state: DecoderState, memory: Memory, masks: Masks = ()
    ) -> tuple[Tensor, Tensor | None, DecoderState]:
        if not self._unrolls:
            sentences_B = torch.arange(len(memory.mask_BS), device=memory.mask_BS.device)
            rows_R = sentences_B.repeat_interleave(len(entering_RX) // len(sentences_B))
            state = self.start(memory).select(rows_R)
        return super().step(entering_RX, state, memory, masks)


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

    title: str
    inject: Callable[[Probe], Probe]


def _as(kind: type[Attention] | type[Decoder] | type[Encoder]) -> Callable[[Probe], Probe]:
    """Return a function that puts the methods of `kind` into the module that it breaks."""

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


FAULTS: dict[str, Fault] = {
    "softmax-axis": Fault("Softmax over the wrong axis", _as(SoftmaxOverQueries)),
    "no-mask": Fault("No padding mask", _as(NoMask)),
    "length-scale": Fault("Scaled by the length", _as(ScaledByLength)),
    "state-reset": Fault("Decoder state reset at each step", _as(StateReset)),
    "ignores-source": Fault("Attention that ignores the source", _as(IgnoresSource)),
    "reads-padding": Fault("Output that depends on the batch", _as(ReadsPadding)),
    LOSS: Fault(
        "A mean loss that counts padding", lambda p: replace(p, loss=loss_counting_padding)
    ),
}


# --- The gallery: each fault with its BLEU, its findings and its picture


@dataclass(frozen=True)
class FaultResult:
    """The results of a model with a fault, or without one."""

    bleu: float
    findings: dict[str, Finding]
    picture: Part  # a sentence beside a longer one, with its weights on padding
    losses: list[tuple[float, float]]  # loss and gradient norm for each of PADDINGS

    @property
    def caught_by(self) -> list[str]:
        """The checks that fail."""
        return [name for name, found in self.findings.items() if found.passed is False]


@dataclass(frozen=True)
class FaultGallery:
    """The results of the healthy model and of each fault."""

    healthy: FaultResult
    faulty: dict[str, FaultResult]  # by the name of the fault
    sentences: int

    @property
    def all_caught(self) -> bool:
        """Whether the healthy model passes all checks and every fault fails one."""
        return not self.healthy.caught_by and all(f.caught_by for f in self.faulty.values())


def make_gallery(probe: Probe, pairs: Sequence[Pair]) -> FaultGallery:
    """Return the results of every fault in a copy of the probe's model, with BLEU on the pairs.

    The probe is not changed. Raises DataError for a model without attention.
    """
    shown = _shown_pairs(probe, pairs)
    healthy = _measure(probe.copy(), pairs, shown)
    faulty = {}
    for name, fault in FAULTS.items():
        log.info("%s", fault.title)
        faulty[name] = _measure(fault.inject(probe.copy()), pairs, shown)
    return FaultGallery(healthy, faulty, len(pairs))


def _measure(probe: Probe, pairs: Sequence[Pair], shown: Sequence[Pair]) -> FaultResult:
    hypotheses = translate_in_order(probe, pairs)
    language = probe.translator.config.data.target_language
    scores = score(hypotheses, references_of(pairs), language, metrics=("bleu",))
    losses = [loss_and_gradient(probe, widen(probe.batch(), columns)) for columns in PADDINGS]
    return FaultResult(scores["bleu"].score, examine(probe), picture(probe, shown), losses)


def translate_in_order(probe: Probe, pairs: Sequence[Pair]) -> list[str]:
    """Translate greedily in batches of 50 in the given order, so that the batches have padding.

    The translator itself batches sentences of similar length, where there is little padding and
    some faults do not show.
    """
    found = []
    for start in range(0, len(pairs), BATCH):
        hypotheses = search_greedily(probe, probe.batch(pairs[start : start + BATCH]))
        found += [probe.translator.target.decode(each.tokens) for each in hypotheses]
    return found


def picture(probe: Probe, pairs: Sequence[Pair]) -> Part:
    """Return the translation of the first sentence with its weights, those on padding included."""
    translator = probe.translator
    batch = probe.batch(pairs)
    found = search_greedily(probe, batch)[0]
    # The search drops weights on padding; decoding the same pieces again keeps them.
    steps = min(_MOST_ROWS, len(found.tokens) + 1)
    inputs_BT = torch.full((len(batch), steps), BOS, device=probe.device)
    inputs_BT[:, 1:] = torch.tensor(found.tokens[: steps - 1], device=probe.device)
    weights_BTS = step_through(probe, replace(batch, inputs_BT=inputs_BT)).weights_BTS
    source = Sentence(pairs[0].source, translator.source.encode(pairs[0].source))
    [part] = translator.parts(source, [found])
    padding = ["<pad>"] * (batch.source_BS.shape[1] - len(part.source_pieces))
    return replace(
        part,
        source_pieces=[*part.source_pieces, *padding],
        target_pieces=part.target_pieces[:steps],
        weights=None if weights_BTS is None else weights_BTS[0].cpu().numpy(),
    )


def _shown_pairs(probe: Probe, pairs: Sequence[Pair]) -> list[Pair]:
    """Return a short sentence that the model translates well, and one that is much longer."""
    chrf = sentence_chrf(translate_in_order(probe, pairs), references_of(pairs))
    sizes = [len(probe.translator.source.encode(pair.source)) for pair in pairs]
    short = [n for n, pair in enumerate(pairs) if len(pair.source.split()) in _WORDS]
    best = min(short or range(len(pairs)), key=lambda n: (-round(chrf[n], 6), sizes[n]))
    wanted = sizes[best] + _EXTRA_PIECES
    neighbor = min(range(len(pairs)), key=lambda n: abs(sizes[n] - wanted))
    return [pairs[best], pairs[neighbor]]


def gallery_text(gallery: FaultGallery) -> str:
    """Return a line for each fault: BLEU, and the checks that catch it."""
    width = max(len(fault.title) for fault in FAULTS.values())
    caught = ", ".join(gallery.healthy.caught_by) or "passes all checks"
    lines = [f"{'fault':{width}}   BLEU  caught by",
             f"{'none':{width}}  {gallery.healthy.bleu:5.1f}  {caught}"]  # fmt: skip
    for name, result in gallery.faulty.items():
        caught = ", ".join(result.caught_by) or "NO CHECK"
        lines.append(f"{FAULTS[name].title:{width}}  {result.bleu:5.1f}  {caught}")
    lines.append(
        f"{gallery.sentences} sentences, greedy, batches of 50 in the order of the test set"
    )
    return "\n".join(lines)


def write_gallery(folder: Path, gallery: FaultGallery, *, run: str, test: str) -> Path:
    """Write faults.html and the heat map of each fault that has one; return the page's path.

    `run` and `test` are the names it shows. Raises DataError if the folder cannot be written.
    """
    make_folder(folder)
    path = folder / "faults.html"
    page = render(
        "faults.html",
        healthy=gallery.healthy,
        faulty=[(name, FAULTS[name].title, found) for name, found in gallery.faulty.items()],
        loss_fault=LOSS,
        paddings=PADDINGS,
        run=run,
        sentences=gallery.sentences,
        test=test,
    )
    write_atomic(path, page)
    for name, result in {"healthy": gallery.healthy, **gallery.faulty}.items():
        if name != LOSS:
            figure = attention_figure([result.picture])
            write_figure(figure, folder / f"{name}.png", dots=_DOTS)
    return path
