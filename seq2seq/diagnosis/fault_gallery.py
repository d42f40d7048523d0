"""The museum as text, as an HTML page and as pictures."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from seq2seq.data.corpus import Pair
from seq2seq.diagnosis.faults import FAULTS, Fault
from seq2seq.diagnosis.model_checks import Finding, examine, loss_and_gradient
from seq2seq.diagnosis.probe import Probe, step_through, widen
from seq2seq.errors import DataError
from seq2seq.evaluation.alignment import END
from seq2seq.evaluation.evaluate import references_of
from seq2seq.evaluation.metrics import score, sentence_chrf
from seq2seq.evaluation.pages import render
from seq2seq.files import write_atomic
from seq2seq.inference.search import greedy
from seq2seq.inference.text import Part

log = logging.getLogger(__name__)

LOSS = "loss-mean"  # the one fault that has no heat map
BATCH = 50
PADDINGS = (0, 5, 10, 20, 40)
_MOST_ROWS = 14
_WORDS = range(4, 8)  # of the sentence that is shown
_MORE_PIECES = 20  # of its neighbour


@dataclass(frozen=True)
class FaultResult:
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

    healthy: FaultResult
    faulty: dict[str, FaultResult]  # by the name of the fault
    sentences: int

    @property
    def faults(self) -> Mapping[str, Fault]:
        """The faults by their names."""
        return {fault.name: fault for fault in FAULTS}

    @property
    def holds(self) -> bool:
        """Whether the healthy model passes all checks and every fault is caught by one."""
        return not self.healthy.caught_by and all(e.caught_by for e in self.faulty.values())


def tour(probe: Probe, pairs: Sequence[Pair]) -> Museum:
    """Return the museum of a model; pairs are what BLEU is measured on.

    The probe is not changed. Raises DataError for a model without attention.
    """
    shown = _shown_pairs(probe, pairs)
    healthy = _exhibit(probe.copy(), pairs, shown)
    faulty = {}
    for fault in FAULTS:
        log.info("%s", fault.title)
        faulty[fault.name] = _exhibit(fault.infect(probe.copy()), pairs, shown)
    return Museum(healthy, faulty, len(pairs))


def _exhibit(probe: Probe, pairs: Sequence[Pair], shown: Sequence[Pair]) -> FaultResult:
    texts = translate_in_order(probe, pairs)
    bleu = score(texts, references_of(pairs), metrics=("bleu",))["bleu"].score
    widened = [widen(probe.batch(), columns) for columns in PADDINGS]
    losses = [loss_and_gradient(probe, batch) for batch in widened]
    return FaultResult(bleu, examine(probe), picture(probe, shown), losses)


def translate_in_order(probe: Probe, pairs: Sequence[Pair]) -> list[str]:
    """Translate greedily in batches of 50 as the pairs come, so that batches have padding.

    The translator itself puts sentences of like length together, where little is padded and some
    faults do not show.
    """
    options = probe.translator.options(beam_size=1)
    found = []
    for start in range(0, len(pairs), BATCH):
        batch = probe.batch(pairs[start : start + BATCH])
        decoding = probe.translator.decoding(batch.source_BS, batch.source_mask_BS)
        found += [probe.translator.target.decode(h.tokens) for [h] in greedy(decoding, options)]
    return found


def picture(probe: Probe, pairs: Sequence[Pair]) -> Part:
    """Return the first sentence's translation with all weights of its row of the batch."""
    translator = probe.translator
    batch = probe.batch(pairs)
    decoding = translator.decoding(batch.source_BS, batch.source_mask_BS)
    [found] = greedy(decoding, translator.options(beam_size=1))[0]
    # The search keeps no weights on padding; the same pieces once more show them.
    steps = min(_MOST_ROWS, len(found.tokens) + 1)
    inputs_BT = torch.full((len(batch), steps), translator.options().bos, device=translator.device)
    inputs_BT[:, 1:] = torch.tensor(found.tokens[: steps - 1], device=translator.device)
    weights_BTS = step_through(probe, replace(batch, inputs_BT=inputs_BT)).weights_BTS
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


def _shown_pairs(probe: Probe, pairs: Sequence[Pair]) -> list[Pair]:
    """Return a short sentence that the model translates well, and one that is much longer."""
    chrf = sentence_chrf(translate_in_order(probe, pairs), references_of(pairs))
    sizes = [len(probe.translator.source.encode(pair.source)) for pair in pairs]
    short = [n for n, pair in enumerate(pairs) if len(pair.source.split()) in _WORDS]
    best = min(short or range(len(pairs)), key=lambda n: (-round(chrf[n], 6), sizes[n]))
    wanted = sizes[best] + _MORE_PIECES
    neighbour = min(range(len(pairs)), key=lambda n: abs(sizes[n] - wanted))
    return [pairs[best], pairs[neighbour]]


_CELL = 0.2  # inches
_DPI = 120
_NAMES = {END: "(end)", "<pad>": "(pad)"}


def plot_weights(part: Part, path: Path) -> None:
    """Draw the weights of a translation as they are, whether or not rows sum to 1; 1 is darkest.

    A model without attention has no picture. Raises OSError where the file cannot be written.
    """
    from matplotlib.figure import Figure

    if part.weights is None:
        return
    source, target = (
        [_shown(p) for p in side] for side in (part.source_pieces, part.target_pieces)
    )
    size = (1.1 + _CELL * len(source), 0.9 + _CELL * len(target))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.pcolormesh(
        part.weights.numpy(), cmap="Blues", vmin=0, vmax=1, edgecolors="white", linewidth=0.5
    )
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    axes.set_xticks([n + 0.5 for n in range(len(source))], source, rotation=90, fontsize=7)
    axes.set_yticks([n + 0.5 for n in range(len(target))], target, fontsize=7)
    axes.tick_params(length=0)
    figure.savefig(path, dpi=_DPI)


def _shown(piece: str) -> str:
    # A dollar would start mathematics in matplotlib.
    return _NAMES.get(piece, piece.removeprefix("▁") or "▁").replace("$", r"\$")


def plot_losses(museum: Museum, path: Path) -> None:
    """Draw loss and norm of the gradient by columns of padding, healthy and faulty.

    Raises OSError where the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 2.8), layout="constrained")
    sides = figure.subplots(1, 2)
    titles = ("loss (nats a piece)", "norm of the gradient")
    for place, (axes, title) in enumerate(zip(sides, titles, strict=True)):
        for exhibit, name in ((museum.healthy, "healthy"), (museum.faulty[LOSS], "counts padding")):
            values = [pair[place] for pair in exhibit.losses]
            axes.plot(PADDINGS, values, marker="o", markersize=3, label=name)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("more columns of padding", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.set_ylim(bottom=0)
    sides[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=_DPI)


def museum_text(museum: Museum) -> str:
    """Return a line a fault: BLEU, and the checks that catch it."""
    width = max(len(fault.title) for fault in museum.faults.values())
    caught = ", ".join(museum.healthy.caught_by) or "passes all checks"
    lines = [f"{'fault':{width}}   BLEU  caught by",
             f"{'none':{width}}  {museum.healthy.bleu:5.1f}  {caught}"]  # fmt: skip
    for name, exhibit in museum.faulty.items():
        caught = ", ".join(exhibit.caught_by) or "NO CHECK"
        lines.append(f"{museum.faults[name].title:{width}}  {exhibit.bleu:5.1f}  {caught}")
    lines.append(
        f"{museum.sentences} sentences, greedy, batches of 50 in the order of the test set"
    )
    return "\n".join(lines)


def write_museum(folder: Path, museum: Museum, *, run: str, test: str) -> Path:
    """Write faults.html and a picture of each fault; return the page's path.

    Raises DataError where that cannot be.
    """
    path = folder / "faults.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, museum_page(museum, run=run, test=test))
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror})") from None
    plot_weights(museum.healthy.picture, folder / "healthy.png")
    for name, exhibit in museum.faulty.items():
        if name == LOSS:
            plot_losses(museum, folder / f"{name}.png")
        else:
            plot_weights(exhibit.picture, folder / f"{name}.png")
    return path


def museum_page(museum: Museum, *, run: str, test: str) -> str:
    """Return the page; `run` and `test` are the names of what was measured."""
    return render(
        "faults.html",
        healthy=museum.healthy,
        faulty=[(museum.faults[name], result) for name, result in museum.faulty.items()],
        loss_fault=LOSS,
        paddings=PADDINGS,
        run=run,
        sentences=museum.sentences,
        test=test,
    )
