"""Export a run's model as ONNX graphs, or as compact weights from which they are made.

examples:
  seq2seq export runs/quickstart              (into runs/quickstart/graph, as training does)
  seq2seq export runs/quickstart -o copy      (a directory to copy, without weights)
  seq2seq translate copy < spanish.txt
  seq2seq export runs/quickstart -o small --precision int8
  seq2seq translate small --precision int8 < spanish.txt
  seq2seq export runs/quickstart -o compact --compact    (a byte for each weight, and no graphs)
  seq2seq export runs/quickstart -o compact --compact --valid data/sample/valid.tsv
  seq2seq export es-en --web page             (a folder that translates in a browser)
"""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path

from seq2seq.commands import options
from seq2seq.errors import UserError


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "export", _export, __doc__)
    options.add_arguments(parser, "run", help="run directory (its best checkpoint) or checkpoint")
    parser.add_argument(
        "-o", "--output", metavar="DIR",
        help="write graphs, tokenizers and recipe into this directory, which translate takes as "
        "RUN; default: write the graphs into RUN/graph",
    )  # fmt: skip
    parser.add_argument(
        "--precision", choices=("fp32", "int8"),
        help="number format of matrix products; int8 graphs are a third as large or less; "
        "default: both",
    )  # fmt: skip
    parser.add_argument(
        "--compact", action="store_true",
        help="write int8 weights instead of graphs, which are then made at the first use; such a "
        "directory is a quarter of the fp32 weights and can be fine-tuned; requires --output",
    )  # fmt: skip
    parser.add_argument(
        "--valid", metavar="FILE",
        help="measure on this validation set (TSV: source, target; or the source side) "
        "how much BLEU int8 costs, which decides what --precision auto uses; default: what "
        "training measured when it ended",
    )  # fmt: skip
    parser.add_argument(
        "--web", metavar="DIR",
        help="write the page of `seq2seq serve` and the model (default: in int8) into this "
        "directory, for any web server: it translates in the browser",
    )  # fmt: skip
    parser.add_argument(
        "--libraries", metavar="DIR",
        help="keep the packages of --web, which npm downloads, in this directory",
    )  # fmt: skip
    options.add_arguments(parser, "--target", "--json")


def _export(arguments: argparse.Namespace) -> int:
    from seq2seq.onnx.export import export, export_compact, read_valid
    from seq2seq.onnx.graphs import PRECISIONS

    if arguments.web:
        return _export_web(arguments)
    if arguments.libraries:
        raise UserError("--libraries requires --web DIR")
    if arguments.valid and arguments.precision:
        raise UserError("--valid compares both precisions; leave out --precision")
    if arguments.target and not arguments.valid:
        raise UserError("--target requires --valid FILE")
    if arguments.compact:
        if arguments.precision:
            raise UserError("--compact writes no graphs; remove --precision")
        if not arguments.output:
            raise UserError("--compact requires --output DIR")
    valid = []
    if arguments.valid:
        valid = read_valid(arguments.run, arguments.valid, target=arguments.target)
    if arguments.compact:
        checkpoint = export_compact(arguments.run, arguments.output, valid=valid)
        folder, about, files = Path(arguments.output), checkpoint.state, checkpoint.path
    else:
        precisions = (arguments.precision,) if arguments.precision else PRECISIONS
        graphs = export(arguments.run, arguments.output, precisions, valid=valid)
        folder, about, files = graphs.path.parent, graphs.meta, graphs.path
    sizes = {path.name: path.stat().st_size for path in sorted(files.iterdir())}
    costs = {name: about.get(f"{name}_bleu_loss") for name in ("compact", "int8")}
    if arguments.json:
        found = {"path": str(files), "bytes": sizes}
        print(json.dumps(found | {f"{n}_bleu_loss": cost for n, cost in costs.items()}, indent=1))
        return 0
    for name, size in sizes.items():
        print(f"{files / name}  {size / 1e6:.1f} MB")
    for name, cost in costs.items():
        if cost is not None:
            words = "int8 graphs" if name == "int8" else "int8 weights"
            print(f"{words}: {abs(cost):.2f} BLEU {'less' if cost > 0 else 'more'} (validation)")
    print(f"translate with: seq2seq translate {folder}")
    return 0


def _export_web(arguments: argparse.Namespace) -> int:
    for name in ("output", "compact", "valid", "target", "json"):
        if getattr(arguments, name):
            raise UserError(f"--web writes a folder of its own; remove --{name}")
    # By its name: the core does without the wing.
    static = import_module("seq2seq.serving.static")
    precision, libraries = arguments.precision or "int8", arguments.libraries
    folder = static.export_web(arguments.run, arguments.web, precision, libraries)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}  {size / 1e6:.1f} MB")
    print(f"try it at http://localhost:8000 with: python -m http.server -d {folder}")
    return 0
