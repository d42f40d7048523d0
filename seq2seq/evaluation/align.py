"""Align a corpus by the attention of a model that is forced to produce its translations."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal

from seq2seq.data.corpus import Pair
from seq2seq.data.grammar.tokens import words
from seq2seq.errors import DataError
from seq2seq.evaluation.alignment import Split, links, links_above, word_weights
from seq2seq.evaluation.gold import Gold, Links, parse_gold, read_gold
from seq2seq.evaluation.symmetrization import SYMMETRIZATIONS
from seq2seq.inference.lines import normalize_line
from seq2seq.inference.translation import Part
from seq2seq.inference.translator import Translator

log = logging.getLogger(__name__)

Method = Literal["argmax", "threshold"]

# spaces: what white space separates; marks: each punctuation mark is a word of its own too.
WORDS: dict[str, Split] = {"spaces": str.split, "marks": words}
THRESHOLD = 0.3


def align(
    translator: Translator,
    pairs: Sequence[Pair],
    *,
    split: Split = str.split,
    method: Method = "argmax",
    threshold: float = THRESHOLD,
) -> list[Links]:
    """Return for each pair the links between its words, by forced decoding.

    argmax: each target word has its heaviest source word; threshold: all links of at least this
    weight (word_weights). Raises DataError for a model without attention.
    """
    parts = translator.force([pair.source for pair in pairs], [pair.target for pair in pairs])
    return [links_of(part, split=split, method=method, threshold=threshold) for part in parts]


def links_of(
    part: Part, *, split: Split, method: Method = "argmax", threshold: float = THRESHOLD
) -> Links:
    """Return the links of one translation; see align."""
    weights = word_weights(part, split)
    chosen = links(weights) if method == "argmax" else links_above(weights, threshold)
    return frozenset(chosen)


def align_both(
    translator: Translator,
    reverse: Translator,
    pairs: Sequence[Pair],
    *,
    split: Split = str.split,
    method: Method = "argmax",
    threshold: float = THRESHOLD,
) -> dict[str, list[Links]]:
    """Return the alignments of a model, of one of the opposite direction, and of both together.

    Their names are forward, reverse and those of SYMMETRIZATIONS; all links are (source, target)
    words of the pairs as they are given.
    """
    languages = [(t.config.data.source_language, t.config.data.target_language)
                 for t in (translator, reverse)]  # fmt: skip
    if languages[1] != languages[0][::-1]:
        log.warning(
            "the reverse model translates %s to %s by its data.source_language and "
            "data.target_language, the other one %s to %s",
            *languages[1], *languages[0],
        )  # fmt: skip
    turned = [Pair(pair.target, pair.source) for pair in pairs]
    forward = align(translator, pairs, split=split, method=method, threshold=threshold)
    against = align(reverse, turned, split=split, method=method, threshold=threshold)
    backward = [frozenset((source, target) for target, source in found) for found in against]
    both = list(zip(forward, backward, strict=True))
    joined = {name: [join(*pair) for pair in both] for name, join in SYMMETRIZATIONS.items()}
    return {"forward": forward, "reverse": backward, **joined}


def gold_of(
    pairs: Sequence[Pair], path: str | None = None, *, split: Split, first: int = 0
) -> list[Gold] | None:
    """Return the gold links of each pair: of a file, else those the corpus came with, else None.

    Raises DataError for links that cannot be read, are outside the sentences or are too few.
    """
    if path is not None:
        gold = read_gold(path, first=first)
        if len(gold) != len(pairs):
            raise DataError(f"{path}: {len(gold)} lines of links for {len(pairs)} sentence pairs")
    elif all(pair.alignment is not None for pair in pairs):
        gold = [
            parse_gold(str(pair.alignment), f"pair {number}", first=first)
            for number, pair in enumerate(pairs, start=1)
        ]
    else:
        return None
    if not any(line.possible for line in gold):
        raise DataError(f"{path or 'the test set'}: no gold links at all; leave the gold out")
    for pair, line in zip(pairs, gold, strict=True):
        line.check(*(len(split(normalize_line(side))) for side in (pair.source, pair.target)))
    return gold
