"""What passes through the modules of a model while it works.

A forward hook is PyTorch's own way to listen: the model runs as it always does, and knows nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass(frozen=True)
class Call:
    """One call of a module: what it was given and what it gave."""

    inputs: tuple[Any, ...]
    output: Any


Heard = dict[nn.Module, list[Call]]


@contextlib.contextmanager
def listening(*modules: nn.Module | None) -> Iterator[Heard]:
    """Yield the calls of each module, in their order, which fill while the context lasts.

    A module that a model does not have is given as None and left out.
    """
    heard: Heard = {module: [] for module in modules if module is not None}

    def note(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        heard[module].append(Call(inputs, output))

    handles = [module.register_forward_hook(note) for module in heard]
    try:
        yield heard
    finally:
        for handle in handles:
            handle.remove()
