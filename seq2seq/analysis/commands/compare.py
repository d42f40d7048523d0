"""Compare runs on a test set: is the difference significant, and where do they differ.

examples:
  seq2seq compare runs/a runs/b data/sample/test.tsv
  seq2seq compare runs/a runs/b runs/c test.tsv --html compare.html
  seq2seq compare runs/a runs/b test.es --target test.en --test randomization --json
"""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

from seq2seq.analysis import to_json
from seq2seq.commands import options
from seq2seq.errors import UserError

log = logging.getLogger(__name__)


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "compare", __doc__, action=_compare)
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="two or more runs; all are compared with the first"
    )
    parser.add_argument(
        "test_set",
        metavar="TEST",
        help="TSV in the layout of the first run's test set; or the source side",
    )
    options.add_arguments(parser, "--target")
    parser.add_argument(
        "--test", choices=("bootstrap", "randomization"), default="bootstrap",
        help="significance test: paired bootstrap (default), or approximate randomization, which "
        "has no intervals",
    )  # fmt: skip
    parser.add_argument(
        "--resamples", type=options.positive, metavar="N",
        help="default: 1000; with --test randomization: 10000",
    )  # fmt: skip
    options.add_arguments(parser, "--json")
    parser.add_argument("--html", metavar="FILE", help="also write the comparison as a page")
    options.add_search(parser)


def _compare(arguments: argparse.Namespace) -> int:
    if len(arguments.runs) < 2:
        raise UserError("a comparison needs two or more runs, followed by the test set")
    if len(set(arguments.runs)) < len(arguments.runs):
        raise UserError("a run is given twice; give each run once")
    from seq2seq.analysis.compare import compare, comparison_page, comparison_text
    from seq2seq.evaluation.evaluate import read_test, translate_all, write_text
    from seq2seq.files import check_writable

    if arguments.html is not None:
        import seq2seq.analysis.pages  # noqa: F401  without Jinja2, fail before translating

        check_writable(Path(arguments.html))
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)  # it logs each of its steps
    translators = {run: options.load_translator(arguments, run) for run in arguments.runs}
    data = translators[arguments.runs[0]].config.data
    pairs = read_test(arguments.test_set, data, target=arguments.target)
    systems = {}
    for run, translator in translators.items():
        log.info("translating with %s", run)
        search = translator.options(**options.search_options(arguments))
        systems[run] = [found.text for found in translate_all(translator, pairs, search)]
    comparison = compare(systems, pairs, test=arguments.test, resamples=arguments.resamples)
    if arguments.html is not None:
        write_text(Path(arguments.html), comparison_page(comparison, test=arguments.test_set))
    if arguments.json:
        print(json.dumps(to_json(comparison), indent=1, ensure_ascii=False))
    else:
        print(comparison_text(comparison))
    return 0
