"""A synchronous Spanish-English grammar: sentence pairs with gold word alignments."""

from .generate import MAX_WORDS, MIN_WORDS, SampleSummary, format_pair, generate, write_sample
from .tokens import Pair, words

__all__ = [
    "MAX_WORDS",
    "MIN_WORDS",
    "Pair",
    "SampleSummary",
    "format_pair",
    "generate",
    "words",
    "write_sample",
]
