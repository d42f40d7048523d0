"""Export a run's model as ONNX graphs, which translate without PyTorch.

examples:
  seq2seq export runs/quickstart              (into runs/quickstart/graph, as training does)
  seq2seq export runs/quickstart -o es-en     (a directory to copy, without weights)
  seq2seq translate es-en < spanish.txt
  seq2seq export runs/quickstart -o small --precision int8
  seq2seq translate small --precision int8 < spanish.txt
"""

from __future__ import annotations

import argparse
import json

from seq2seq.commands import options


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "export", __doc__, action=_export)
    parser.add_argument(
        "run", metavar="RUN", help="run directory (its best checkpoint) or checkpoint"
    )
    parser.add_argument(
        "-o", "--output", metavar="DIR",
        help="write graphs, tokenizers and recipe into this directory, which translate takes as "
        "RUN; default: write the graphs into RUN/graph",
    )  # fmt: skip
    parser.add_argument(
        "--precision", choices=("fp32", "int8"),
        help="number format of matrix products; int8 graphs are a third as large or less, and need "
        "a processor with VNNI; default: both",
    )  # fmt: skip
    options.add_json(parser)


def _export(arguments: argparse.Namespace) -> int:
    from seq2seq.exporting import export
    from seq2seq.runs.graphs import PRECISIONS

    precisions = (arguments.precision,) if arguments.precision else PRECISIONS
    graphs = export(arguments.run, arguments.output, precisions)
    sizes = {path.name: path.stat().st_size for path in sorted(graphs.path.iterdir())}
    cost = graphs.meta.get("int8_bleu_loss")
    if arguments.json:
        found = {"path": str(graphs.path), "bytes": sizes, "int8_bleu_loss": cost}
        print(json.dumps(found, indent=1))
        return 0
    for name, size in sizes.items():
        print(f"{graphs.path / name}  {size / 1e6:.1f} MB")
    if cost is not None:
        print(f"int8: {abs(cost):.2f} BLEU {'less' if cost > 0 else 'more'} than fp32 (validation)")
    print(f"translate with: seq2seq translate {graphs.path.parent}")
    return 0
