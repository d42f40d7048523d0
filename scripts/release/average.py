"""Average the weights of trainings that began at the same weights, as a run of its own.

    python scripts/release/average.py runs/a runs/b runs/c/checkpoints/step-007000 -o runs/mean

Takes each run's best checkpoint, or the one that the path names. Recipe and tokenizers are those of
the first run. The step is the sum of all steps. Such a mean often translates better than each of
the trainings (model soups, Wortsman et al. 2022).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))  # scripts/

from seq2seq import cli
from seq2seq.commands.options import Parser
from seq2seq.errors import DataError
from seq2seq.export import export
from seq2seq.files import remove_directory
from seq2seq.packaged import find_run
from seq2seq.runs.checkpoint import Checkpoint, average_weights, save_checkpoint
from seq2seq.runs.directory import RunDirectory, find_checkpoint


def average(runs: Sequence[str], output: Path) -> Checkpoint:
    """Write the mean of the runs' weights as a run of its own; return its only checkpoint.

    Raises DataError for weights of other names or shapes than those of the first run, and as
    `export` does.
    """
    found = [find_checkpoint(find_run(run)) for run in runs]
    for run, checkpoint in zip(runs, found, strict=True):
        if checkpoint.shapes() != found[0].shapes():
            raise DataError(f"{run}: weights of other shapes than those of {runs[0]}")
    step = sum(checkpoint.step for checkpoint in found)
    return write_run(runs[0], output, average_weights(found), step)


def write_run(run: str, output: Path, weights: Mapping[str, Tensor], step: int) -> Checkpoint:
    """Write these weights as the only checkpoint of a run with a run's recipe and tokenizers.

    Raises as `export` does, which refuses a folder that is something else.
    """
    export(run, output, ())
    target = RunDirectory(output)
    remove_directory(target.checkpoints)
    target.checkpoints.mkdir()
    state = {"step": step, "validation": {}}
    return save_checkpoint(target.checkpoint_path(step), weights, {}, state)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code, as seq2seq.cli.main does."""
    parser = Parser(
        prog="average.py", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.set_defaults(action=_average, parser=parser)
    parser.add_argument("runs", metavar="RUN", nargs="+")
    parser.add_argument("-o", "--output", required=True, type=Path, help="the folder of the mean")
    return cli.main(arguments, parser)


def _average(given: argparse.Namespace) -> int:
    print(average(given.runs, given.output).path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
