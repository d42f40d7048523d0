"""Score a run on a test set with sacreBLEU: BLEU, chrF and TER.

examples:
  seq2seq evaluate runs/quickstart data/sample/test.tsv
  seq2seq evaluate runs/tatoeba data/tatoeba/test.tsv --beam 1 --json
  seq2seq evaluate runs/tatoeba test.es --target test.en
  seq2seq evaluate runs/quickstart data/sample/test.tsv --report report   (report.html)
  seq2seq evaluate es-en data/tatoeba/test.tsv --precision int8 --robustness
  seq2seq evaluate es-en --challenge data/sample/challenge-es-en.tsv
"""

from __future__ import annotations

import argparse
import json
import logging
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from seq2seq.commands import options
from seq2seq.errors import DataError, UserError
from seq2seq.wings import offered

log = logging.getLogger(__name__)


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "evaluate", _evaluate, __doc__)
    options.add_arguments(parser, "run")
    options.add_arguments(parser, "test", nargs="?")
    options.add_arguments(parser, "--target", "--json")
    parser.add_argument(
        "--single-reference", action="store_true", help="use the first reference only"
    )
    parser.add_argument(
        "--confidence", action="store_true",
        help="print 95 %% intervals of the scores, from 1000 bootstrap resamples",
    )  # fmt: skip
    parser.add_argument(
        "--report", type=Path, metavar="DIR",
        help="write report.html and report.json: intervals, scores by length, attention, frequent "
        "errors, best and worst sentences",
    )  # fmt: skip
    parser.add_argument(
        "--robustness", action="store_true",
        help="also score the sentences as people type them: with typos, in capitals, with names to "
        "copy, ...; writes RUN/<test name>.hypotheses.robustness.json, too",
    )  # fmt: skip
    parser.add_argument(
        "--challenge", metavar="FILE",
        help="also compare the probabilities of right and wrong translations (TSV: phenomenon, "
        "source, right, wrong); without TEST, its sources and right translations are the test set; "
        "writes RUN/<test name>.hypotheses.challenge.json, too",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="FILE",
        help="write translations; default: RUN/<test name>.hypotheses.txt, replaced each time",
    )  # fmt: skip
    options.add_arguments(parser, "--glossary")
    options.add_search(parser)
    options.add_arguments(parser, "--workers")


def _evaluate(arguments: argparse.Namespace) -> int:
    from seq2seq.data.corpus import Pair
    from seq2seq.evaluation.challenge import read_challenge, score_challenge
    from seq2seq.evaluation.evaluate import (
        check_direction,
        evaluate,
        load_test,
        translate_all,
        write_lines,
    )
    from seq2seq.evaluation.metrics import RESAMPLES
    from seq2seq.evaluation.robustness import measure_robustness
    from seq2seq.files import check_writable, make_folder
    from seq2seq.packaged import find_run, is_read_only
    from seq2seq.runs.directory import run_of

    reports = arguments.report is not None
    if reports:  # without Jinja2, fail before translating
        reporting = offered("report", "seq2seq.analysis")
    tables: dict[str, Any] = {}
    test = arguments.test or arguments.challenge
    if test is None or (arguments.target and not arguments.test):
        raise UserError("no test set: give TEST, or minimal pairs with --challenge FILE")
    with options.parallelism(arguments) as shared:
        translator = options.load_translator(arguments, arguments.run)
        minimal = read_challenge(arguments.challenge) if arguments.challenge else []
        pairs = [Pair(pair.source, pair.right) for pair in minimal]
        check_direction(translator, pairs, str(arguments.challenge))
        if arguments.test:
            named = {name: getattr(arguments, name) for name in ("target", "single_reference")}
            pairs = load_test(test, translator, **named)
        run = run_of(find_run(arguments.run)).path
        folder = Path() if is_read_only(run) else run
        default = folder / f"{Path(test).stem}.hypotheses.txt"
        path = Path(arguments.output) if arguments.output else default
        try:
            check_writable(path, arguments.test, arguments.target, arguments.challenge)
        except DataError as error:
            raise DataError(f"{error}{'' if arguments.output else ' with -o FILE'}") from None
        if reports:
            make_folder(arguments.report)
        search = translator.options(**options.search_options(arguments), keep_weights=reports)
        resamples = RESAMPLES if arguments.confidence or reports else 0
        result = evaluate(translator, pairs, search, resamples=resamples, parallelism=shared)
        if arguments.robustness:
            search = replace(search, keep_weights=False)
            again = partial(translate_all, translator, options=search, parallelism=shared)
            source = translator.config.data.source_language
            tables["robustness"] = measure_robustness(pairs, result, again, source)
        if minimal:
            tables["challenge"] = score_challenge(translator, minimal, parallelism=shared)
        result = replace(result, tables=tables)
        if not shared.ranks.is_first:
            return 0
        write_lines(path, result.hypotheses)
        beside = path if path.is_file() else default  # such as /dev/null
        for name, table in tables.items():
            text = json.dumps(asdict(table), indent=1, ensure_ascii=False)
            write_lines(beside.with_suffix(f".{name}.json"), [text])
        print(result.as_json(path) if arguments.json else result.as_text(path))
        if reports:
            report = reporting.make_report(translator, pairs, result)
            page = reporting.write_report(arguments.report, report, run=arguments.run, test=test)
            log.info("report: %s", page)
    return 0
