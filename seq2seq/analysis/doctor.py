"""Check a run: its files, its data and its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from seq2seq.analysis.model_checks import Finding, examine, make_probe
from seq2seq.analysis.report import unknown_share
from seq2seq.config import Config
from seq2seq.data.cleaning import HeldOut
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.data.dataset import hold_out
from seq2seq.errors import CheckpointError, DataError
from seq2seq.evaluation.evaluate import load_test
from seq2seq.inference.translator import Translator
from seq2seq.packaged import find_run
from seq2seq.runs.checkpoint import open_checkpoint
from seq2seq.runs.directory import RunDirectory, run_of

MOST_UNKNOWN = 0.01


def checksums(run: RunDirectory) -> Finding:
    """Check that the files of every checkpoint match their checksums."""
    paths = sorted(path for path in run.checkpoints.glob("[!.]*") if path.is_dir())
    faults = []
    for path in paths:
        try:
            open_checkpoint(path).verify()
        except CheckpointError as error:
            faults.append(str(error))
    found = f"{len(paths) - len(faults)} of {len(paths)} checkpoints are intact"
    return Finding(not faults and bool(paths), "; ".join([found, *faults]))


def vocabulary(translator: Translator, pairs: Sequence[Pair]) -> Finding:
    """Check that on each side at most 1 % of the test set's pieces are <unk> or single bytes."""
    sides = {
        "source": (translator.source, [pair.source for pair in pairs]),
        "target": (translator.target, [pair.target for pair in pairs]),
    }
    shares = {
        name: unknown_share(map(tokenizer.pieces, tokenizer.encode_batch(texts)))
        for name, (tokenizer, texts) in sides.items()
    }
    found = ", ".join(f"{100 * share:.2f} % of the {name}" for name, share in shares.items())
    return Finding(max(shares.values()) <= MOST_UNKNOWN, f"{found} pieces are <unk> or bytes")


def leak(config: Config, pairs: Sequence[Pair]) -> Finding:
    """Check that no training pair is in the test set, compared without case and punctuation.

    Training pairs that the recipe drops for this reason (data.cleaning.drop_overlap) do not count.
    """
    corpora = config.data.train
    if any(corpus.format == "huggingface" for corpus in corpora):
        return Finding(
            None, "a training corpus is a Hugging Face dataset, which is not downloaded here"
        )
    held_out = HeldOut()
    held_out.add("test", pairs)
    counts = [0, 0, 0, 0]  # pairs that share no side, the source, the target, both
    raw = (pair for corpus in corpora for pair in read_corpus(corpus))
    try:
        dropped = HeldOut()
        if config.data.cleaning.drop_overlap:
            dropped = hold_out(config.data, read_corpus(config.data.valid))
        for pair in tqdm(raw, "reading", unit=" pairs", disable=None, leave=False):
            counts[0 if dropped.overlap(pair) else held_out.overlap(pair)] += 1
    except DataError as error:
        return Finding(None, str(error))
    _, source, target, both = counts
    return Finding(
        not both,
        f"{both} of {sum(counts)} train pairs are in the test set with both sides, {source} with "
        f"the source only, {target} with the target only",
    )


def diagnose(
    run: str | Path, test: str | None = None, *, target: str | None = None, device: str = "auto"
) -> dict[str, Finding]:
    """Return the findings of every check of a run, in fp32, by the name of the check.

    The default test set is that of the recipe, or its validation set; another one is read as
    `seq2seq evaluate` reads it. Raises DataError if it cannot be read, and as Translator.load does.
    """
    translator = Translator.load(run, device=device, backend="torch")
    pairs = load_test(test, translator, target=target)
    return {
        "checksums": checksums(run_of(find_run(run))),
        "vocabulary": vocabulary(translator, pairs),
        "no leak": leak(translator.config, pairs),
        **examine(make_probe(translator, pairs)),
    }


def healthy(findings: Mapping[str, Finding]) -> bool:
    """Return whether no check failed."""
    return all(found.passed is not False for found in findings.values())


def findings_text(findings: Mapping[str, Finding]) -> str:
    """Return a line for each check, and a last line with the counts."""
    width = max(map(len, findings))
    lines = [f"{found.word}  {name:{width}}  {found.found}" for name, found in findings.items()]
    words = [found.word for found in findings.values()]
    counts = {"passed": "pass", "failed": "FAIL", "skipped": "skip"}
    lines.append(", ".join(f"{words.count(word)} {text}" for text, word in counts.items()))
    return "\n".join(lines)
