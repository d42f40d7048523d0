"""Attentional sequence-to-sequence translation: train, translate, evaluate.

The public names are imported when first used, so that `import seq2seq` is fast.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from seq2seq.errors import missing_package
from seq2seq.version import VERSION

if TYPE_CHECKING:
    from seq2seq.config import load_config
    from seq2seq.evaluation.evaluate import evaluate
    from seq2seq.inference.required import Glossary
    from seq2seq.inference.translator import Translator
    from seq2seq.pipeline import train

__version__ = VERSION
__all__ = ["Glossary", "Translator", "__version__", "evaluate", "load_config", "train"]

_HOMES = {
    "Glossary": "seq2seq.inference.required",
    "Translator": "seq2seq.inference.translator",
    "evaluate": "seq2seq.evaluation.evaluate",
    "load_config": "seq2seq.config",
    "train": "seq2seq.pipeline",
}

# The wings register modules for the core (seq2seq.wings), without importing them yet.
with suppress(ImportError):
    from seq2seq import analysis  # noqa: F401
with suppress(ImportError):
    from seq2seq import serving  # noqa: F401


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'seq2seq' has no attribute '{name}'")
    try:
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if line := missing_package(error):
            raise ImportError(line, name=error.name) from error
        raise
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
