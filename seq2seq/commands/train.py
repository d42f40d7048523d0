"""`seq2seq train`: a recipe becomes a run."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from seq2seq.commands.options import (
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    Commands,
    add_command,
    from_zero,
    positive,
)
from seq2seq.errors import DiskError, RankLostError


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "train",
        "train a translator from a recipe",
        "seq2seq train configs/quickstart.yaml\n"
        "seq2seq train configs/quickstart.yaml run_dir=runs/luong model.style=luong\n"
        "seq2seq train configs/quickstart.yaml --resume\n"
        "seq2seq train configs/tatoeba.yaml --processes 4\n"
        "torchrun --nproc-per-node 4 -m seq2seq train configs/tatoeba.yaml\n"
        "seq2seq reference                       (every key with its default)",
        action=_train,
    )
    parser.add_argument("config", help="YAML file of a recipe")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="changed keys")
    parser.add_argument(
        "--processes", type=positive, metavar="N",
        help="train in N processes that share each batch; for several machines use torchrun",
    )  # fmt: skip
    parser.add_argument(
        "--restarts", type=from_zero, default=0, metavar="N",
        help="with --processes: how often to go on by itself after a process has died",
    )  # fmt: skip
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
    how.add_argument("--overwrite", action="store_true", help="delete the run that is there")


def _train(arguments: argparse.Namespace) -> int:
    from seq2seq.config import load_config
    from seq2seq.pipeline import check_directory, train

    config = load_config(arguments.config, arguments.overrides)
    if arguments.processes:
        from seq2seq.parallel import launch

        if arguments.restarts:  # each start would tell the same mistake
            check_directory(config, resume=arguments.resume, overwrite=arguments.overwrite)
        how = [f"--{name}" for name in ("resume", "overwrite") if getattr(arguments, name)]
        command = ["train", arguments.config, *arguments.overrides, *how]
        return launch(arguments.processes, command, restarts=arguments.restarts)
    try:
        ended = train(config, resume=arguments.resume, overwrite=arguments.overwrite)
    except BrokenPipeError:
        raise
    except RankLostError as error:
        raise RankLostError(f"{error}. Go on with: {_again(arguments, config.run_dir)}") from None
    except OSError as error:
        where = ": ".join(str(part) for part in (error.filename, error.strerror or error) if part)
        raise DiskError(
            f"{where}; when that is mended, go on with: {_again(arguments, config.run_dir)}"
        ) from None
    return _tell(ended, arguments, config.run_dir)


def _again(arguments: argparse.Namespace, run_dir: str) -> str:
    """Return the command that goes on, or that starts where there is nothing yet to go on from."""
    begun = Path(run_dir, "config.yaml").exists()
    command = ["seq2seq", "train", arguments.config, *arguments.overrides]
    return shlex.join(command) + (" --resume" if begun else "")


def _tell(ended: str, arguments: argparse.Namespace, run_dir: str) -> int:
    """Say why training ended and what comes next, once for all processes; return the exit code."""
    code = {"interrupted": EXIT_INTERRUPTED, "terminated": EXIT_TERMINATED}.get(ended, 0)
    if int(os.environ.get("RANK", "0")):
        return code
    if code:
        message = f"{ended}; saved. Go on with: {_again(arguments, run_dir)}"
    else:
        why = "no better metric for training.patience validations" if ended == "early" else "done"
        message = f"training ended: {why}. Translate with: seq2seq translate {shlex.quote(run_dir)}"
    print(message, file=sys.stderr)
    return code
