"""Checks of a run's files and data."""

from __future__ import annotations

from collections.abc import Sequence

from tqdm import tqdm

from seq2seq.config import Config
from seq2seq.data.cleaning import HeldOut
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.data.loading import hold_out
from seq2seq.diagnosis.finding import Finding, skipped
from seq2seq.errors import CheckpointError, DataError
from seq2seq.evaluation.statistics import spelled_share
from seq2seq.inference.translator import Translator
from seq2seq.runs.checkpoint import load_checkpoint
from seq2seq.runs.directory import RunDirectory

MOST_UNKNOWN = 0.01


def checksums(run: RunDirectory) -> Finding:
    """Every file of every checkpoint is as it was written."""
    paths = sorted(path for path in run.checkpoints.glob("[!.]*") if path.is_dir())
    faults = []
    for path in paths:
        try:
            load_checkpoint(path)
        except CheckpointError as error:
            faults.append(str(error))
    found = f"{len(paths) - len(faults)} of {len(paths)} checkpoints are whole"
    return Finding(not faults and bool(paths), "; ".join([found, *faults]))


def vocabulary(translator: Translator, pairs: Sequence[Pair]) -> Finding:
    """Few pieces of the test set, on both sides, are <unk> or single bytes (at most 1 %)."""
    sides = {
        "source": (translator.source, [pair.source for pair in pairs]),
        "target": (translator.target, [pair.target for pair in pairs]),
    }
    shares = {
        name: spelled_share(map(tokenizer.pieces, tokenizer.encode_batch(texts)))
        for name, (tokenizer, texts) in sides.items()
    }
    found = ", ".join(f"{100 * share:.2f} % of the {name}" for name, share in shares.items())
    return Finding(max(shares.values()) <= MOST_UNKNOWN, f"{found} pieces are <unk> or bytes")


def leak(config: Config, pairs: Sequence[Pair]) -> Finding:
    """No train pair is in the test set with both of its sides, compared without case and marks.

    Train pairs that the recipe drops for this very reason (data.cleaning.drop_overlap) are none.
    """
    corpora = config.data.train
    if any(corpus.format == "huggingface" for corpus in corpora):
        return skipped("a train corpus is a Hugging Face dataset, which is not fetched for this")
    held_out = HeldOut()
    held_out.add("test", pairs)
    counts = {"both": 0, "source": 0, "target": 0}
    read = 0
    raw = (pair for corpus in corpora for pair in read_corpus(corpus))
    try:
        dropped = HeldOut()
        if config.data.cleaning.drop_overlap:
            dropped = hold_out(config.data, read_corpus(config.data.valid))
        for pair in tqdm(raw, "reading", unit=" pairs", disable=None, leave=False):
            read += 1
            if dropped.find(pair):
                continue
            for side in held_out.find(pair).values():
                counts[side] += 1
    except DataError as error:
        return skipped(str(error))
    return Finding(
        not counts["both"],
        f"{counts['both']} of {read} train pairs are in the test set with both sides, "
        f"{counts['source']} with the source only, {counts['target']} with the target only",
    )
