"""The alignment error of a model's attention on the test set."""

from __future__ import annotations

from collections.abc import Sequence

from seq2seq.data.corpus import Pair
from seq2seq.evaluation.align import WORDS, align, gold_of
from seq2seq.evaluation.alignment_error import alignment_error
from seq2seq.inference.translator import Translator


def alignment_error_percent(translator: Translator, pairs: Sequence[Pair]) -> float | None:
    """Return the error rate of the links of forced decoding, as `seq2seq align` counts it.

    None where the model has no attention, or the test set no gold links.
    """
    if translator.config.model.attention.score == "none":
        return None
    gold = gold_of(pairs, split=WORDS["marks"])
    if gold is None:
        return None
    rate = alignment_error(align(translator, pairs, split=WORDS["marks"]), gold).rate
    return None if rate is None else 100 * rate


def check_gold(pairs: Sequence[Pair]) -> None:
    """Raise DataError where the test set has gold links that cannot be used."""
    gold_of(pairs, split=WORDS["marks"])
