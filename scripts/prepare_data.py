#!/usr/bin/env python3
"""Prepare a corpus: TAB-separated train.tsv, valid.tsv and test.tsv."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import islice

from seq2seq.data.prepare import (
    add_output_options,
    add_tatoeba,
    check_output,
    count,
    run_command,
)
from seq2seq.errors import DataError

EXAMPLES = """examples:
  prepare_data.py tatoeba http://www.manythings.org/anki/spa-eng.zip
  prepare_data.py tatoeba spa-eng.tar.gz
  prepare_data.py tatoeba spa.txt --out data/tatoeba --valid 1000 --test 1000
  prepare_data.py sample --out data/sample --seed 2
  prepare_data.py sample --show 50 --seed 3
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="prepare_data.py",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_tatoeba(commands)
    sample = commands.add_parser(
        "sample",
        help="sentences of a small grammar, with alignments",
        description="Generate Spanish-English pairs with gold word alignments from a grammar. The "
        "same seed gives the same files.",
    )
    sample.add_argument(
        "--train",
        type=count,
        metavar="N",
        default=48_000,
        help="training pairs (default: %(default)s)",
    )
    add_output_options(sample, "data/sample", rows=1000)
    sample.add_argument("--show", type=count, metavar="N", help="print N pairs; write nothing")
    sample.add_argument("--links", action="store_true", help="with --show: print alignments too")
    sample.set_defaults(run=_sample)
    return run_command(parser, argv)


def _sample(options: argparse.Namespace) -> None:
    from sample_corpus import generate, write_sample  # the other command needs none of it
    from seq2seq.inference.words import format_links

    if options.links and options.show is None:
        raise DataError("--links requires --show N")
    if options.show is None:
        check_output(options.out, force=options.force)
        sizes = {split: getattr(options, split) for split in ("train", "valid", "test")}
        print(write_sample(options.out, seed=options.seed, **sizes))
        return
    for pair in islice(generate(options.seed), options.show):
        print(f"{pair.source}\n    {pair.target}")
        if options.links:
            print(f"    {format_links(pair.alignment)}")


if __name__ == "__main__":
    sys.exit(main())
