"""Put famous faults into copies of a model and show heat maps, BLEU and which checks of `seq2seq
doctor` catch each.

examples:
  seq2seq faults
  seq2seq faults runs/quickstart --out faults
  seq2seq faults runs/tatoeba --test data/tatoeba/test.tsv --sentences 500
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from seq2seq.commands import options
from seq2seq.errors import EXIT_FAULT

log = logging.getLogger(__name__)


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "faults", __doc__, action=_faults)
    parser.add_argument(
        "run", metavar="RUN", nargs="?", default="runs/quickstart", help="default: runs/quickstart"
    )
    options.add_arguments(parser, "--test", help="test set; default: that of the run's recipe")
    options.add_arguments(parser, "--target")
    parser.add_argument(
        "--sentences",
        type=options.positive,
        default=300,
        metavar="N",
        help="sentences for BLEU; default: 300",
    )
    parser.add_argument(
        "--out", metavar="DIR", help="write faults.html and figures to this directory"
    )


def _faults(arguments: argparse.Namespace) -> int:
    from seq2seq.analysis.doctor import read_pairs
    from seq2seq.analysis.fault_gallery import gallery_text, make_gallery, write_gallery
    from seq2seq.analysis.model_checks import make_probe
    from seq2seq.files import make_folder
    from seq2seq.inference.translator import Translator

    if arguments.out is not None:
        make_folder(Path(arguments.out))
    translator = Translator.load(arguments.run, backend="torch")
    pairs = read_pairs(translator, arguments.test, target=arguments.target)
    probe = make_probe(translator, pairs, sentences=12)
    gallery = make_gallery(probe, pairs[: arguments.sentences])
    print(gallery_text(gallery))
    if arguments.out is not None:
        test = arguments.test or "its own test set"
        path = write_gallery(Path(arguments.out), gallery, run=arguments.run, test=test)
        log.info("%s", path)
    return 0 if gallery.all_caught else EXIT_FAULT
