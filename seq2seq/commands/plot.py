"""`seq2seq plot`: pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

from seq2seq.commands.parser import Commands, add_command, positive


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "plot",
        help="draw pictures",
        epilog="example: seq2seq plot attention runs/quickstart '¿Dónde está el perro?'",
    )
    kinds = parser.add_subparsers(required=True, metavar="KIND")
    attention = add_command(
        kinds,
        "attention",
        "draw the attention weights of a sentence's translation as a heat map",
        "seq2seq plot attention runs/quickstart '¿Dónde está el perro?' -o attention.png",
        action=_plot_attention,
    )
    attention.add_argument("run", metavar="RUN")
    attention.add_argument("sentence", metavar="SENTENCE")
    attention.add_argument(
        "-o", "--output", default="attention.png", metavar="FILE", help="PNG, SVG or PDF"
    )
    attention.add_argument("--beam", type=positive, metavar="N")


def _plot_attention(arguments: argparse.Namespace) -> int:
    from seq2seq.evaluation.plots import plot_sentence
    from seq2seq.inference.translator import Translator

    path = Path(arguments.output)
    plot_sentence(Translator.load(arguments.run), arguments.sentence, path, beam=arguments.beam)
    print(path)
    return 0
