"""Score a run on a test set."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from seq2seq.config import CorpusConfig, DataConfig
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.errors import DataError
from seq2seq.evaluation.metrics import Metric, score
from seq2seq.inference.protocol import SearchOptions
from seq2seq.inference.translator import Translator
from seq2seq.runs.files import write_atomic


@dataclass(frozen=True)
class Evaluation:
    """Hypotheses in the order of the test set, and their scores."""

    hypotheses: list[str]
    metrics: dict[str, Metric]


def evaluate(
    translator: Translator, pairs: Sequence[Pair], options: SearchOptions, *, window: int = 500
) -> Evaluation:
    """Translate the sources of a test set and score them against all references.

    Raises DataError for an empty test set.
    """
    if not pairs:
        raise DataError("the test set is empty")
    hypotheses: list[str] = []
    with tqdm(total=len(pairs), unit=" sentences", disable=None, leave=False) as bar:
        for start in range(0, len(pairs), window):
            lines = [pair.source for pair in pairs[start : start + window]]
            hypotheses += [best[0].text for best in translator.translate(lines, options)]
            bar.update(len(lines))
    references = [(pair.target, *pair.references) for pair in pairs]
    return Evaluation(hypotheses, score(hypotheses, references))


def evaluate_run(arguments: argparse.Namespace) -> str:
    """Do what `seq2seq evaluate` says; return what it prints."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    translator = Translator.load(
        arguments.run, device=arguments.device, precision=arguments.precision
    )
    pairs = _read_test(arguments, translator.config.data)
    options = translator.options(
        beam_size=arguments.beam,
        length_penalty=arguments.length_penalty,
        coverage_penalty=arguments.coverage_penalty,
        no_repeat_ngram=arguments.no_repeat_ngram,
    )
    result = evaluate(translator, pairs, options)
    output = Path(
        arguments.output or Path(arguments.run) / f"{Path(arguments.test).stem}.hypotheses.txt"
    )
    try:
        write_atomic(output, "".join(f"{line}\n" for line in result.hypotheses))
    except OSError as error:
        raise DataError(f"{output}: cannot be written ({error.strerror})") from None
    scores = {
        name: {"score": m.score, "signature": m.signature} for name, m in result.metrics.items()
    }
    if arguments.json:
        found = {
            "sentences": len(pairs),
            "beam": options.beam_size,
            **scores,
            "hypotheses": str(output),
        }
        return json.dumps(found, indent=1)
    labels = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
    lines = [
        f"{labels[name]} = {m.score:.1f}   {m.signature}" for name, m in result.metrics.items()
    ]
    return "\n".join(
        [*lines, f"{len(pairs)} sentences, beam {options.beam_size}; hypotheses: {output}"]
    )


def _read_test(arguments: argparse.Namespace, data: DataConfig) -> list[Pair]:
    """Read the test set in the layout of the run's own, or as two aligned files."""
    if arguments.target:
        config = CorpusConfig(
            format="aligned", source_path=arguments.test, target_path=arguments.target
        )
    else:
        layout = data.test or data.valid
        if layout.format in ("aligned", "huggingface"):
            layout = CorpusConfig(format="tsv", path=arguments.test, references=True)
        config = layout.model_copy(update={"path": arguments.test})
    pairs = list(read_corpus(config))
    if arguments.single_reference:
        return [Pair(pair.source, pair.target) for pair in pairs]
    return pairs
