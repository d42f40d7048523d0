"""Score a run on a test set with sacreBLEU: BLEU, chrF and TER.

examples:
  seq2seq evaluate runs/quickstart data/sample/test.tsv
  seq2seq evaluate runs/tatoeba data/tatoeba/test.tsv --beam 1 --json
  seq2seq evaluate runs/tatoeba test.es --target test.en
  seq2seq evaluate runs/quickstart data/sample/test.tsv --report report   (report.html)
  seq2seq evaluate es-en data/tatoeba/test.tsv --precision int8 --robustness
"""

from __future__ import annotations

import argparse
import logging
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

from seq2seq.commands import options

log = logging.getLogger(__name__)


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "evaluate", __doc__, action=_evaluate)
    options.add_arguments(parser, "run", "test", "--target", "--json")
    parser.add_argument(
        "--single-reference", action="store_true", help="use the first reference only"
    )
    parser.add_argument(
        "--confidence", action="store_true",
        help="print 95 %% intervals of the scores, from 1000 bootstrap resamples",
    )  # fmt: skip
    parser.add_argument(
        "--report", metavar="DIR",
        help="write report.html and report.json: intervals, scores by length, attention, frequent "
        "errors, best and worst sentences",
    )  # fmt: skip
    parser.add_argument(
        "--robustness", action="store_true",
        help="also score the sentences as people type them: with typos, in capitals, with names to "
        "copy, ...; writes RUN/<test name>.hypotheses.robustness.json, too",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="FILE",
        help="write translations; default: RUN/<test name>.hypotheses.txt, replaced each time",
    )  # fmt: skip
    options.add_search(parser)
    options.add_arguments(parser, "--workers")


def _evaluate(arguments: argparse.Namespace) -> int:
    from seq2seq.evaluation.evaluate import evaluate, read_test, translate_all, write_lines
    from seq2seq.evaluation.metrics import RESAMPLES
    from seq2seq.files import check_writable, make_folder
    from seq2seq.packaged import find_run, is_packaged
    from seq2seq.runs.directory import run_of

    reports = arguments.report is not None
    if reports:  # without Jinja2, fail before translating
        reporting = import_module("seq2seq.analysis.report")  # scoring must do without that wing
    with options.parallelism(arguments) as shared:
        translator = options.load_translator(arguments, arguments.run)
        pairs = read_test(
            arguments.test,
            translator.config.data,
            target=arguments.target,
            single_reference=arguments.single_reference,
        )
        run = run_of(find_run(arguments.run)).path
        folder = Path() if is_packaged(run) else run
        default = folder / f"{Path(arguments.test).stem}.hypotheses.txt"
        path = Path(arguments.output) if arguments.output else default
        check_writable(path)
        if reports:
            make_folder(Path(arguments.report))
        search = translator.options(**options.search_options(arguments), keep_weights=reports)
        resamples = RESAMPLES if arguments.confidence or reports else 0
        result = evaluate(translator, pairs, search, resamples=resamples, parallelism=shared)
        if arguments.robustness:
            from seq2seq.evaluation.robustness import measure_robustness

            search = replace(search, keep_weights=False)
            again = partial(translate_all, translator, options=search, parallelism=shared)
            result = replace(result, robustness=measure_robustness(pairs, result, again))
        if not shared.ranks.is_first:
            return 0
        write_lines(path, result.hypotheses)
        if result.robustness:
            beside = path if path.is_file() else default  # such as /dev/null
            write_lines(beside.with_suffix(".robustness.json"), [result.robustness.as_json()])
        print(result.as_json(path) if arguments.json else result.as_text(path))
        if reports:
            report = reporting.make_report(translator, pairs, result)
            folder = Path(arguments.report)
            page = reporting.write_report(folder, report, run=arguments.run, test=arguments.test)
            log.info("report: %s", page)
    return 0
