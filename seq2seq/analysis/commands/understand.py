"""`seq2seq explain` and `plot`: how a model translates, in tables and pictures."""

from __future__ import annotations

import argparse
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

from seq2seq.analysis import Method
from seq2seq.commands import options
from seq2seq.errors import UserError, missing_package

_NEED_TORCH = ("step", "look", "attribution", "json", "html")  # of the options of explain


def add(commands: options.Commands) -> None:
    _add_explain(options.add_command(commands, "explain", _explain))
    _add_plot(commands)


def _add_explain(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument(
        "--attribution", choices=get_args(Method),
        help="also show what each source piece contributes to log p of a target piece: gradient "
        "times embedding, integrated gradients (from embeddings of zero), or occlusion (the "
        "pieces of its word are left out)",
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
    """Follow one sentence through a model: keys, queries, scores, mask, weights, context.

    examples:
      seq2seq explain runs/quickstart '¿Dónde está el perro?'
      seq2seq explain runs/quickstart '¿Dónde está el perro?' --step 3
      seq2seq explain runs/quickstart 'No lo veo.' --force 'I do not see it.' --words
      seq2seq explain runs/quickstart 'No lo veo.' --look 2:1
      seq2seq explain runs/quickstart 'No lo veo.' --attribution occlusion
      seq2seq explain runs/quickstart 'No lo veo.' --html veo.html --plot veo.png
      seq2seq explain runs/quickstart 'No lo veo.' --json > veo.json
    """
    look = dict(arguments.look)
    for step, position in arguments.look:
        if position != look[step]:
            raise UserError(f"--look {step}:{position}, {step}:{look[step]}: remove one of them")
    if arguments.json and arguments.step:
        raise UserError("--json prints every step; remove --step")
    if not find_spec("torch") and not any(getattr(arguments, name) for name in _NEED_TORCH):
        return _explain_by_graphs(arguments)
    from seq2seq.analysis.explain import explain
    from seq2seq.analysis.heatmaps import attention_figure
    from seq2seq.analysis.plots import check_picture, write_figure
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
        look=look,
        attribution=arguments.attribution,
    )
    if arguments.step and arguments.step > len(found.steps):
        raise UserError(
            f"--step {arguments.step}: the translation has {len(found.steps)} steps (its pieces "
            f"and the end of the sentence); give 1 to {len(found.steps)}"
        )
    if arguments.html:
        write_text(Path(arguments.html), render_page(found, words=arguments.words))
    if arguments.plot:
        figure = attention_figure([found.part], languages=found.languages, words=arguments.words)
        write_figure(figure, Path(arguments.plot))
    if arguments.json:
        print(json.dumps(found.as_json(), ensure_ascii=False, allow_nan=False))
    else:
        print_explanation(found, sys.stdout, number=arguments.step, words=arguments.words)
    for path in filter(None, (arguments.html, arguments.plot)):
        print(path, file=sys.stderr)
    return 0


def _explain_by_graphs(arguments: argparse.Namespace) -> int:
    """Print which source pieces each target piece attends to, without PyTorch."""
    from seq2seq.analysis.heatmaps import attention_lines, plot_sentences
    from seq2seq.inference.translator import Translator

    parts = plot_sentences(
        Translator.load(arguments.run),
        [arguments.sentence],
        arguments.plot and Path(arguments.plot),
        beam=arguments.beam,
        words=arguments.words,
        target=arguments.force,
    )
    for part in parts:
        print(*attention_lines(part, words=arguments.words), sep="\n")
    missing = missing_package(ModuleNotFoundError(name="torch"))
    print(f"keys, queries and scores: {missing}", file=sys.stderr)
    return 0


def _add_plot(commands: options.Commands) -> None:
    text = (
        "Draw attention, learning curves, BLEU by length.\n\n"
        "examples:\n"
        "  seq2seq plot attention runs/quickstart '¿Dónde está el perro?'\n"
        "  seq2seq plot training runs/quickstart\n"
        "  seq2seq plot length runs/quickstart --test data/sample/test.tsv"
    )
    parser = options.add_command(commands, "plot", _plot_attention, text)
    kinds = parser.add_subparsers(required=True, metavar="KIND")

    parser = options.add_command(kinds, "attention", _plot_attention)
    options.add_arguments(parser, "run")
    parser.add_argument(
        "sentences", nargs="+", metavar="SENTENCE", help="sentences of the source language"
    )
    _add_output(parser, "attention.png")
    options.add_arguments(parser, "--beam", "--words")
    parser.add_argument(
        "--force", metavar="TARGET",
        help="draw this translation of the sentence instead of the model's own",
    )  # fmt: skip

    parser = options.add_command(kinds, "training", _plot_training)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run directory")
    _add_output(parser, "training.png")
    parser.add_argument(
        "--x", choices=("steps", "minutes", "tokens"), default="steps",
        help="x axis: updates (default), minutes, or target pieces",
    )  # fmt: skip

    parser = options.add_command(kinds, "length", _plot_length)
    parser.add_argument(
        "runs", nargs="+", metavar="RUN",
        help="run or checkpoint to translate the test set with",
    )  # fmt: skip
    options.add_arguments(parser, "--test", required=True)
    options.add_arguments(parser, "--target", "--beam")
    _add_output(parser, "length.png")


def _add_output(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "-o", "--output", type=Path, default=default, metavar="FILE",
        help=f"PNG, SVG or PDF; default: {default}",
    )  # fmt: skip


def _plot_attention(arguments: argparse.Namespace) -> int:
    """Draw the attention weights of translations as heat maps.

    examples:
      seq2seq plot attention runs/quickstart '¿Dónde está el perro?' -o attention.png
      seq2seq plot attention runs/quickstart 'No lo veo.' 'No la veo.' --words
      seq2seq plot attention runs/quickstart 'No lo veo.' --force 'I do not see it.'
    """
    from seq2seq.analysis.heatmaps import plot_sentences
    from seq2seq.inference.translator import Translator

    translator = Translator.load(arguments.run)
    plot_sentences(
        translator, arguments.sentences, arguments.output, beam=arguments.beam,
        words=arguments.words, target=arguments.force,
    )  # fmt: skip
    print(arguments.output)
    return 0


def _plot_training(arguments: argparse.Namespace) -> int:
    """Draw the learning curves of runs: losses, BLEU and chrF, learning rate.

    examples:
      seq2seq plot training runs/quickstart -o training.png
      seq2seq plot training runs/bahdanau runs/luong --x minutes -o both.svg
    """
    from seq2seq.analysis.plots import plot_training

    plot_training(arguments.runs, arguments.output, unit=arguments.x)
    print(arguments.output)
    return 0


def _plot_length(arguments: argparse.Namespace) -> int:
    """Draw BLEU by source length, with bootstrap bands.

    examples:
      seq2seq plot length runs/quickstart --test data/sample/test.tsv
      seq2seq plot length runs/bahdanau runs/luong --test test.tsv -o length.svg
    """
    from seq2seq.analysis.plots import check_picture, plot_length, run_names
    from seq2seq.evaluation.evaluate import load_test, translate_all
    from seq2seq.inference.translator import Translator

    check_picture(arguments.output)
    translators = list(map(Translator.load, arguments.runs))
    pairs = load_test(arguments.test, translators[0], target=arguments.target)
    systems = {}
    for name, translator in zip(run_names(arguments.runs), translators, strict=True):
        found = translate_all(translator, pairs, translator.options(beam_size=arguments.beam))
        systems[name] = [translation.line for translation in found]
    plot_length(systems, pairs, arguments.output, translators[0].config.data.languages)
    print(arguments.output)
    return 0
