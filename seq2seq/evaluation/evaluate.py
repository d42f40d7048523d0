"""Score a run on a test set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tqdm import tqdm

from seq2seq.config import CorpusConfig, DataConfig
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.errors import DataError
from seq2seq.evaluation.metrics import Metric, score
from seq2seq.files import write_atomic
from seq2seq.inference.protocol import SearchOptions
from seq2seq.inference.translator import Translator

_LABELS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}


@dataclass(frozen=True)
class Evaluation:
    """Hypotheses in the order of the test set, and their scores."""

    hypotheses: list[str]
    metrics: dict[str, Metric]
    beam: int

    def as_text(self, path: Path) -> str:
        """Return a line a metric, with its signature, and one that says of what."""
        lines = [f"{_LABELS[n]} = {m.score:.1f}   {m.signature}" for n, m in self.metrics.items()]
        of = f"{len(self.hypotheses)} sentences, beam {self.beam}; hypotheses: {path}"
        return "\n".join([*lines, of])

    def as_json(self, path: Path) -> str:
        """Return the same as one JSON object."""
        metrics = {n: {"score": m.score, "signature": m.signature} for n, m in self.metrics.items()}
        counts = {"sentences": len(self.hypotheses), "beam": self.beam}
        return json.dumps({**counts, **metrics, "hypotheses": str(path)}, indent=1)


def evaluate(
    translator: Translator,
    pairs: Sequence[Pair],
    options: SearchOptions | None = None,
    *,
    window: int = 500,
    workers: int = 1,
    threads: int = 1,
) -> Evaluation:
    """Translate the sources of a test set and score them against all references.

    `workers` and `threads` are those of Translator.shared. Raises DataError for an empty test set.
    """
    if not pairs:
        raise DataError("the test set is empty: no pairs to score")
    options = options or translator.options()
    sources = [pair.source for pair in pairs]
    windows = [sources[start : start + window] for start in range(0, len(sources), window)]
    results = translator.shared(
        partial(_best, translator, options), windows, workers=workers, threads=threads
    )
    hypotheses: list[str] = []
    with tqdm(total=len(pairs), unit=" sentences", disable=None, leave=False) as bar:
        for texts in results:
            hypotheses += texts
            bar.update(len(texts))
    references = [(pair.target, *pair.references) for pair in pairs]
    return Evaluation(hypotheses, score(hypotheses, references), options.beam_size)


def _best(translator: Translator, options: SearchOptions, sources: list[str]) -> list[str]:
    return [found[0].text for found in translator.translate(sources, options)]


def read_test(
    path: str, data: DataConfig, *, target: str | None = None, single_reference: bool = False
) -> list[Pair]:
    """Read a test set in the layout of a run's data.test, or data.valid where it has none.

    With `target`, or where that layout is two files, the sides are read line by line from two
    files. Raises DataError for what cannot be read so.
    """
    layout = data.test or data.valid
    if target is not None:
        layout = CorpusConfig(format="aligned", source_path=path, target_path=target)
    elif layout.format == "aligned":
        raise DataError(
            f"{path}: the run's own test set is two files; name the other side with --target"
        )
    elif layout.format == "huggingface":
        layout = CorpusConfig(format="tsv", path=path, references=True)
    else:
        layout = layout.model_copy(update={"path": path})
    pairs = list(read_corpus(layout))
    return [Pair(pair.source, pair.target) for pair in pairs] if single_reference else pairs


def write_hypotheses(path: Path, hypotheses: Sequence[str]) -> None:
    """Write a line a sentence. Raises DataError where that cannot be."""
    try:
        write_atomic(path, "".join(f"{line}\n" for line in hypotheses))
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from None
