#!/usr/bin/env python
"""Train a grid of recipes with several seeds, and compare them in a table and figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seq2seq import cli
from seq2seq.commands.options import EXIT_CODES, Parser, positive
from seq2seq.errors import EXIT_FAULT

if TYPE_CHECKING:
    from seq2seq.data.corpus import Pair
    from studies.plan import Plan

EXAMPLES = """examples:
  python scripts/study.py configs/studies/residual.yaml
  python scripts/study.py configs/studies/residual.yaml --jobs 2
  python scripts/study.py configs/studies/residual.yaml out=/tmp/try seeds=[1] training.max_steps=50
  python scripts/study.py configs/studies/residual.yaml --list
  python scripts/study.py configs/studies/residual.yaml --launcher > commands.txt
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
    parser.add_argument("study", metavar="STUDY", help="YAML file of a study (docs/study.md)")
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value",
        help="change keys of the study, or with section.key=value the recipes of all cells",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", type=positive, default=1, metavar="N",
        help="runs at a time; with several, each has one CPU thread",
    )  # fmt: skip
    parser.add_argument(
        "--overwrite", action="store_true", help="retrain the runs whose recipe has changed"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--list", action="store_true", help="list the runs and their state")
    how.add_argument(
        "--launcher", action="store_true",
        help="print a command for each unfinished run, one per line, for job arrays",
    )  # fmt: skip
    how.add_argument(
        "--cell", action="append", metavar="NAME",
        help="make only the runs of this cell, or one run (NAME/seed-N); can be repeated",
    )  # fmt: skip
    how.add_argument(
        "--gather", action="store_true", help="only write the results of the finished runs"
    )
    return parser


def _study(arguments: argparse.Namespace) -> int:
    from seq2seq.data.corpus import read_corpus
    from studies.plan import make_plan
    from studies.runs import decide, launcher_line, run_study, unfinished

    plan = make_plan(arguments.study, arguments.overrides)
    pairs = list(read_corpus(plan.test))
    if arguments.gather:
        return _gather(plan, pairs)
    plan = decide(plan, pairs)
    if arguments.list:
        return _list(plan, pairs)
    if arguments.launcher:
        for run in unfinished(plan, pairs, overwrite=arguments.overwrite):
            print(launcher_line(plan, run, overwrite=arguments.overwrite))
        return 0
    if arguments.cell:
        return _make(plan, pairs, arguments)
    ended, failed = run_study(plan, pairs, jobs=arguments.jobs, overwrite=arguments.overwrite)
    if ended != "finished":
        jobs = ["--jobs", str(arguments.jobs)] if arguments.jobs > 1 else []
        return _stopped(ended, plan, *jobs, overwrite=arguments.overwrite)
    for name, why in failed.items():
        print(f"study.py: {name} failed: {why}", file=sys.stderr)
    if len(failed) < len(plan.runs):
        _gather(plan, pairs)
    return EXIT_FAULT if failed else 0


def _list(plan: Plan, pairs: Sequence[Pair]) -> int:
    from studies.runs import statuses

    found = statuses(plan, pairs)
    for name, status in found.items():
        rest = status.changes
        if status.state == "finished" and status.result:
            rest = f"BLEU {status.result.bleu:.1f}, {status.result.minutes:.1f} min"
        print(f"{status.state:<12} {name}  {rest}".rstrip())
    done = sum(status.state == "finished" for status in found.values())
    print(f"{done} of {len(found)} runs are finished; {plan.study.directory}", file=sys.stderr)
    return 0


def _make(plan: Plan, pairs: Sequence[Pair], arguments: argparse.Namespace) -> int:
    from seq2seq.device import keep_few_kernels
    from studies.runs import complete, decide

    keep_few_kernels()
    overwrite, made = arguments.overwrite, set[str]()
    while left := [run for run in plan.select(arguments.cell) if run.name not in made]:
        for run in left:
            ended = complete(run, plan.study, pairs, overwrite=overwrite, others=plan.runs)
            if ended in ("interrupted", "terminated"):
                cells = (f"--cell={name}" for name in arguments.cell)
                return _stopped(ended, plan, *cells, overwrite=overwrite)
            made.add(run.name)
        if plan.undecided.isdisjoint(arguments.cell):
            break
        plan = decide(plan, pairs)  # now that a cell's values are tried, its other seeds follow
    return 0


def _gather(plan: Plan, pairs: Sequence[Pair]) -> int:
    from studies.results import gather, main_table, write_results

    results = gather(plan, pairs)
    path = write_results(results)
    print(main_table(results))
    print(
        f"{results.finished} of {len(results.plan.runs)} runs are finished; {path}", file=sys.stderr
    )
    return 0


def _stopped(ended: str, plan: Plan, *options: str, overwrite: bool) -> int:
    again = plan.command(*options, *(["--overwrite"] if overwrite else []))
    print(f"{ended}; saved. Continue with: {again}", file=sys.stderr)
    return EXIT_CODES[ended]


if __name__ == "__main__":
    sys.exit(main())
