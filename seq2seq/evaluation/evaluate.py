"""Score runs on a test set."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from seq2seq.config import CorpusConfig, DataConfig
from seq2seq.data.corpus import Pair, count, read_corpus
from seq2seq.data.sources import FEWEST_PAIRS, REVERSED_PAIRS
from seq2seq.errors import DataError
from seq2seq.evaluation.metrics import LABELS, Metric, score
from seq2seq.files import check_writable, write_atomic
from seq2seq.inference.protocol import SearchOptions
from seq2seq.inference.text import Translation
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import LINK
from seq2seq.processes import SERIAL, Parallelism

if TYPE_CHECKING:
    from seq2seq.evaluation.challenge import Challenge
    from seq2seq.evaluation.robustness import Robustness

log = logging.getLogger(__name__)

WINDOW = 500  # sentences that a CPU sorts by length and translates together
_TOKENIZED = 100  # a warning is due when so many translations end as tokenized text does
_COMPARED, _MOST_CHARS = 30, 200  # pairs, and characters of a side, to find out the direction


@dataclass(frozen=True)
class Evaluation:
    """Translations in the order of the test set, and their scores."""

    translations: list[Translation]
    metrics: dict[str, Metric]
    beam: int
    language: str  # of the translations
    tables: dict[str, Robustness | Challenge] = field(default_factory=dict)  # by their JSON keys

    @property
    def hypotheses(self) -> list[str]:
        """The texts of the translations, one line each."""
        return [translation.line for translation in self.translations]

    @property
    def split(self) -> int:
        """The number of sources that were translated in several parts."""
        return sum(len(translation.parts) > 1 for translation in self.translations)

    def as_text(self, path: Path) -> str:
        """Return a line for each metric with its signature, one about the test set, and tables."""
        lines = [
            f"{LABELS[name]} = {metric.shown}   {metric.signature}"
            for name, metric in self.metrics.items()
        ]
        split = f"{count(len(self.translations), 'line')} ({self.split} in several sentences)"
        summary = f"{split}, beam {self.beam}; hypotheses: {path}"
        tables = [f"\n{found.as_text()}" for found in self.tables.values()]
        return "\n".join([*lines, summary, *tables])

    def as_json(self, path: Path) -> str:
        """Return the same as a JSON object."""
        metrics = {name: metric.as_dict() for name, metric in self.metrics.items()}
        counts = {"sentences": len(self.translations), "split": self.split, "beam": self.beam}
        tables = {name: found.as_dict() for name, found in self.tables.items()}
        return json.dumps({**counts, **metrics, "hypotheses": str(path), **tables}, indent=1)


def evaluate(
    translator: Translator,
    pairs: Sequence[Pair],
    options: SearchOptions | None = None,
    *,
    resamples: int = 0,
    parallelism: Parallelism = SERIAL,
) -> Evaluation:
    """Translate the sources of a test set and score them against all references.

    With `resamples` (1000 is usual) each metric has a bootstrap interval. Raises DataError for an
    empty test set.
    """
    options, language = options or translator.options(), translator.config.data.target_language
    translations = translate_all(translator, pairs, options, parallelism=parallelism)
    hypotheses = [translation.line for translation in translations]
    tokenized = sum(text.endswith(" .") for text in hypotheses)
    if tokenized >= _TOKENIZED:
        log.warning(
            "%s end in ' .', as tokenized text does, but scores are defined on detokenized text; "
            "detokenize the data that you train and test on", count(tokenized, "translation"),
        )  # fmt: skip
    metrics = score(hypotheses, references_of(pairs), language, resamples=resamples)
    return Evaluation(translations, metrics, options.beam_size, language)


def translate_all(
    translator: Translator,
    pairs: Sequence[Pair],
    options: SearchOptions,
    *,
    parallelism: Parallelism = SERIAL,
) -> list[Translation]:
    """Return the best translation of each source; show a progress bar on a terminal.

    Raises DataError for no pairs.
    """
    if not pairs:
        raise DataError("the test set is empty: no pairs to score")
    sources = [pair.source for pair in pairs]
    parallelism = parallelism.for_lines(len(sources), translator.worker_memory)
    windows = parallelism.split(sources, WINDOW * translator.batch_scale)

    def translate(window: Sequence[str]) -> list[Translation]:
        return [found[0] for found in translator.translate(window, options)]

    results = parallelism.map(translate, windows, on_gpu=translator.on_gpu)
    found: list[Translation] = []
    quiet = None if parallelism.ranks.is_first else True
    with tqdm(total=len(pairs), unit=" sentences", disable=quiet, leave=False) as bar:
        for best in results:
            found += best
            bar.update(len(best))
    return found


def references_of(pairs: Sequence[Pair]) -> list[tuple[str, ...]]:
    """Return all references of each pair."""
    return [(pair.target, *pair.references) for pair in pairs]


def load_test(
    path: str | None,
    translator: Translator,
    *,
    target: str | None = None,
    single_reference: bool = False,
) -> list[Pair]:
    """Read a test set (read_test) and check its direction; the default is that of the recipe."""
    data = translator.config.data
    if path is None:
        try:
            return list(read_corpus(data.test or data.valid))
        except DataError as error:
            raise DataError(f"the recipe's test set, as no other is given: {error}") from None
    pairs = read_test(path, data, target=target, single_reference=single_reference)
    check_direction(translator, pairs, path)
    return pairs


def check_direction(
    translator: Translator,
    pairs: Sequence[Pair],
    name: str,
    how: str = "exchange its sides, or name a run of its direction",
) -> None:
    """Raise DataError if the sides of a test set are clearly exchanged.

    The model then finds the sources more likely as translations of the targets. This works even if
    both languages share a vocabulary and tokenizers cannot decide (seq2seq.data.sources).
    """
    sides = [
        (source, target)
        for pair in pairs[:_COMPARED]
        if (source := pair.source.strip()[:_MOST_CHARS])
        and (target := pair.target.strip()[:_MOST_CHARS])
    ]
    if len(sides) < FEWEST_PAIRS:
        return
    sources, targets = zip(*sides, strict=True)
    given, exchanged = (
        np.array(
            [part.log_prob / len(part.target_pieces) for part in translator.force_decode(*texts)]
        )
        for texts in ((sources, targets), (targets, sources))
    )
    if exchanged.mean() > given.mean() / 2 and (exchanged > given).mean() > REVERSED_PAIRS:
        data = translator.config.data
        raise DataError(
            f"{name}: runs in the other direction than the run ({' to '.join(data.languages)}): "
            f"its sources, such as {sources[0][:40]!r}, are more likely as translations of its "
            f"targets, such as {targets[0][:40]!r}; {how}"
        )


def read_test(
    path: str, data: DataConfig, *, target: str | None = None, single_reference: bool = False
) -> list[Pair]:
    """Read a test set: tab-separated source, target, and further references or gold alignments.

    If the recipe's data.test (or data.valid, if there is none) is CSV or JSON lines, so is this
    file, with the same names of columns or fields. With `target` the sides are two files, one
    sentence per line. Gold alignments are read if both the recipe and the file have them, or if a
    TSV file has nothing but links in its further columns. Raises DataError if the file cannot be
    read so.
    """
    layout = data.test or data.valid
    if target is not None:
        layout = CorpusConfig(format="aligned", source_path=path, target_path=target)
    elif layout.format == "aligned":
        raise DataError(
            f"{path}: this run's test sets have two files; give the other one with --target"
        )
    elif layout.format in ("csv", "jsonl"):
        layout = layout.model_copy(update={"path": path})
    else:
        links = layout.alignment if isinstance(layout.alignment, int) else None
        layout = CorpusConfig(
            path=path,
            alignment=None if links is None else max(2, links),
            references=links is None and layout.format != "manythings",
        )
    if layout.alignment is not None:
        try:
            next(read_corpus(layout), None)
        except DataError:  # the file has none
            layout = layout.model_copy(update={"alignment": None})
    pairs = with_alignments(read_corpus(layout))
    if single_reference:
        pairs = [replace(pair, references=()) for pair in pairs]
    empty = [n for n, texts in enumerate(references_of(pairs), 1) if not "".join(texts).strip()]
    if empty:
        found = f"{count(len(empty), 'pair')} without a reference, first pair {empty[0]}"
        log.warning("%s: %s; every translation of them counts as wrong", path, found)
    return pairs


def with_alignments(pairs: Iterable[Pair]) -> list[Pair]:
    """Return pairs; if all further references are word links (i-j), they become alignments."""
    found = list(pairs)
    tokens = [token for pair in found for text in pair.references for token in text.split()]
    if not tokens or not all(map(LINK.fullmatch, tokens)):
        return found
    return [replace(pair, references=(), alignment=" ".join(pair.references)) for pair in found]


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write sentences, one per line. Raises DataError if the file cannot be written."""
    write_text(path, "".join(f"{line}\n" for line in lines))


def write_text(path: Path, text: str) -> None:
    """Write a file. Raises DataError if it cannot be written."""
    check_writable(path)
    if path.exists() and not path.is_file():  # such as /dev/stdout, which must not be replaced
        path.write_text(text, encoding="utf-8")
    else:
        write_atomic(path, text)
