"""Align the words of a corpus with the attention of forced decoding, and score the links.

examples:
  seq2seq align runs/quickstart data/sample/test.tsv
  seq2seq align runs/es-en test.tsv --reverse runs/en-es -o test.links
  seq2seq align runs/es-en test.es --target test.en --gold test.gold --one-based
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.analysis import to_json
from seq2seq.commands import options
from seq2seq.errors import UserError

if TYPE_CHECKING:
    from seq2seq.analysis.alignment import AlignmentError


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "align", __doc__, action=_align)
    options.add_arguments(parser, "run")
    options.add_arguments(
        parser, "test", help="TSV in the layout of the run's test set; or the source side"
    )
    options.add_arguments(parser, "--target", "--json")
    parser.add_argument(
        "--gold", metavar="FILE",
        help="gold alignments, one line for each pair: i-j sure, i?j or ipj possible; default: the "
        "test set's own column, if the run's data.test.alignment names one",
    )  # fmt: skip
    parser.add_argument("--one-based", action="store_true", help="words of --gold count from 1")
    parser.add_argument(
        "--words", choices=("spaces", "marks"),
        help="what a word is: split at spaces, or with punctuation marks as separate words, as in "
        "data/sample; default: marks for the test set's own gold alignments, else spaces",
    )  # fmt: skip
    parser.add_argument(
        "--reverse", metavar="RUN", help="a model for the opposite direction, for symmetrization"
    )
    parser.add_argument(
        "--symmetrize", choices=("grow-diag-final-and", "intersection", "union"),
        default="grow-diag-final-and",
        help="with --reverse: which links to write; default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--method", choices=("argmax", "threshold"), default="argmax",
        help="argmax: link each target word with its heaviest source word; threshold: take all "
        "links of at least --threshold",
    )  # fmt: skip
    parser.add_argument("--threshold", type=float, metavar="X", help="minimum weight; default: 0.3")
    parser.add_argument(
        "-o", "--output", metavar="FILE",
        help="write links (words from 0), one line for each pair; default: standard output, if "
        "there are no gold alignments",
    )  # fmt: skip
    options.add_device(parser)


def _align(arguments: argparse.Namespace) -> int:
    from seq2seq.analysis.alignment import (
        THRESHOLD,
        align,
        align_both,
        alignment_error,
        gold_of,
    )
    from seq2seq.evaluation.evaluate import read_test, write_lines
    from seq2seq.files import check_writable
    from seq2seq.inference.words import WORDS, format_links

    if arguments.threshold is not None and arguments.method != "threshold":
        raise UserError("--threshold requires --method threshold")
    if arguments.output is not None:
        check_writable(Path(arguments.output))
    translator = options.load_translator(arguments, arguments.run)
    pairs = read_test(arguments.test, translator.config.data, target=arguments.target)
    own = arguments.gold is None and pairs[0].alignment is not None
    split = WORDS[arguments.words or ("marks" if own else "spaces")]
    gold = gold_of(pairs, arguments.gold, split=split, first=int(arguments.one_based))
    if arguments.json and gold is None:
        raise UserError("--json needs gold alignments; pass --gold FILE")
    threshold = arguments.threshold
    if arguments.method == "threshold" and threshold is None:
        threshold = THRESHOLD
    if arguments.reverse is None:
        chosen = align(translator, pairs, split=split, threshold=threshold)
        found = {"forward": chosen}
    else:
        reverse = options.load_translator(arguments, arguments.reverse)
        found = align_both(translator, reverse, pairs, split=split, threshold=threshold)
        chosen = found[arguments.symmetrize]
    lines = [format_links(links) for links in chosen]
    if arguments.output is not None:
        write_lines(Path(arguments.output), lines)
    if gold is not None:
        errors = {name: alignment_error(links, gold) for name, links in found.items()}
        plain = json.dumps({"sentences": len(pairs), **to_json(errors)}, indent=1)
        print(plain if arguments.json else _table(errors, len(pairs)))
    elif arguments.output is None:
        sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def _table(errors: dict[str, AlignmentError], size: int) -> str:
    width = max(map(len, errors))
    lines = [f"{'':{width}}   AER  precision  recall   links"]
    for name, error in errors.items():
        aer, precision, recall = map(_percent, (error.aer, error.precision, error.recall))
        lines.append(f"{name:{width}} {aer:>5}  {precision:>9}  {recall:>6}  {error.links:>6}")
    sure = next(iter(errors.values())).sure
    return "\n".join([*lines, f"{size} sentence pairs, {sure} sure gold links"])


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.1f}"
