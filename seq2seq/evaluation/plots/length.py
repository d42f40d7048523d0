"""BLEU by source length, of one or several systems in one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError
from seq2seq.evaluation.by_length import bleu_by_length
from seq2seq.evaluation.plots.figure import check_picture, new_figure, plain, save

MOST_SYSTEMS = 10


def plot_length(
    systems: Mapping[str, Sequence[str]], pairs: Sequence[Pair], path: Path, *, buckets: int = 6
) -> None:
    """Draw corpus BLEU by source length with bands of 95 percent (seq2seq.evaluation.by_length).

    `systems` are translations of the pairs' sources by the name of who made them. The suffix
    chooses PNG, SVG or PDF. Raises DataError for another suffix, translations that do not fit the
    pairs, and more than 10 systems.
    """
    check_picture(path)
    if len(systems) > MOST_SYSTEMS:
        raise DataError(f"{len(systems)} systems; a picture holds {MOST_SYSTEMS}")
    sources = [pair.source for pair in pairs]
    references = [(pair.target, *pair.references) for pair in pairs]
    figure = new_figure(7.5, 4.6)
    axes = figure.subplots()
    for number, (name, hypotheses) in enumerate(systems.items()):
        found = bleu_by_length(sources, hypotheses, references, buckets=buckets)
        x = range(len(found))
        color = f"C{number}"
        axes.plot(x, [b.bleu for b in found], "o-", color=color, label=plain(name))
        low, high = [b.low for b in found], [b.high for b in found]
        axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)
    labels = [f"{_span(b.shortest, b.longest)}\n{b.sentences}" for b in found]
    axes.set_xticks(x, labels)
    axes.set_xlabel("source words (below: sentences)")
    axes.set_ylabel("BLEU, with 95 % of the resamples")
    axes.set_ylim(0, 100)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.legend(frameon=False)
    save(figure, path)


def _span(shortest: int, longest: int) -> str:
    return str(shortest) if shortest == longest else f"{shortest}-{longest}"
