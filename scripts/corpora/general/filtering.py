"""Filtering of sentence pairs by the cross-entropy of two models of opposite directions.

A pair that both models find unlikely is probably no translation. Dual conditional cross-entropy
(Junczys-Dowmunt 2018, arXiv 1809.00197) adds the difference of the two to their mean. It is left
out here: with it, more translations are lost for the same number of wrong pairs (docs/corpora.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from tqdm import tqdm

from corpora.general.text import is_translation
from seq2seq import Translator
from seq2seq.config import CorpusConfig
from seq2seq.data.cleaning import normalize_pair
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import write_lines
from seq2seq.inference.text import Part

_WINDOW = 4000  # pairs that are scored together
_LONGEST = 4  # times as many characters as the other side has, of texts that are not short
_KEPT, _UNLIKELY, _RATIO, _LANGUAGE = "kept", "unlikely", "much longer on one side", "untranslated"


def write_filtered(
    corpus: str, models: tuple[str, str], output: Path, *, most: float, dropped: Path | None = None
) -> str:
    """Write the Spanish-English pairs with a score (`scored`) of at most `most`; return the counts.

    The models translate from Spanish and from English. Pairs that are much longer on one side, or
    are not translated (`is_translation`), are dropped unscored. Into `dropped` go the lines score,
    Spanish, English of those that the score drops, the worst first. Raises DataError for files
    that cannot be read or written, and if no pair is kept.
    """
    counts: Counter[str] = Counter()
    kept, bad = [], []
    pairs = map(normalize_pair, read_corpus(CorpusConfig(path=corpus)))
    for pair, score in scored(_checked(pairs, counts), models):
        counts[_KEPT if score <= most else _UNLIKELY] += 1
        if score <= most:
            kept.append(f"{pair.source}\t{pair.target}")
        else:
            bad.append((score, pair))
    if not kept:
        raise DataError(f"{corpus}: no pair has a score of at most {most}; raise --most")
    write_lines(output, kept)
    if dropped:
        bad.sort(key=lambda each: -each[0])
        write_lines(dropped, [f"{score:.2f}\t{p.source}\t{p.target}" for score, p in bad])
    return f"{output}: {', '.join(f'{reason} {counts[reason]:,}' for reason in sorted(counts))}"


def scored(pairs: Iterable[Pair], models: tuple[str, str]) -> Iterator[tuple[Pair, float]]:
    """Yield each pair with the mean of the cross-entropies of one side given the other, both ways.

    They are in nats for each piece.
    """
    forward, backward = (Translator.load(model, precision="int8") for model in models)
    rest = iter(pairs)
    with tqdm(unit=" pairs", disable=None) as bar:
        while window := list(islice(rest, _WINDOW)):
            spanish, english = [pair.source for pair in window], [pair.target for pair in window]
            ours, theirs = (
                forward.force_decode(spanish, english),
                backward.force_decode(english, spanish),
            )
            for pair, one, other in zip(window, ours, theirs, strict=True):
                yield pair, (_cross_entropy(one) + _cross_entropy(other)) / 2
            bar.update(len(window))


def _cross_entropy(part: Part) -> float:
    return -part.log_prob / len(part.target_pieces)


def _checked(pairs: Iterable[Pair], counts: Counter[str]) -> Iterator[Pair]:
    """Yield the pairs that are worth scoring; count the others."""
    for pair in pairs:
        short, long = sorted((len(pair.source), len(pair.target)))
        if long > _LONGEST * (short + 10):
            counts[_RATIO] += 1
        elif not is_translation(pair.source, pair.target):
            counts[_LANGUAGE] += 1
        else:
            yield pair
