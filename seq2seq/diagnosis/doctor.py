"""All checks of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.diagnosis.finding import Finding
from seq2seq.diagnosis.model_checks import examine
from seq2seq.diagnosis.patient import make_patient
from seq2seq.diagnosis.run_checks import checksums, leak, vocabulary
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import read_test
from seq2seq.inference.translator import Translator, run_of


def diagnose(
    run: str | Path, test: str | None = None, *, target: str | None = None, device: str = "auto"
) -> dict[str, Finding]:
    """Make every check of a run, in fp32; return findings by the name of the check.

    The test set is that of the recipe, or its validation set, unless another one is named, which
    is read as `seq2seq evaluate` reads it. Raises DataError where it cannot be read, and as
    Translator.load does.
    """
    translator = Translator.load(run, device=device)
    config = translator.config
    pairs = read_pairs(translator, test, target=target)
    return {
        "checksums": checksums(run_of(Path(run))),
        "vocabulary": vocabulary(translator, pairs),
        "no leak": leak(config, pairs),
        **examine(make_patient(translator, pairs)),
    }


def read_pairs(
    translator: Translator, test: str | None = None, *, target: str | None = None
) -> list[Pair]:
    """Return the pairs of a test set, by default of the recipe's.

    Raises DataError where it cannot be read.
    """
    data = translator.config.data
    if test is not None:
        return read_test(test, data, target=target)
    try:
        return list(read_corpus(data.test or data.valid))
    except DataError as error:
        raise DataError(
            f"the recipe's own test set: {error}; name another test set behind the run"
        ) from None


def healthy(findings: Mapping[str, Finding]) -> bool:
    """Return whether no check failed."""
    return all(found.passed is not False for found in findings.values())


def findings_text(findings: Mapping[str, Finding]) -> str:
    """Return a line a check and a last one with the counts."""
    width = max(map(len, findings))
    lines = [found.line(name, width) for name, found in findings.items()]
    results = [found.passed for found in findings.values()]
    counts = [(True, "passed"), (False, "failed"), (None, "skipped")]
    summary = ", ".join(f"{results.count(kind)} {word}" for kind, word in counts)
    return "\n".join([*lines, summary])
