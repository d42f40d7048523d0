"""Copy a run for translating only, compact or with ONNX files for other programs.

examples:
  seq2seq export runs/quickstart -o copy      (with ONNX files in copy/graph)
  seq2seq translate copy < spanish.txt
  seq2seq export runs/quickstart -o compact --compact    (a byte for each weight)
  seq2seq export runs/quickstart -o compact --compact --valid data/sample/valid.tsv
  seq2seq export es-en --web page             (a folder that translates in a browser)
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from seq2seq.commands import options
from seq2seq.errors import UserError
from seq2seq.wings import offered


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "export", _export, __doc__)
    options.add_arguments(parser, "run", help="run directory (its best checkpoint) or checkpoint")
    parser.add_argument(
        "-o", "--output", metavar="DIR",
        help="write weights, tokenizers, recipe and ONNX files into this directory; commands take "
        "it as RUN",
    )  # fmt: skip
    parser.add_argument(
        "--precision", choices=("fp32", "int8"),
        help="number format of matrix products in the ONNX files; int8 files are a third as large "
        "or less; default: both",
    )  # fmt: skip
    parser.add_argument(
        "--compact",
        action="store_true",
        help="write int8 weights, a quarter of the fp32 weights, and no ONNX files",
    )
    parser.add_argument(
        "--valid", metavar="FILE",
        help="measure how much BLEU int8 costs on this validation set (TSV: source, target; or the "
        "source side); it decides what --precision auto uses; default: as measured at the end of "
        "training, except with --compact",
    )  # fmt: skip
    parser.add_argument(
        "--web", metavar="DIR",
        help="write the page of `seq2seq serve` and the model (default: in int8) into this "
        "directory, for any web server: it translates in the browser",
    )  # fmt: skip
    parser.add_argument(
        "--libraries", metavar="DIR",
        help="keep the packages that npm downloads for --web in this directory",
    )  # fmt: skip
    options.add_arguments(parser, "--target", "--json")


def _export(arguments: argparse.Namespace) -> int:
    from seq2seq.export import export, read_valid
    from seq2seq.onnx import PRECISIONS
    from seq2seq.runs.directory import RunDirectory

    if arguments.web:
        return _export_web(arguments)
    if arguments.libraries:
        raise UserError("--libraries requires --web DIR")
    if not arguments.output:
        raise UserError("export requires --output DIR or --web DIR")
    if arguments.target and not arguments.valid:
        raise UserError("--target requires --valid FILE")
    if arguments.compact and arguments.precision:
        raise UserError("--compact writes no ONNX files; remove --precision")
    valid = []
    if arguments.valid:
        valid = read_valid(arguments.run, arguments.valid, target=arguments.target)
    precisions = (arguments.precision,) if arguments.precision else PRECISIONS
    checkpoint = export(
        arguments.run, arguments.output, precisions, compact=arguments.compact, valid=valid
    )
    run = RunDirectory(Path(arguments.output))
    folders = [checkpoint.path, *([] if arguments.compact else [run.graphs])]
    files = [path for folder in folders for path in sorted(folder.iterdir())]
    sizes = {path: path.stat().st_size for path in files}
    costs = {name: checkpoint.state.get(f"{name}_bleu_loss") for name in ("compact", "int8")}
    if arguments.json:
        found = {str(path.relative_to(run.path)): size for path, size in sizes.items()}
        about = {"path": str(run.path), "checkpoint": checkpoint.path.name, "bytes": found}
        print(json.dumps(about | {f"{n}_bleu_loss": cost for n, cost in costs.items()}, indent=1))
        return 0
    for path, size in sizes.items():
        print(f"{path}  {size / 1e6:.1f} MB")
    for name, cost in costs.items():
        if cost is not None:
            words = "products in int8" if name == "int8" else "int8 weights"
            print(f"{words}: {abs(cost):.2f} BLEU {'less' if cost > 0 else 'more'} (validation)")
    print(f"translate with: seq2seq translate {run.path}")
    return 0


def _export_web(arguments: argparse.Namespace) -> int:
    for name in ("output", "compact", "valid", "target", "json"):
        if getattr(arguments, name):
            raise UserError(f"--web writes a folder of its own; remove --{name}")
    precision, libraries = arguments.precision or "int8", arguments.libraries
    static = offered("static", "seq2seq.serving")
    folder = static.export_web(arguments.run, arguments.web, precision, libraries)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}  {size / 1e6:.1f} MB")
    print(f"try it at http://localhost:8000 with: python -m http.server -d {folder}")
    return 0
