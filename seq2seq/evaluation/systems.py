"""Translations of a test set: by runs, or read from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seq2seq.config import CorpusConfig, DataConfig
from seq2seq.data.corpus import Pair, read_corpus, read_lines
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import evaluate, read_test
from seq2seq.inference.translator import Translator, run_of
from seq2seq.runs.directory import RunDirectory


def read_systems(
    systems: Sequence[str], test: str, *, target: str | None = None, beam: int | None = None
) -> tuple[list[Pair], list[list[str]]]:
    """Return the pairs of a test set, and the translations of each system.

    A system is a run or a checkpoint, which translates the test set with its own search options
    and the given beam, or a file with a translation a line. The test set is read in the layout of
    the first run, or of the run that a file lies in. Raises DataError where there is neither (but
    for `target`, which needs no layout), and for a file with another number of lines.
    """
    layout = next((found for found in map(_layout, systems) if found is not None), None)
    if layout is not None:
        pairs = read_test(test, layout, target=target)
    elif target is not None:
        aligned = CorpusConfig(format="aligned", source_path=test, target_path=target)
        pairs = list(read_corpus(aligned))
    else:
        raise DataError(
            f"{test}: its columns are those of a run's test set, and no run is given; give one, "
            "a file that lies in a run, or the target side with --target"
        )
    return pairs, [_translations(system, pairs, beam) for system in systems]


def _layout(system: str) -> DataConfig | None:
    path = Path(system)
    run = RunDirectory(path.parent) if path.is_file() else run_of(path)
    if path.is_file() and not run.exists():
        return None
    return run.config().data


def _translations(system: str, pairs: Sequence[Pair], beam: int | None) -> list[str]:
    if not Path(system).is_file():
        translator = Translator.load(system)
        return evaluate(translator, pairs, translator.options(beam_size=beam)).hypotheses
    lines = [line.text for line in read_lines(system)]
    if len(lines) != len(pairs):
        raise DataError(
            f"{system}: {len(lines)} translations, but the test set has {len(pairs)} sentences; "
            "translate it again with seq2seq evaluate"
        )
    return lines
