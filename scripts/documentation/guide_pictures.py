"""Draw the figures of docs/attention.md from es-en; its three diagrams are SVG files.

    python scripts/documentation/guide_pictures.py [DIR]

Legend: S source positions, padding included, T steps, A size of the additive score.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from seq2seq.analysis.explain import explain
from seq2seq.analysis.explanation import DecoderStep, Explanation
from seq2seq.analysis.heatmaps import piece_label
from seq2seq.analysis.plots import new_figure, write_figure
from seq2seq.inference.translator import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGES = Path(__file__).parents[2] / "docs/images"
SENTENCE = "A mi hermana le gustan los libros viejos."
STEP = 5  # which writes "old"
BLUE, ORANGE, GREY = "#2166ac", "#d6604d", "#bbbbbb"
SHOWN = 40  # components of the additive score


def labels_of(found: Explanation) -> list[str]:
    """Return the names of the source positions."""
    return [piece_label(piece.piece) for piece in found.source.pieces]


def attention_of(step: DecoderStep) -> tuple[Tensor, Tensor]:
    """Return scores, before the mask, and weights of a step, [S] each."""
    assert step.attention
    return step.attention.scores_S, step.attention.weights_S


def draw_sums(found: Explanation) -> Figure:
    """Draw the weights of all steps, with the sum of each row and column."""
    size = found.source.length
    weights_TS = torch.stack([attention_of(step)[1] for step in found.steps]).numpy()[:, :size]
    figure = new_figure(7.6, 4.1)
    axes = figure.subplots()
    axes.imshow(weights_TS, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(size), labels_of(found)[:size], rotation=60, ha="left")
    axes.set_yticks(range(len(found.steps)), [piece_label(s.writes.piece) for s in found.steps])
    axes.xaxis.tick_top()
    for row, total in enumerate(weights_TS.sum(1)):
        axes.text(size - 0.3, row, f"{total:.2f}", va="center", color=BLUE, weight="bold")
    for column, total in enumerate(weights_TS.sum(0)):
        axes.text(column, len(weights_TS) - 0.2, f"{total:.2f}", ha="center", color="#777777")
    axes.text(size - 0.3, -0.9, "sum", color=BLUE, weight="bold")
    return figure


def draw_mask(found: Explanation) -> Figure:
    """Draw the weights of a step as a softmax without and with the mask gives them."""
    scores_S, masked_S = attention_of(found.steps[STEP - 1])
    figure = new_figure(7.6, 3.2)
    padding = np.arange(len(scores_S)) >= found.source.length
    panels = figure.subplots(1, 2, sharey=True)
    titles = "softmax of all scores", "scores of padding replaced by -inf"
    for axes, weights_S, title in zip(panels, (scores_S.softmax(0), masked_S), titles, strict=True):
        colors = [ORANGE if pad else BLUE for pad in padding]
        axes.bar(range(len(weights_S)), weights_S.numpy(), color=colors)
        axes.set_xticks(range(len(weights_S)), labels_of(found), rotation=90, fontsize=8)
        axes.set_title(title, fontsize=10)
        axes.text(0.02, 0.9, f"padding: {weights_S[padding].sum():.2f}", color=ORANGE,
                  transform=axes.transAxes)  # fmt: skip
    panels[0].set_ylabel("weight")
    return figure


def draw_scale() -> Figure:
    """Draw the largest of ten weights for random queries and keys of growing size."""
    rng, sizes = np.random.default_rng(1), [4, 16, 64, 256, 1024]
    figure = new_figure(6.4, 3.2)
    axes = figure.subplots()
    for color, label, power in ((ORANGE, "q·k", 0.0), (BLUE, "q·k / √d", 0.5)):
        largest = []
        for size in sizes:
            queries, keys = rng.normal(size=(400, 1, size)), rng.normal(size=(400, 10, size))
            scores = (queries * keys).sum(-1) / size**power
            largest.append(torch.from_numpy(scores).softmax(-1).amax(-1).numpy())
        low, median, high = np.percentile(largest, [10, 50, 90], axis=1)
        axes.plot(sizes, median, "o-", color=color, label=label)
        axes.fill_between(sizes, low, high, color=color, alpha=0.15, linewidth=0)
    axes.axhline(0.1, color=GREY, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, map(str, sizes))
    axes.set_xlabel("size of query and key, d")
    axes.set_ylabel("largest of 10 weights")
    axes.set_ylim(0, 1.02)
    axes.legend(loc="center right")
    return figure


def draw_additive(found: Explanation) -> Figure:
    """Draw the additive score of a step: two projections, their sum through tanh, and v."""
    parameters, step = found.parameters, found.steps[STEP - 1]
    weight = {letter: parameters[name] for letter, name in found.formula.letters.items()}
    assert found.source.remembered_SA is not None
    size = found.source.length
    query_A = (weight["W1"] @ step.query_Q).numpy()
    keys_SA = found.source.remembered_SA[:size].numpy()
    hidden_SA, v_A = np.tanh(query_A + keys_SA), weight["v"].numpy().ravel()
    shown = np.argsort(-np.abs(v_A) * hidden_SA.std(0))[:SHOWN]
    figure = new_figure(8.6, 3.4)
    panels = figure.subplots(1, 4, width_ratios=(3, 3, 3, 2))
    everywhere_SA = np.broadcast_to(query_A, keys_SA.shape)
    images = {
        "W1 q: the same for all": everywhere_SA, "W2 k + b": keys_SA,
        "tanh of the sum": hidden_SA,
    }  # fmt: skip
    for axes, (title, values_SA) in zip(panels, images.items(), strict=False):
        axes.imshow(values_SA[:, shown], cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
        axes.set_title(title, fontsize=9)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel(f"{SHOWN} of {len(v_A)} components", fontsize=8)
    panels[0].set_yticks(range(size), labels_of(found)[:size])
    scores_S, weights_S = (each[:size].numpy() for each in attention_of(step))
    panels[3].barh(range(size), scores_S - scores_S.min(), color=BLUE)
    panels[3].set_title("v·tanh, from the lowest", fontsize=9)
    panels[3].set_yticks(range(size), [f"{weight:.2f}" for weight in weights_S])
    panels[3].yaxis.tick_right()
    panels[3].set_xlabel("weights to the right", fontsize=8)
    panels[3].invert_yaxis()
    panels[3].margins(y=0.01)
    return figure


def draw_all(directory: Path) -> list[Path]:
    """Write all pictures into a directory; return their paths."""
    found = explain(Translator.load("es-en", backend="torch"), SENTENCE)
    figures = {
        "sums": draw_sums(found),
        "mask": draw_mask(found),
        "scale": draw_scale(),
        "additive": draw_additive(found),
    }
    paths = [directory / f"guide-{name}.png" for name in figures]
    for path, figure in zip(paths, figures.values(), strict=True):
        write_figure(figure, path, dots=110)
    return paths


if __name__ == "__main__":
    draw_all(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
