"""Modules that the wings offer to the core; the core works without them.

A wing registers its modules when it is imported; `seq2seq` imports each wing that is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

WINGS = ("seq2seq.analysis", "seq2seq.serving")
_offers: dict[str, Callable[[], ModuleType]] = {}


def offer(load: Callable[[], ModuleType]) -> Callable[[], ModuleType]:
    """Register a module by the name of the function that imports it, after its underscore."""
    _offers[load.__name__.lstrip("_")] = load
    return load


def offered(name: str, wing: str) -> Any:
    """Return a module that a wing has registered; raise ModuleNotFoundError without the wing."""
    if name not in _offers:
        raise ModuleNotFoundError(f"No module named '{wing}'", name=wing)
    return _offers[name]()
