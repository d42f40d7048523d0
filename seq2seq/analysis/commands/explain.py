"""Follow one sentence through a model: keys, queries, scores, mask, weights, context.

examples:
  seq2seq explain runs/quickstart '¿Dónde está el perro?'
  seq2seq explain runs/quickstart '¿Dónde está el perro?' --step 3
  seq2seq explain runs/quickstart 'No lo veo.' --force 'I do not see it.' --words
  seq2seq explain runs/quickstart 'No lo veo.' --look 2:1
  seq2seq explain runs/quickstart 'No lo veo.' --html veo.html --plot veo.png
  seq2seq explain runs/quickstart 'No lo veo.' --json > veo.json
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from seq2seq.commands import options
from seq2seq.errors import UserError


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "explain", __doc__, action=_explain)
    options.add_arguments(parser, "run")
    parser.add_argument("sentence", metavar="SENTENCE", help="a sentence of the source language")
    parser.add_argument(
        "--step", type=options.positive, metavar="N",
        help="show this step in full (from 1); default: the first step, and a row for each one",
    )  # fmt: skip
    options.add_arguments(parser, "--beam")
    parser.add_argument(
        "--force", metavar="TARGET", help="explain this translation instead of the model's own"
    )
    parser.add_argument(
        "--look", type=_look, action="append", default=[], metavar="STEP:POSITION",
        help="what would follow if at this step (from 1) all the weight was on the source piece at "
        "this position (from 1); the pieces before the step are kept; may be repeated",
    )  # fmt: skip
    options.add_arguments(parser, "--words")
    options.add_arguments(
        parser, "--json", help="print all tensors instead of tables, to recompute them with NumPy"
    )
    parser.add_argument("--html", metavar="FILE", help="write an interactive page, in one file")
    parser.add_argument("--plot", metavar="FILE", help="draw the weights: PNG, SVG or PDF")


def _look(text: str) -> tuple[int, int]:
    step, _, position = text.partition(":")
    try:
        return options.positive(step), options.positive(position)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"expected a step and a position, such as 2:1, found '{text}'"
        ) from None


def _explain(arguments: argparse.Namespace) -> int:
    from seq2seq.analysis.explain import explain
    from seq2seq.analysis.heatmaps import plot_attention
    from seq2seq.analysis.plots import check_picture
    from seq2seq.analysis.show import print_explanation, render_page
    from seq2seq.evaluation.evaluate import write_text
    from seq2seq.files import check_writable
    from seq2seq.inference.translator import Translator

    if arguments.html:
        check_writable(Path(arguments.html))
    if arguments.plot:
        check_picture(Path(arguments.plot))
    # One sentence is quick on any device, and the CPU is the most reproducible one.
    translator = Translator.load(arguments.run, device="cpu", backend="torch")
    found = explain(
        translator,
        arguments.sentence,
        beam=arguments.beam,
        target=arguments.force,
        look=dict(arguments.look),
    )
    if arguments.step and arguments.step > len(found.steps):
        raise UserError(
            f"--step {arguments.step}: the translation has {len(found.steps)} steps (its pieces "
            f"and the end of the sentence); give 1 to {len(found.steps)}"
        )
    if arguments.html:
        write_text(Path(arguments.html), render_page(found, words=arguments.words))
    if arguments.plot:
        plot_attention(
            [found.part], Path(arguments.plot), languages=found.languages, words=arguments.words
        )
    if arguments.json:
        print(json.dumps(found.as_json(), ensure_ascii=False, allow_nan=False))
    else:
        print_explanation(found, sys.stdout, number=arguments.step, words=arguments.words)
    for path in filter(None, (arguments.html, arguments.plot)):
        print(path, file=sys.stderr)
    return 0
