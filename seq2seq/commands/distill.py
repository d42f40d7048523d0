"""Translate a corpus with one or several runs, as training pairs for another run.

The result has a line for each pair of the corpus: its source and the translation. Add it to
data.train (docs/distillation.md). To continue after an interruption, run the same command again.

examples:
  seq2seq distill runs/a runs/b data/train.tsv -o data/distilled.tsv --workers 2
  seq2seq distill runs/a runs/b train.es --target train.en -o data/distilled.tsv
  seq2seq distill runs/en-es data/train.tsv -o data/diverse.tsv --reverse
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from seq2seq.commands import options
from seq2seq.errors import UserError
from seq2seq.version import VERSION


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "distill", _distill, __doc__)
    options.add_arguments(parser, "runs")
    parser.add_argument("corpus", metavar="CORPUS", help="TSV: source, target; or the source side")
    options.add_arguments(parser, "--target")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True,
        help="TSV to write, until then FILE.partial; FILE.distill.json records the models, the "
        "corpus and the options",
    )  # fmt: skip
    parser.add_argument(
        "--reverse", action="store_true",
        help="the runs translate from target to source: write their translation as the source, "
        "with the given target",
    )  # fmt: skip
    options.add_search(parser)
    options.add_arguments(parser, "--workers")


def _distill(arguments: argparse.Namespace) -> int:
    from seq2seq.config import CorpusConfig
    from seq2seq.data.corpus import COMPRESSED, Pair, read_corpus
    from seq2seq.data.sources import describe
    from seq2seq.evaluation.evaluate import check_direction
    from seq2seq.inference.distill import distill
    from seq2seq.inference.lines import Request

    if Path(arguments.output).suffix in COMPRESSED:
        raise UserError(f"{arguments.output}: the file is not compressed; choose another suffix")
    corpus = CorpusConfig(path=arguments.corpus)
    if arguments.target is not None:
        sides = {"source_path": arguments.corpus, "target_path": arguments.target}
        corpus = CorpusConfig(format="aligned", **sides)
    with options.parallelism(arguments) as shared:
        translator = options.load_translator(arguments, *arguments.runs)
        search = translator.options(**options.search_options(arguments))
        pairs, how = list(islice(read_corpus(corpus), 100)), "add --reverse"
        if arguments.reverse:
            pairs, how = [Pair(pair.target, pair.source) for pair in pairs], "remove --reverse"
        check_direction(translator, pairs, arguments.corpus, f"{how}, or exchange its sides")
        provenance = {
            "program": VERSION,
            "runs": [backend.weights_sum for backend in translator.backends],
            "corpus": describe(corpus)["files"],
            **{n: getattr(arguments, n) for n in ("reverse", "device", "backend", "precision")},
            **asdict(search),
        }
        request = Request(search, format="tsv", reverse=arguments.reverse)
        try:
            written = distill(
                translator, request, corpus, Path(arguments.output), provenance=provenance,
                parallelism=shared,
            )  # fmt: skip
        except KeyboardInterrupt:
            print("interrupted; run the same command again to continue", file=sys.stderr)
            raise
        if shared.ranks.is_first:
            print(f"{arguments.output}: {written} pairs", file=sys.stderr)
    return 0
