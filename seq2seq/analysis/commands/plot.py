"""`seq2seq plot`: draw attention, learning curves, and BLEU by source length."""

from __future__ import annotations

import argparse
from pathlib import Path

from seq2seq.commands import options
from seq2seq.errors import UserError


def add(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "plot",
        help="draw attention, learning curves, BLEU by length",
        description="Draw attention, learning curves, BLEU by length.",
        epilog="examples:\n"
        "  seq2seq plot attention runs/quickstart '¿Dónde está el perro?'\n"
        "  seq2seq plot training runs/quickstart\n"
        "  seq2seq plot length runs/quickstart --test data/sample/test.tsv",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = parser.add_subparsers(required=True, metavar="KIND")
    _add_attention(kinds)
    _add_training(kinds)
    _add_length(kinds)


def _add_attention(kinds: options.Commands) -> None:
    parser = options.add_command(
        kinds,
        "attention",
        "Draw the attention weights of translations as heat maps.\n\n"
        "examples:\n"
        "  seq2seq plot attention runs/quickstart '¿Dónde está el perro?' -o attention.png\n"
        "  seq2seq plot attention runs/quickstart 'No lo veo.' 'No la veo.' --words\n"
        "  seq2seq plot attention runs/quickstart 'No lo veo.' --force 'I do not see it.'\n"
        "  seq2seq plot attention runs/quickstart -i spanish.txt -o grid.pdf",
        action=_plot_attention,
    )
    options.add_arguments(parser, "run")
    parser.add_argument(
        "sentences", nargs="*", metavar="SENTENCE", help="sentences of the source language"
    )
    parser.add_argument("-i", "--input", metavar="FILE", help="file of sentences, one per line")
    _add_output(parser, "attention.png")
    options.add_arguments(parser, "--beam", "--words")
    parser.add_argument(
        "--force", metavar="TARGET",
        help="draw this translation of the sentence instead of the model's own",
    )  # fmt: skip


def _add_training(kinds: options.Commands) -> None:
    parser = options.add_command(
        kinds,
        "training",
        "Draw the learning curves of runs: losses, BLEU and chrF, learning rate.\n\n"
        "examples:\n"
        "  seq2seq plot training runs/quickstart -o training.png\n"
        "  seq2seq plot training runs/bahdanau runs/luong --x minutes -o both.svg",
        action=_plot_training,
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run directory")
    _add_output(parser, "training.png")
    parser.add_argument(
        "--x", choices=("steps", "minutes", "tokens"), default="steps",
        help="x axis: updates (default), minutes, or target pieces",
    )  # fmt: skip


def _add_length(kinds: options.Commands) -> None:
    parser = options.add_command(
        kinds,
        "length",
        "Draw BLEU by source length, with bootstrap bands.\n\n"
        "examples:\n"
        "  seq2seq plot length runs/quickstart --test data/sample/test.tsv\n"
        "  seq2seq plot length runs/bahdanau runs/luong --test test.tsv -o length.svg\n"
        "  seq2seq plot length runs/bahdanau/test.hypotheses.txt other.txt --test test.tsv",
        action=_plot_length,
    )
    parser.add_argument(
        "systems", nargs="+", metavar="RUN",
        help="run or checkpoint to translate the test set with, or a file of translations, such "
        "as seq2seq evaluate writes",
    )  # fmt: skip
    options.add_arguments(parser, "--test", required=True)
    options.add_arguments(parser, "--target")
    parser.add_argument(
        "--buckets",
        type=options.positive,
        default=6,
        metavar="N",
        help="number of length buckets; default: 6",
    )
    options.add_arguments(parser, "--beam")
    _add_output(parser, "length.png")


def _add_output(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "-o", "--output", default=default, metavar="FILE",
        help=f"PNG, SVG or PDF; default: {default}",
    )  # fmt: skip


def _plot_attention(arguments: argparse.Namespace) -> int:
    from seq2seq.analysis.heatmaps import plot_sentences
    from seq2seq.data.corpus import read_lines
    from seq2seq.inference.translator import Translator

    sentences = list(arguments.sentences)
    if arguments.input is not None:
        if sentences:
            raise UserError("sentences both as arguments and with -i FILE; use only one of them")
        sentences = [line.text for line in read_lines(arguments.input) if line.text.strip()]
    if not sentences:
        raise UserError("no sentence to draw; give sentences, or -i FILE with one per line")
    path = Path(arguments.output)
    translator = Translator.load(arguments.run)
    plot_sentences(
        translator, sentences, path, beam=arguments.beam, words=arguments.words,
        target=arguments.force,
    )  # fmt: skip
    print(path)
    return 0


def _plot_training(arguments: argparse.Namespace) -> int:
    from seq2seq.analysis.plots import plot_training

    path = Path(arguments.output)
    plot_training(arguments.runs, path, unit=arguments.x)
    print(path)
    return 0


def _plot_length(arguments: argparse.Namespace) -> int:
    from seq2seq.analysis.plots import check_picture, plot_length, run_names
    from seq2seq.evaluation.evaluate import read_systems

    path = Path(arguments.output)
    check_picture(path)
    pairs, systems = read_systems(
        arguments.systems, arguments.test, target=arguments.target, beam=arguments.beam
    )
    names = run_names(arguments.systems)
    plot_length(dict(zip(names, systems, strict=True)), pairs, path, buckets=arguments.buckets)
    print(path)
    return 0
