"""Learning curves of runs, and BLEU by source length of systems: the numbers and their pictures."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import references_of
from seq2seq.evaluation.metrics import RESAMPLES, Metric, References, score
from seq2seq.files import check_writable
from seq2seq.languages import language as language_of
from seq2seq.packaged import find_run
from seq2seq.runs.directory import RunDirectory
from seq2seq.runs.logs import Record, read_metrics

if TYPE_CHECKING:
    from matplotlib.figure import Figure


T = TypeVar("T")

log = logging.getLogger(__name__)

SUFFIXES = (".png", ".svg", ".pdf")
_MOST_INCHES = 100.0


def check_picture(path: Path) -> None:
    """Raise DataError for a suffix other than PNG, SVG or PDF, or a path that is not writable."""
    if path.suffix.lower() not in SUFFIXES:
        raise DataError(f"{path}: unknown picture format; use {', '.join(SUFFIXES)}")
    check_writable(path)


def new_figure(width: float, height: float, *, constrained: bool = True) -> Figure:
    """Return an empty figure of this size in inches, or of the largest that can be drawn.

    With `constrained` matplotlib places its axes.
    """
    # Not through pyplot: it needs a display and keeps all figures open.
    from matplotlib.figure import Figure

    size = (min(width, _MOST_INCHES), min(height, _MOST_INCHES))
    return Figure(figsize=size, layout="constrained" if constrained else None)


def write_figure(figure: Figure, file: Path | IO[bytes], *, dots: int = 150) -> None:
    """Write the figure, by the suffix of a path or as PNG, with this many dots per inch.

    Characters that matplotlib's own font lacks are in installed fonts that have them.
    """
    from matplotlib.text import Text

    texts = figure.findobj(Text)
    families = _families_with(frozenset().union(*(text.get_text() for text in texts)))
    for text in texts:
        text.set_fontfamily([*text.get_fontfamily(), *families])
    with warnings.catch_warnings():
        # A character that the font lacks is drawn as a box.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(file, dpi=dots)


@lru_cache
def _families_with(characters: frozenset[str]) -> list[str]:
    """Return installed fonts with the characters that the usual one lacks; log what none has."""
    from matplotlib.font_manager import FontProperties, findfont, findSystemFonts, fontManager
    from matplotlib.ft2font import FT2Font

    def known(path: str) -> set[str]:
        try:
            font = FT2Font(path)
        except (OSError, RuntimeError):  # damaged
            return set()
        return {char for char in missing if font.scalable and font.get_char_index(ord(char))}

    missing = set(filter(str.isprintable, characters))
    missing -= known(findfont(FontProperties()))
    # matplotlib's own list may lack fonts that were installed after it.
    fonts = {path: known(path) for path in (findSystemFonts() if missing else [])}
    families = []
    for path in sorted(fonts, key=lambda p: (-len(fonts[p]), "Regular" not in p, "Serif" in p)):
        if fonts[path] & missing:
            fontManager.addfont(path)
            families.append(FT2Font(path).family_name)
            missing -= fonts[path]
    if missing:
        log.warning(
            "no installed font has characters such as %s, so they are drawn as boxes; install one, "
            "such as the package fonts-noto-cjk for Chinese, Japanese and Korean",
            " ".join(sorted(missing)[:5]),
        )  # fmt: skip
    return families


def plain(text: str) -> str:
    """Return the text as matplotlib draws it: a dollar would begin mathematics.

    matplotlib refuses what UTF-8 cannot encode; it becomes a question mark.
    """
    return text.encode("utf-8", "replace").decode().replace("$", r"\$")


def run_names(runs: list[str]) -> list[str]:
    """Return the directory names of runs, or their paths if those are not unique."""
    names = [Path(run).resolve().name for run in runs]
    return names if len(set(names)) == len(names) else runs


# --- Learning curves


Unit = Literal["steps", "minutes", "tokens"]
# The key of a unit in the records, and the label of its axis.
_UNITS: dict[Unit, tuple[str, str]] = {
    "steps": ("step", "updates"),
    "minutes": ("minutes", "minutes"),
    "tokens": ("tokens", "million target pieces"),
}
_MARKED, _STAR = {"marker": "o", "markersize": 3.5}, {"marker": "*", "markersize": 11}
_DASHED = {"linestyle": "--", "marker": "s", "markersize": 3.5}
# The panel, kind and key of each curve, its label, and its style.
_CURVES: tuple[tuple[int, str, str, str, dict[str, Any]], ...] = (
    (0, "train", "loss", "training", {"alpha": 0.55, "linewidth": 1.2}),
    (0, "validation", "loss", "validation", _MARKED),
    (0, "average", "loss", "", _STAR),
    (1, "validation", "bleu", "BLEU", _MARKED),
    (1, "average", "bleu", "BLEU of the average", {**_STAR, "linestyle": "none"}),
    (1, "validation", "chrf", "chrF", _DASHED),
    (1, "average", "chrf", "chrF of the average", {**_STAR, "linestyle": "none"}),
    (2, "train", "learning_rate", "", {"linewidth": 1.2}),
)


def read_records(run: Path) -> list[Record]:
    """Read the records of a run: of training, validation, and averaged checkpoints.

    The loss of training becomes the cross-entropy in nats per target piece, without label
    smoothing. Raises DataError for a run without records, and for what read_metrics refuses.
    """
    path = RunDirectory(run).metrics
    records = read_metrics(path)
    if not records:
        raise DataError(f"{path}: no records yet; train the run further")
    for record in records:
        if record["kind"] == "train":
            perplexity = record.get("perplexity")
            record["loss"] = math.log(perplexity) if perplexity else None
    return records


def curve(
    records: Sequence[Record], kind: str, key: str, unit: Unit
) -> tuple[list[float], list[float]]:
    """Return steps, minutes or millions of tokens, and values; one that was not finite is nan.

    A validation has no number of tokens; it is interpolated between training records.
    """
    of_unit, train = _UNITS[unit][0], [each for each in records if each["kind"] == "train"]
    found = [each for each in records if each["kind"] == kind and key in each]
    steps, spent = ([0, *(each[name] for each in train)] for name in ("step", of_unit))
    places = [
        record[of_unit] if of_unit in record else np.interp(record["step"], steps, spent)
        for record in found
    ]
    values = [math.nan if record[key] is None else float(record[key]) for record in found]
    return [float(place) / (1e6 if unit == "tokens" else 1) for place in places], values


def plot_training(runs: Sequence[str], path: Path, *, unit: Unit = "steps") -> None:
    """Draw the losses, validation metrics and learning rates of runs.

    The training loss is the cross-entropy without label smoothing (but with dropout), so that it
    is comparable with the validation loss. The suffix selects PNG, SVG or PDF. Raises DataError for
    another suffix and for runs without records.
    """
    from matplotlib.ticker import LogFormatter

    check_picture(path)
    of_runs = [read_records(find_run(run)) for run in runs]
    figure = new_figure(7.5, 7.5)
    panels = losses, metrics, rates = figure.subplots(3, 1, sharex=True, height_ratios=[3, 3, 1.4])
    for number, (run, records) in enumerate(zip(run_names(list(runs)), of_runs, strict=True)):
        for panel, kind, key, name, style in _CURVES:
            x, y = curve(records, kind, key, unit)
            label = name if len(runs) == 1 else f"{plain(run)}: {name}"
            if x:
                panels[panel].plot(x, y, label=name and label, color=f"C{number}", **style)
    losses.set_ylabel("cross-entropy, nats per piece")
    # The right axis shows the same curve as perplexity.
    right = losses.secondary_yaxis("right", functions=(np.exp, np.log))
    right.set_ylabel("perplexity")
    right.set_yscale("log")
    for set_formatter in (right.yaxis.set_major_formatter, right.yaxis.set_minor_formatter):
        set_formatter(LogFormatter(labelOnlyBase=False))  # 20 instead of 2 x 10^1
    metrics.set_ylabel("validation, percent")
    metrics.set_ylim(0, 100)
    rates.set_ylabel("learning rate")
    rates.set_ylim(bottom=0)
    rates.ticklabel_format(axis="y", scilimits=(0, 0))
    rates.set_xlabel(_UNITS[unit][1])
    rates.set_xlim(left=0)
    for axes in panels:
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize="small")
    if len(runs) == 1:
        figure.suptitle(plain(run_names(list(runs))[0]))
    write_figure(figure, path)


# --- BLEU by source length

BOUNDS = (5, 10, 15, 20, 30, 40)  # longest source, in words, of each length bucket


@dataclass(frozen=True)
class LengthBucket:
    """Sentences of a test set whose source has from `shortest` to `longest` words."""

    shortest: int
    longest: int | None  # None: no upper limit
    sentences: tuple[int, ...]  # their indices in the test set, from 0

    def of(self, values: Sequence[T]) -> list[T]:
        """Return the values of its sentences."""
        return [values[n] for n in self.sentences]

    @property
    def label(self) -> str:
        """The lengths as text."""
        if self.longest is None:
            return f"over {self.shortest - 1}"
        if self.longest == self.shortest:
            return str(self.shortest)
        return f"{self.shortest}-{self.longest}"


def fixed_buckets(
    sources: Sequence[str], language: str, bounds: Sequence[int] = BOUNDS
) -> list[LengthBucket]:
    """Return buckets that end at each bound, and one of all longer sentences; none is empty.

    Words are separated by white space, if the language has any. An empty source is in the first
    bucket.
    """
    lengths_N = [language_of(language).count_words(source) for source in sources]
    bucket_N = np.digitize(lengths_N, bounds, right=True)
    shortest = [1, *(bound + 1 for bound in bounds)]
    return [
        LengthBucket(low, high, tuple(inside.tolist()))
        for number, (low, high) in enumerate(zip(shortest, [*bounds, None], strict=True))
        if (inside := np.flatnonzero(bucket_N == number)).size
    ]


def _bleu(texts: Sequence[str], references: References, language: str) -> Metric:
    """Return BLEU with its interval, without one for too few sentences."""
    try:
        return score(texts, references, language, metrics=("bleu",), resamples=RESAMPLES)["bleu"]
    except DataError:
        return score(texts, references, language, metrics=("bleu",))["bleu"]


def plot_length(
    systems: Mapping[str, Sequence[str]],
    pairs: Sequence[Pair],
    path: Path,
    languages: tuple[str, str],
) -> None:
    """Draw corpus BLEU by source length with 95 % bootstrap bands (Koehn 2004).

    `systems` maps names to translations of the pairs' sources. The suffix selects PNG, SVG or PDF.
    Raises DataError for another suffix, a different number of translations, and an empty test set.
    """
    check_picture(path)
    references = references_of(pairs)
    source, target = languages
    groups = fixed_buckets([pair.source for pair in pairs], source)
    x = range(len(groups))
    figure = new_figure(7.5, 4.6)
    axes = figure.subplots()
    for number, (name, hypotheses) in enumerate(systems.items()):
        score(hypotheses, references, target, metrics=())  # raises if their numbers differ
        found = [_bleu(each.of(hypotheses), each.of(references), target) for each in groups]
        color, bleu = f"C{number}", [metric.score for metric in found]
        middle = np.array([metric.mean or metric.score for metric in found])
        half = np.array([metric.interval or 0.0 for metric in found])
        axes.plot(x, bleu, "o-", color=color, label=plain(name))
        axes.fill_between(x, middle - half, middle + half, color=color, alpha=0.18, linewidth=0)
    axes.set_xticks(x, [f"{bucket.label}\n{len(bucket.sentences)}" for bucket in groups])
    axes.set_xlabel("source words (below: sentences)")
    axes.set_ylabel("BLEU, with 95 % bootstrap bands")
    axes.set_ylim(0, 100)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.legend(frameon=False)
    write_figure(figure, path)
