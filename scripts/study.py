#!/usr/bin/env python
"""Train a grid of recipes with several seeds, and compare them in tables."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from seq2seq import cli
from seq2seq.commands.options import EXIT_CODES, Parser, positive
from seq2seq.errors import EXIT_FAULT, UserError, did_you_mean

if TYPE_CHECKING:
    from seq2seq.data.corpus import Pair
    from studies.plan import Cell, Plan

EXAMPLES = """examples:
  python scripts/study.py configs/studies/residual.yaml
  python scripts/study.py configs/studies/residual.yaml --jobs 2
  python scripts/study.py configs/studies/residual.yaml out=/tmp/try seeds=[1] training.max_steps=50
  python scripts/study.py configs/studies/residual.yaml --cell bahdanau_1_with-residual
  python scripts/study.py configs/studies/residual.yaml --gather
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a study as far as the options say; return the exit code, as seq2seq.cli.main does."""
    return cli.main(arguments, make_parser())


def make_parser() -> Parser:
    """Return the parser of the options; `action` is the function to call."""
    parser = Parser(
        prog="study.py", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.set_defaults(action=_study, parser=parser)
    parser.add_argument("study", metavar="STUDY", help="YAML file (docs/study/making.md)")
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value",
        help="change keys of the study, or with section.key=value the recipes of all cells",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", type=positive, default=1, metavar="N",
        help="cells at a time; with several, each is trained in a process with one CPU thread",
    )  # fmt: skip
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--cell", metavar="NAME", help="make only the runs of this cell")
    how.add_argument(
        "--gather", action="store_true", help="only write the results of the finished runs"
    )
    return parser


def _study(arguments: argparse.Namespace) -> int:
    from seq2seq.data.corpus import read_corpus
    from studies.plan import make_plan

    plan = make_plan(arguments.study, arguments.overrides)
    pairs = list(read_corpus(plan.test))
    cells = {cell.name: cell for cell in plan.cells}
    if arguments.cell:
        if arguments.cell not in cells:
            hint = did_you_mean(arguments.cell, cells) or f"; known: {', '.join(cells)}"
            raise UserError(f"--cell: no cell is called {arguments.cell}{hint}")
        return _make([cells[arguments.cell]], plan, pairs)
    code = 0
    if not arguments.gather:
        jobs = arguments.jobs
        code = _make(plan.cells, plan, pairs) if jobs == 1 else _make_in_processes(plan, jobs)
    if code in (0, EXIT_FAULT):
        _gather(plan, pairs)
    return code


def _make(cells: Sequence[Cell], plan: Plan, pairs: Sequence[Pair]) -> int:
    """Make the runs of cells; a cell that fails does not stop the others."""
    from seq2seq.device import keep_few_kernels
    from studies.runs import make_cell

    keep_few_kernels()
    code = 0
    for number, cell in enumerate(cells):
        print(f"{number} of {len(cells)} cells done; next: {cell.name}", file=sys.stderr)
        try:
            ended = make_cell(cell, plan, pairs)
        except UserError as error:
            print(f"study.py: {cell.name} failed: {error}", file=sys.stderr)
            code = EXIT_FAULT
            continue
        if EXIT_CODES[ended]:
            print(f"{ended}; saved. Continue with the same command", file=sys.stderr)
            return EXIT_CODES[ended]
    return code


def _make_in_processes(plan: Plan, jobs: int) -> int:
    """Make the runs of each cell in a process; Ctrl-C interrupts these too, and they save."""

    def make(cell: Cell) -> int:
        output = plan.study.directory / "cells" / cell.name / "output.txt"
        output.parent.mkdir(parents=True, exist_ok=True)
        options = [*plan.changes, "training.threads=1", f"--cell={cell.name}"]
        with output.open("wb") as file:
            code = subprocess.run(
                [sys.executable, __file__, plan.path, *options],
                stdout=file, stderr=file, env={**os.environ, "OMP_NUM_THREADS": "1"},
            ).returncode  # fmt: skip
        print(
            f"{cell.name}: {f'exit code {code}; see {output}' if code else 'done'}", file=sys.stderr
        )
        return code

    with ThreadPoolExecutor(jobs) as pool:
        try:
            codes = list(pool.map(make, plan.cells))
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise
    return EXIT_FAULT if any(codes) else 0


def _gather(plan: Plan, pairs: Sequence[Pair]) -> int:
    from studies.results import gather, main_table, write_results

    results = gather(plan, pairs)
    path = write_results(results)
    print(main_table(results))
    print(f"{results.finished} of {results.runs} runs are finished; {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
