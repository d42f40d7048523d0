"""`seq2seq compare`, `align`, `doctor` and `faults`: measurements of runs."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.analysis import to_json
from seq2seq.commands import options
from seq2seq.errors import EXIT_FAULT, UserError

if TYPE_CHECKING:
    from seq2seq.analysis.alignment import AlignmentError

log = logging.getLogger(__name__)


def add(commands: options.Commands) -> None:
    _add_compare(options.add_command(commands, "compare", _compare))
    _add_align(options.add_command(commands, "align", _align))
    _add_doctor(options.add_command(commands, "doctor", _doctor))
    _add_faults(options.add_command(commands, "faults", _faults))


def _add_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="two or more runs; all are compared with the first"
    )
    parser.add_argument(
        "test_set", metavar="TEST",
        help="TSV: source, target, further references; or the source side",
    )  # fmt: skip
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
    """Compare runs on a test set: is the difference significant, and where do they differ.

    examples:
      seq2seq compare runs/a runs/b data/sample/test.tsv
      seq2seq compare runs/a runs/b runs/c test.tsv --html compare.html
      seq2seq compare runs/a runs/b test.es --target test.en --test randomization --json
    """
    if len(arguments.runs) < 2:
        raise UserError("a comparison needs two or more runs, followed by the test set")
    if len(set(arguments.runs)) < len(arguments.runs):
        raise UserError("a run is given twice; give each run once")
    from seq2seq.analysis.compare import compare, comparison_text
    from seq2seq.analysis.pages import render
    from seq2seq.evaluation.evaluate import load_test, translate_all, write_text
    from seq2seq.files import check_writable

    if arguments.html is not None:
        check_writable(Path(arguments.html), arguments.test_set, arguments.target)
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)  # it logs each of its steps
    translators = {run: options.load_translator(arguments, run) for run in arguments.runs}
    layouts = [translator.config.data for translator in translators.values()]
    directions = dict.fromkeys(" to ".join(data.languages) for data in layouts)
    if len(directions) > 1:
        log.warning("the runs have different languages: %s", "; ".join(directions))
    first = next(iter(translators.values()))
    pairs = load_test(arguments.test_set, first, target=arguments.target)
    systems = {}
    for run, translator in translators.items():
        log.info("translating with %s", run)
        search = translator.options(**options.search_options(arguments))
        systems[run] = [found.text for found in translate_all(translator, pairs, search)]
    how: dict[str, Any] = {"test": arguments.test, "resamples": arguments.resamples}
    comparison = compare(systems, pairs, layouts[0].target_language, **how)
    if arguments.html is not None:
        page = render("comparison.html", comparison=comparison, test=arguments.test_set)
        write_text(Path(arguments.html), page)
    plain = json.dumps(to_json(comparison), indent=1, ensure_ascii=False)
    print(plain if arguments.json else comparison_text(comparison))
    return 0


def _add_align(parser: argparse.ArgumentParser) -> None:
    options.add_arguments(parser, "run")
    options.add_arguments(
        parser, "test", help="TSV: source, target, gold alignments if any; or the source side"
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
        "data/sample, and so each character of a language without spaces; default: marks for the "
        "test set's own gold alignments, and without any for such a language, else spaces",
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
        "--threshold", type=options.from_0_to_1, metavar="X",
        help="take all links of at least this weight; default: link each target word with its "
        "heaviest source word",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="FILE",
        help="write links (words from 0), one line for each pair; default: standard output, if "
        "there are no gold alignments",
    )  # fmt: skip
    options.add_device(parser)


def _align(arguments: argparse.Namespace) -> int:
    """Align the words of a corpus with the attention of forced decoding, and score the links.

    examples:
      seq2seq align runs/quickstart data/sample/test.tsv
      seq2seq align runs/es-en test.tsv --reverse runs/en-es -o test.links
      seq2seq align runs/es-en test.es --target test.en --gold test.gold --one-based
    """
    from seq2seq.analysis import alignment
    from seq2seq.evaluation.evaluate import load_test, write_lines
    from seq2seq.files import check_writable
    from seq2seq.inference.words import WORDS, format_links
    from seq2seq.languages import language

    if arguments.output is not None:
        given = (arguments.test, arguments.target, arguments.gold)
        check_writable(Path(arguments.output), *given)
    translator = options.load_translator(arguments, arguments.run)
    pairs = load_test(arguments.test, translator, target=arguments.target)
    is_spaced = all(language(code).is_spaced for code in translator.config.data.languages)
    by_spaces = arguments.gold or (pairs[0].alignment is None and is_spaced)
    split = WORDS[arguments.words or ("spaces" if by_spaces else "marks")]
    gold = alignment.gold_of(pairs, arguments.gold, split=split, first=int(arguments.one_based))
    if arguments.json and gold is None:
        raise UserError("--json needs gold alignments; pass --gold FILE")
    how: dict[str, Any] = {"split": split, "threshold": arguments.threshold}
    if arguments.reverse is None:
        found = {"forward": alignment.align(translator, pairs, **how)}
    else:
        reverse = options.load_translator(arguments, arguments.reverse)
        found = alignment.align_both(translator, reverse, pairs, **how)
    lines = list(map(format_links, found.get(arguments.symmetrize, found["forward"])))
    if arguments.output is not None:
        write_lines(Path(arguments.output), lines)
    if gold is not None:
        errors = {name: alignment.alignment_error(links, gold) for name, links in found.items()}
        plain = json.dumps({"sentences": len(pairs), **to_json(errors)}, indent=1)
        print(plain if arguments.json else _table(errors, len(pairs)))
    elif arguments.output is None:
        sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def _table(errors: dict[str, AlignmentError], size: int) -> str:
    width = max(map(len, errors))
    lines = [f"{'':{width}}   AER  precision  recall   links"]
    for name, error in errors.items():
        rates = (error.aer, error.precision, error.recall)
        aer, precision, recall = ("-" if r is None else f"{100 * r:.1f}" for r in rates)
        lines.append(f"{name:{width}} {aer:>5}  {precision:>9}  {recall:>6}  {error.links:>6}")
    sure = next(iter(errors.values())).sure
    return "\n".join([*lines, f"{size} sentence pairs, {sure} sure gold links"])


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    options.add_arguments(parser, "run")
    options.add_arguments(
        parser, "test", nargs="?", help="test set; default: that of the run's recipe"
    )
    options.add_arguments(parser, "--target", "--json", "--device")


def _doctor(arguments: argparse.Namespace) -> int:
    """Check a run: files, data, attention weights, search, loss; exit code 1 when a check fails.

    examples:
      seq2seq doctor runs/quickstart
      seq2seq doctor runs/tatoeba data/tatoeba/test.tsv
      seq2seq doctor runs/tatoeba test.es --target test.en --json
    """
    from seq2seq.analysis.doctor import diagnose, findings_text, healthy

    findings = diagnose(
        arguments.run, arguments.test, target=arguments.target, device=arguments.device
    )
    print(json.dumps(to_json(findings), indent=1) if arguments.json else findings_text(findings))
    return 0 if healthy(findings) else EXIT_FAULT


def _add_faults(parser: argparse.ArgumentParser) -> None:
    options.add_arguments(
        parser, "run", nargs="?", default="runs/quickstart", help="default: runs/quickstart"
    )
    options.add_arguments(parser, "--test", help="test set; default: that of the run's recipe")
    options.add_arguments(parser, "--target")
    parser.add_argument(
        "--sentences", type=options.positive, default=300, metavar="N",
        help="sentences for BLEU; default: 300",
    )  # fmt: skip
    parser.add_argument(
        "--out", metavar="DIR", help="write faults.html and figures to this directory"
    )


def _faults(arguments: argparse.Namespace) -> int:
    """Put famous faults into copies of a model and show heat maps, BLEU and which checks of
    `seq2seq doctor` catch each.

    examples:
      seq2seq faults
      seq2seq faults runs/quickstart --out faults
      seq2seq faults runs/tatoeba --test data/tatoeba/test.tsv --sentences 500
    """
    from seq2seq.analysis.faults import gallery_text, make_gallery, write_gallery
    from seq2seq.analysis.model_checks import make_probe
    from seq2seq.evaluation.evaluate import load_test
    from seq2seq.files import make_folder
    from seq2seq.inference.translator import Translator

    if arguments.out is not None:
        make_folder(Path(arguments.out))
    translator = Translator.load(arguments.run, backend="torch")
    pairs = load_test(arguments.test, translator, target=arguments.target)
    probe = make_probe(translator, pairs, sentences=12)
    gallery = make_gallery(probe, pairs[: arguments.sentences])
    print(gallery_text(gallery))
    if arguments.out is not None:
        test = arguments.test or "its own test set"
        path = write_gallery(Path(arguments.out), gallery, run=arguments.run, test=test)
        log.info("%s", path)
    return 0 if gallery.all_caught else EXIT_FAULT
