"""`seq2seq train`: a recipe becomes a run."""

from __future__ import annotations

import argparse
import shlex
import sys

from seq2seq.commands.parser import EXIT_INTERRUPTED, EXIT_TERMINATED, Commands, add_command


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "train",
        "train a translator from a recipe",
        "seq2seq train configs/quickstart.yaml\n"
        "seq2seq train configs/quickstart.yaml run_dir=runs/luong model.style=luong\n"
        "seq2seq train configs/quickstart.yaml --resume\n"
        "seq2seq reference                       (every key with its default)",
        action=_train,
    )
    parser.add_argument("config", help="YAML file of a recipe")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="changed keys")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
    how.add_argument("--overwrite", action="store_true", help="delete the run that is there")


def _train(arguments: argparse.Namespace) -> int:
    from seq2seq.config import load_config
    from seq2seq.pipeline import train

    config = load_config(arguments.config, arguments.overrides)
    ended = train(config, resume=arguments.resume, overwrite=arguments.overwrite)
    if ended in ("interrupted", "terminated"):
        again = shlex.join([arguments.config, *arguments.overrides])
        print(f"{ended}; saved. Go on with: seq2seq train {again} --resume", file=sys.stderr)
        return EXIT_INTERRUPTED if ended == "interrupted" else EXIT_TERMINATED
    why = "no better metric for training.patience validations" if ended == "early" else "done"
    translate = shlex.join(["seq2seq", "translate", config.run_dir])
    print(f"training ended: {why}. Translate with: {translate}", file=sys.stderr)
    return 0
