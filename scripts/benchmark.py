#!/usr/bin/env python
"""Measure how fast this machine trains and translates."""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import torch

from benchmarks.decoding import decoding_speed, native_kinds
from benchmarks.feeding import feeding_speeds
from benchmarks.gpu import gpu_checks
from benchmarks.measuring import Record, describe, product_rates, read_medians, table, write
from benchmarks.serving import serving_speed
from benchmarks.training import Shape, growth, training_speed
from seq2seq.config import CorpusConfig, parse_config
from seq2seq.data.batching import Batch
from seq2seq.data.corpus import read_corpus
from seq2seq.data.dataset import load_pairs, train_tokenizers
from seq2seq.data.stream import BatchStream
from seq2seq.device import choose_device, multiplies_bf16
from seq2seq.errors import UserError

PAIRS = ("data/tatoeba/train.tsv", "data/sample/train.tsv")
PARTS = ("products", "training", "growth", "feeding", "decoding", "serving")  # by default; and gpu
SENTENCES = 1000  # translated to measure decoding and serving
EXAMPLES = """examples:
  python scripts/benchmark.py
  python scripts/benchmark.py --only training --threads 2 --pairs data/tatoeba/train.tsv
  python scripts/benchmark.py --only decoding --run runs/tatoeba --pairs data/tatoeba/test.tsv
  python scripts/benchmark.py --only serving --run es-en --workers 1 2
  python scripts/benchmark.py --only gpu --device cuda --run es-en -o gpu.json
  python scripts/benchmark.py -o now.json --compare before.json
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        choices=(*PARTS, "gpu"),
        nargs="+",
        default=PARTS,
        help="default: all but gpu, what only a GPU can show",
    )
    parser.add_argument(
        "--pairs", help="TSV of sentence pairs; default: Tatoeba if it is there, else the sample"
    )
    parser.add_argument(
        "--run", help="run or model to measure decoding and serving; without one, both are skipped"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads; default: 1")
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[1], metavar="N",
        help="worker processes of the server, measured one after the other; default: 1",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=float, default=12,
        help="per speed of training and of feeding, and per round of serving; default: 12",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, help="write results to a JSON file")
    parser.add_argument(
        "--compare", type=Path, help="JSON file of an earlier run; print ratios to it"
    )
    given = parser.parse_args(arguments)
    try:
        _run(given)
    except UserError as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _run(given: argparse.Namespace) -> None:
    earlier = read_medians(given.compare) if given.compare else None
    torch.set_num_threads(given.threads)
    device = choose_device(given.device)
    machine = describe(device)
    print(json.dumps(machine))
    records: list[Record] = []
    for found in _measure(given, device):
        records += found
        print(table(found, earlier), flush=True)
        if given.output:  # after each, so that what was measured survives an interruption
            write(given.output, machine, records)


def _measure(given: argparse.Namespace, device: torch.device) -> Iterator[list[Record]]:
    """Yield what was asked for, as soon as it is measured."""
    dtypes, ceilings = _dtypes(device), dict[torch.dtype, float]()
    for dtype in dtypes if {"products", "training"} & set(given.only) else ():
        rates = product_rates(device, dtype)
        ceilings[dtype] = rates[0].median
        if "products" in given.only:
            yield rates
    path = given.pairs or next(path for path in PAIRS if os.path.exists(path))
    if "training" in given.only:
        print(f"training on pairs of {path}, {given.threads} threads")
        batches = reference_batches(path)
        styles = ("bahdanau", "conditional", "luong")
        kinds = itertools.product(ceilings.items(), styles, (False, True))
        for (dtype, ceiling), style, tied in kinds:
            kind = str(dtype).removeprefix("torch.")
            name = f"training, {style}, additive, {'tied, ' if tied else ''}{kind}"
            yield [
                training_speed(
                    name, Shape(style=style, tied=tied), device, dtype,
                    batches=batches, seconds=given.seconds, ceiling=ceiling,
                )
            ]  # fmt: skip
    if "growth" in given.only:
        for record in growth(device, dtypes[0]):
            yield [record]
    if "gpu" in given.only:
        pairs = itertools.islice(read_corpus(CorpusConfig(path=path)), 2 * SENTENCES)
        sources = [pair.source for pair in pairs]
        of_tokens = functools.partial(reference_batches, path)
        yield from gpu_checks(device, of_tokens, given.run, sources, seconds=given.seconds / 4)
    if "feeding" in given.only:
        print(f"feeding pairs of {path}")
        for record in feeding_speeds(partial(batches_of, path), seconds=given.seconds / 3):
            yield [record]
    if given.run and {"decoding", "serving"} & set(given.only):
        pairs = itertools.islice(read_corpus(CorpusConfig(path=path)), SENTENCES)
        sources = [pair.source for pair in pairs]
        print(f"{len(sources)} sentences of {path} with {given.run}")
        if "decoding" in given.only:
            yield decoding_speed(given.run, sources, device=device, threads=given.threads)
        if "serving" in given.only:
            precisions = [kind for backend, kind in native_kinds(device) if backend == "onnx"]
            for precision, workers in itertools.product(precisions, given.workers):
                yield serving_speed(
                    given.run, sources,
                    precision=precision, workers=workers, seconds=given.seconds,
                )  # fmt: skip


def _dtypes(device: torch.device) -> list[torch.dtype]:
    """Return the types to measure: fp32, and bf16 if the device has instructions for it."""
    return [torch.bfloat16, torch.float32] if multiplies_bf16(device) else [torch.float32]


def reference_batches(path: str, tokens: int = 2048, *, count: int = 6) -> list[Batch]:
    """Return batches of the reference shape, filled with the pairs of a TSV file."""
    return list(itertools.islice(batches_of(path, tokens=tokens), count))


def batches_of(
    path: str, augmented: bool = False, processes: int = 1, *, tokens: int = 2048
) -> BatchStream:
    """Return the pairs of a TSV file in batches of the reference shape."""
    shape = Shape()
    config = parse_config(
        f"""
data:
  source_language: es
  target_language: en
  train: [{{path: {json.dumps(path)}}}]
  valid: {{path: {json.dumps(path)}}}
  tokenizer: {{source_vocab_size: {shape.vocabulary}, target_vocab_size: {shape.vocabulary}}}
  batching: {{size: {tokens}}}
  augmentation: {"{}" if augmented else "null"}
run_dir: runs/benchmark
"""
    )
    pairs, _ = load_pairs(config)
    tokenizers = train_tokenizers(pairs, config)
    return BatchStream(pairs, *tokenizers, config.data, seed=1, processes=processes)


if __name__ == "__main__":
    sys.exit(main())
