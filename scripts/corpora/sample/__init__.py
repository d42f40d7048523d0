"""The generator of data/sample: a synchronous Spanish-English grammar with gold word alignments."""

from .generate import MAX_WORDS, MIN_WORDS, format_pair, generate, write_sample
from .tokens import Pair

__all__ = [
    "MAX_WORDS",
    "MIN_WORDS",
    "Pair",
    "format_pair",
    "generate",
    "write_sample",
]
