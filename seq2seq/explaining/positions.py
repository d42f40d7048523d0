"""The table of a step: a row a source position, with scores before and after the mask and weights.

Legend: S source positions, padding included, N heads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from seq2seq.explaining.explanation import Explanation, Looked
from seq2seq.explaining.signs import number, piece_name

SHOWN = 16  # rows at most
_HEADS = 8  # columns of several heads at most


@dataclass(frozen=True)
class Columns:
    """A table before it is drawn; a heading that begins with `>` is of numbers."""

    headings: list[str]
    rows: list[list[str]]
    sums: list[str] | None = None


def choose(explanation: Explanation, looked: Looked) -> tuple[list[int], list[int]]:
    """Return the positions that are shown, in their order, and those that are left out.

    Of a long sentence the heaviest are shown, and the first of padding.
    """
    total, real = len(explanation.source.pieces), explanation.source.length
    if total <= SHOWN:
        return list(range(total)), []
    order = looked.mean_weights_S[:real].argsort(descending=True, stable=True).tolist()
    shown = sorted([*order[: SHOWN - 1], real])
    return shown, [place for place in range(total) if place not in set(shown)]


def position_tables(
    explanation: Explanation, looked: Looked, shown: list[int]
) -> Iterator[Columns]:
    """Yield one table of a single head, or one of scores and one of weights of several."""
    names = [
        [str(place + 1), piece_name(explanation.source.pieces[place].piece)] for place in shown
    ]
    bars = ["█" * round(20 * float(looked.mean_weights_S[place])) for place in shown]
    if looked.scores_S.dim() == 1:
        yield _single(explanation, looked, shown, names, bars)
    else:
        yield _scores(explanation, looked, shown, names)
        yield _weights(looked, shown, names, bars)


def _single(
    explanation: Explanation,
    looked: Looked,
    shown: list[int],
    names: list[list[str]],
    bars: list[str],
) -> Columns:
    masked_S = explanation.masked(looked.scores_S)
    rows = [
        [
            *name,
            number(looked.scores_S[place]),
            number(masked_S[place]),
            f"{looked.weights_S[place]:.4f}",
            bar,
        ]
        for place, name, bar in zip(shown, names, bars, strict=True)
    ]
    headings = [">place", "piece", ">score", ">after mask", ">weight", ""]
    total = f"{looked.weights_S.double().sum():.6f}"
    return Columns(headings, rows, ["", "sum", "", "", total, ""])


def _scores(
    explanation: Explanation, looked: Looked, shown: list[int], names: list[list[str]]
) -> Columns:
    scores_NS = looked.scores_S[:_HEADS]
    real = explanation.source.mask_S
    rows = [
        [
            *name,
            *(number(score) if real[place] else f"{number(score)} → -inf"
              for score in scores_NS[:, place]),
        ]
        for place, name in zip(shown, names, strict=True)
    ]  # fmt: skip
    return Columns([">place", "piece", *(f">score {n + 1}" for n in range(len(scores_NS)))], rows)


def _weights(looked: Looked, shown: list[int], names: list[list[str]], bars: list[str]) -> Columns:
    weights_NS = torch.cat([looked.weights_S[:_HEADS], looked.mean_weights_S.unsqueeze(0)])
    rows = [
        [*name, *(f"{weight:.4f}" for weight in weights_NS[:, place]), bar]
        for place, name, bar in zip(shown, names, bars, strict=True)
    ]
    heads = [f">weight {n + 1}" for n in range(len(weights_NS) - 1)]
    sums = [f"{weights_S.double().sum():.6f}" for weights_S in weights_NS]
    return Columns([">place", "piece", *heads, ">mean", ""], rows, ["", "sum", *sums, ""])


def notes(explanation: Explanation, looked: Looked, left: list[int]) -> Iterator[str]:
    """Yield what the tables leave out, and what the mask is for."""
    total, real = len(explanation.source.pieces), explanation.source.length
    scores_NS = looked.scores_S.view(-1, total)
    if left:
        rest = float(looked.mean_weights_S[left].sum())
        few = f"the {SHOWN - 1} heaviest of {real}" if real >= SHOWN else f"all {real}"
        yield (
            f"Shown are {few} pieces and one position of padding; the "
            f"{len(left)} positions left out weigh {rest:.4f} together."
        )
    if len(scores_NS) > _HEADS:
        yield f"Shown are the first {_HEADS} heads of {len(scores_NS)}; the mean is of all."
    unmasked_S = scores_NS.softmax(-1).mean(0)
    yield (
        f"Without the mask the {total - real} positions of padding would take "
        f"{float(unmasked_S[real:].sum()):.4f} of the weight; with it exactly 0."
    )
