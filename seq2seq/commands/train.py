"""Train a translator from a recipe.

examples:
  seq2seq train configs/quickstart.yaml
  seq2seq train configs/quickstart.yaml run_dir=runs/luong model.style=luong
  seq2seq train configs/quickstart.yaml --resume
  seq2seq train configs/finetune.yaml --from es-en
  seq2seq train configs/tatoeba.yaml --processes 4
  torchrun --nproc-per-node 4 -m seq2seq train configs/tatoeba.yaml
  seq2seq train configs/general.yaml --show-pairs 20
  seq2seq reference                       (every key with its default)
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.commands import options
from seq2seq.errors import DiskError, RankLostError, UserError, system_error

if TYPE_CHECKING:
    from seq2seq.config import Config


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "train", _train, __doc__)
    parser.add_argument("config", help="YAML file of a recipe, or the name of a packaged one")
    parser.add_argument(
        "overrides", nargs="*", metavar="section.key=value", help="keys that replace the recipe's"
    )
    parser.add_argument(
        "--processes", type=options.positive, metavar="N",
        help="train in N processes that split each batch; for several machines use torchrun",
    )  # fmt: skip
    parser.add_argument(
        "--restarts", type=options.from_zero, default=0, metavar="N",
        help="with --processes: resume automatically up to N times after a process died",
    )  # fmt: skip
    parser.add_argument(
        "--from", dest="initial", metavar="RUN",
        help="start from the weights and tokenizers of this run (its best checkpoint) or "
        "checkpoint; the recipe need not repeat the model (docs/finetuning.md)",
    )  # fmt: skip
    parser.add_argument(
        "--new-tokenizers", action="store_true",
        help="with --from: train tokenizers of the recipe's own (training.initial.new_tokenizers)",
    )  # fmt: skip
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--show-pairs", type=options.positive, metavar="N",
        help="print N pairs as training will see them, and the originals of those that "
        "data.augmentation changes; train nothing",
    )  # fmt: skip
    how.add_argument("--resume", action="store_true", help="continue from the latest checkpoint")
    how.add_argument("--overwrite", action="store_true", help="delete an existing run first")


def _train(arguments: argparse.Namespace) -> int:
    from seq2seq.config import InitialConfig, load_config
    from seq2seq.device import keep_few_kernels
    from seq2seq.packaged import find_recipe
    from seq2seq.pipeline import check_start, train
    from seq2seq.processes import launch, launch_name

    keep_few_kernels()
    config = load_config(find_recipe(arguments.config), arguments.overrides)
    initial = config.training.initial
    if arguments.initial is not None:
        if arguments.resume:
            raise UserError("--from starts a run; --resume continues one: use one of them")
        new = initial is not None and initial.new_tokenizers
        initial = InitialConfig(run=arguments.initial, new_tokenizers=new)
    if arguments.new_tokenizers:
        if initial is None:
            raise UserError("--new-tokenizers requires --from RUN; other runs train their own")
        initial = initial.model_copy(update={"new_tokenizers": True})
    if initial is not config.training.initial:
        training = config.training.model_copy(update={"initial": initial})
        config = config.model_copy(update={"training": training})
    if arguments.show_pairs:
        return _show_pairs(config, arguments.show_pairs)
    if arguments.processes and not launch_name():
        if arguments.restarts:  # otherwise each restart would repeat the same error
            check_start(config, resume=arguments.resume, overwrite=arguments.overwrite)
        how = [f"--{name}" for name in ("resume", "overwrite") if getattr(arguments, name)]
        command = _words(arguments, *how, *_from(arguments))
        return launch(arguments.processes, command, restarts=arguments.restarts)
    before = _saved(config.run_dir) if arguments.resume else {}
    try:
        ended = train(config, resume=arguments.resume, overwrite=arguments.overwrite)
    except BrokenPipeError:
        raise
    except RankLostError as error:
        again = _command_to_continue(arguments, config.run_dir)
        raise RankLostError(f"{error}. Continue with: {again}") from None
    except OSError as error:
        again = _command_to_continue(arguments, config.run_dir)
        raise DiskError(f"{system_error(error)}; fix that, then continue with: {again}") from None
    return _report_end(ended, arguments, config.run_dir, before)


def _show_pairs(config: Config, number: int) -> int:
    from seq2seq.pipeline import show_pairs

    if int(os.environ.get("RANK", "0")):  # with torchrun, one process prints
        return 0
    for seen, pair in show_pairs(config, number):
        print(f"{seen.source}\t{seen.target}")
        if seen != pair:
            print(f"    from {pair.source}\t{pair.target}")
    return 0


def _saved(run_dir: str) -> dict[Path, int]:
    """Return when each checkpoint was saved, in ns."""
    return {
        path.parent: path.stat().st_mtime_ns
        for path in Path(run_dir, "checkpoints").glob("step-*/state.json")
        if path.parent.name.removeprefix("step-").isdecimal()
    }


def _command_to_continue(arguments: argparse.Namespace, run_dir: str) -> str:
    """Return the command that resumes the run, or starts it if there is nothing to resume yet.

    It starts as many processes as the command that was typed.
    """
    from seq2seq.processes import launcher

    exists = Path(run_dir, "config.yaml").exists()
    program = ["seq2seq"] if arguments.processes else launcher()
    more = ["--resume"] if exists else _from(arguments)
    return shlex.join([*program, *_words(arguments, *more)])


def _words(arguments: argparse.Namespace, *more: str) -> list[str]:
    """Return the command that was typed, without options that must not be repeated to resume."""
    given = ((name, getattr(arguments, name)) for name in ("processes", "restarts"))
    options = [word for name, number in given if number for word in (f"--{name}", str(number))]
    return ["train", arguments.config, *arguments.overrides, *options, *more]


def _from(arguments: argparse.Namespace) -> list[str]:
    run = [] if arguments.initial is None else ["--from", arguments.initial]
    return [*run, *["--new-tokenizers"] * arguments.new_tokenizers]


def _report_end(
    ended: str, arguments: argparse.Namespace, run_dir: str, before: dict[Path, int]
) -> int:
    """Print why training ended and what to do next, on rank 0 only; return the exit code.

    `before` has the checkpoints of a resumed run: if none is new, the run was already finished.
    """
    from seq2seq.runs.checkpoint import list_checkpoints
    from seq2seq.runs.directory import RunDirectory, find_checkpoint

    code = options.EXIT_CODES[ended]
    if int(os.environ.get("RANK", "0")):
        return code
    if code:
        message = f"{ended}; saved. Continue with: {_command_to_continue(arguments, run_dir)}"
    else:
        why = "training ended: done"
        if before and _saved(run_dir) == before:
            step = max(int(path.name.removeprefix("step-")) for path in before)
            why = f"the run was already finished at step {step}; nothing was left to do"
        elif ended == "early":
            why = "training ended: no better metric for training.patience validations"
        best = find_checkpoint(Path(run_dir))
        scores = best.state.get("validation", {})
        if best.step == 0:
            last = list_checkpoints(RunDirectory(Path(run_dir)).checkpoints)[-1].path
            why += (
                ". No validation was better than that of the weights that it started from "
                f"(step 0), which the run goes on using; the last ones are in {last}"
            )
        if scores.get("bleu", 1) < 1 and scores["chrf"] < 20:  # BLEU is 0 if sentences are short
            why += (
                f". The model has learned next to nothing (validation BLEU {scores['bleu']:.1f}): "
                "check the columns (--show-pairs 20), add pairs or updates, change learning_rate"
            )
        message = f"{why}. Translate with: seq2seq translate {shlex.quote(run_dir)}"
    print(message, file=sys.stderr)
    return code
