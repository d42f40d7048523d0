"""The wing that explains, compares and draws models; the core never imports it."""

from __future__ import annotations

import math
import re
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any, Literal, TypeAlias

from seq2seq.wings import offer

# How contributions of source pieces are computed (seq2seq/analysis/attribution.py).
Method: TypeAlias = Literal["gradient", "integrated", "occlusion"]


@offer
def _heatmaps() -> ModuleType:
    from seq2seq.analysis import heatmaps

    return heatmaps


@offer
def _report() -> ModuleType:
    from seq2seq.analysis import report

    return report


def to_json(value: Any) -> Any:
    """Return a value in types that JSON has; a dataclass becomes an object of its fields.

    Names of fields lose the suffix of their shape; metadata {"json": False} leaves a field out. A
    tensor is {"shape", "data"}; each of its numbers has the fewest digits that are exact, and null
    stands for minus infinity. A NumPy array becomes lists.
    """
    if is_dataclass(value):
        shown = [field.name for field in fields(value) if field.metadata.get("json", True)]
        return {re.sub(r"_[A-Z]+$", "", name): to_json(getattr(value, name)) for name in shown}
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if hasattr(value, "numpy"):
        return {"shape": list(value.shape), "data": _data(value.numpy())}
    return value.tolist() if hasattr(value, "tolist") else value


def _data(values: Any) -> Any:
    if values.ndim > 1:
        return [_data(row) for row in values]
    if values.dtype == bool:
        return values.tolist()
    # The shortest text of a 32-bit number is half as long as that of the same number in 64 bits.
    return [float(str(number)) if number > -math.inf else None for number in values]
