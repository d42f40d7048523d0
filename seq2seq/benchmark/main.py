"""The benchmark: some minutes, a table, a JSON file."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from seq2seq.benchmark.decoding import decoding_speed
from seq2seq.benchmark.machine import describe, product_rates
from seq2seq.benchmark.records import Record, read_medians, table, write
from seq2seq.benchmark.training import Shape, growth, training_speed
from seq2seq.config import CorpusConfig, parse_config
from seq2seq.data.batching import Batch
from seq2seq.data.corpus import read_corpus
from seq2seq.data.dataset import load_pairs, train_tokenizers
from seq2seq.data.stream import BatchStream
from seq2seq.device import choose_device, multiplies_bf16
from seq2seq.errors import UserError

PAIRS = ("data/tatoeba/train.tsv", "data/sample/train.tsv")
PARTS = ("products", "training", "growth", "decoding")
SENTENCES = 1000  # that decoding translates
EXAMPLES = """examples:
  python scripts/benchmark.py
  python scripts/benchmark.py --only training --threads 2 --pairs data/tatoeba/train.tsv
  python scripts/benchmark.py --only decoding --run runs/tatoeba --pairs data/tatoeba/test.tsv
  python scripts/benchmark.py -o now.json --compare before.json
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for; return 0, or 2 for a user's mistake."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="default: all")
    parser.add_argument(
        "--pairs", help="TSV of sentence pairs; default: Tatoeba's, else the sample"
    )
    parser.add_argument("--run", help="trained run, for decoding; without one that is left out")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads; default: 1")
    parser.add_argument("--seconds", type=float, default=12, help="for each speed of training")
    parser.add_argument("-o", "--output", type=Path, help="JSON file")
    parser.add_argument("--compare", type=Path, help="JSON file of an earlier run")
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

    def tell(found: list[Record]) -> None:
        records.extend(found)
        print(table(found, earlier), flush=True)

    ceilings: dict[torch.dtype, float] = {}
    for dtype in _dtypes(device):
        rates = product_rates(device, dtype)
        ceilings[dtype] = rates[0].median
        if "products" in given.only:
            tell(rates)
    path = given.pairs or next(path for path in PAIRS if os.path.exists(path))
    if "training" in given.only:
        print(f"training on pairs of {path}, {given.threads} threads")
        batches = reference_batches(path)
        for dtype, ceiling in ceilings.items():
            kind = str(dtype).removeprefix("torch.")
            for style, tied in itertools.product(("bahdanau", "luong"), (False, True)):
                name = f"training, {style}, additive, {'tied, ' if tied else ''}{kind}"
                shape = Shape(style=style, tied=tied)
                tell([
                    training_speed(
                        name, shape, device, dtype,
                        batches=batches, seconds=given.seconds, ceiling=ceiling,
                    )
                ])  # fmt: skip
    if "growth" in given.only:
        for record in growth(device, next(iter(ceilings))):
            tell([record])
    if "decoding" in given.only and given.run:
        pairs = itertools.islice(read_corpus(CorpusConfig(path=path)), SENTENCES)
        sources = [pair.source for pair in pairs]
        print(f"decoding {len(sources)} sentences of {path} by {given.run}")
        tell(decoding_speed(given.run, sources, device=device, threads=given.threads))
    if given.output:
        write(given.output, machine, records)


def _dtypes(device: torch.device) -> list[torch.dtype]:
    """Return what is worth measuring: bf16 where the device multiplies it, and fp32."""
    return [torch.bfloat16, torch.float32] if multiplies_bf16(device) else [torch.float32]


def reference_batches(path: str, *, count: int = 6) -> list[Batch]:
    """Return batches of the reference shape from the pairs of a TSV file."""
    shape = Shape()
    config = parse_config(
        f"""
data:
  train: [{{path: {json.dumps(path)}}}]
  valid: {{path: {json.dumps(path)}}}
  tokenizer: {{source_vocab_size: {shape.vocabulary}, target_vocab_size: {shape.vocabulary}}}
  batching: {{size: {shape.batch_tokens}}}
run_dir: runs/benchmark
"""
    )
    pairs, _ = load_pairs(config)
    stream = BatchStream(pairs, *train_tokenizers(pairs, config), config.data, seed=1)
    return list(itertools.islice(stream, count))
