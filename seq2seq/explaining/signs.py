"""Pieces, weights and vectors in a few signs.

Legend: S source positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_HEAVIEST = 3
_LIGHT = 0.005  # what two digits show as nothing
_BARS = " ▁▂▃▄▅▆▇█"


def piece_name(piece: str) -> str:
    """Return a piece as a person reads it."""
    return {"</s>": "(end)", "<s>": "(start)", "<pad>": "(padding)"}.get(piece, piece)


def heaviest(names: Sequence[str], weights_S: Tensor) -> str:
    """Return the heaviest pieces or words with their weights, heaviest first."""
    order = weights_S[: len(names)].argsort(descending=True, stable=True).tolist()
    heavy = [place for place in order if weights_S[place] >= _LIGHT][:_HEAVIEST]
    return "  ".join(f"{piece_name(names[place])} {weights_S[place]:.2f}" for place in heavy)


def bars(weights_S: Tensor) -> str:
    """Return a bar for each weight, one sign wide."""
    return "".join(_BARS[round(float(weight) * (len(_BARS) - 1))] for weight in weights_S)


def vector(values: Tensor) -> str:
    """Return the size of a vector and its first numbers."""
    # Adding 0 makes 0 of what would be shown as -0.
    first = ", ".join(f"{value:.3f}" for value in values[:4] + 0.0)
    return f"[{len(values)}]  ({first}{', ...' if len(values) > 4 else ''})"


def shape(values: Tensor) -> str:
    """Return the sizes of a tensor."""
    return " x ".join(map(str, values.shape))


def number(value: Tensor) -> str:
    """Return a score; what the mask has hidden is minus infinity."""
    return "-inf" if value == -torch.inf else f"{value:.4f}"
