"""The options of searching, for every command that translates."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from seq2seq.errors import EXIT_USER, UserError, one_line

if TYPE_CHECKING:
    from seq2seq.parallel import Parallelism


EXIT_INTERRUPTED, EXIT_TERMINATED = 130, 143


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USER, f"{self.prog}: {one_line(message)} (see {self.prog} --help)\n")


if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction["Parser"]
else:
    Commands = argparse._SubParsersAction


def add_command(
    commands: Commands,
    name: str,
    summary: str,
    examples: str,
    *,
    action: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    """Add a command, whose `action` takes what was given and returns the exit code."""
    lines = "\n".join(f"  {line}" for line in examples.splitlines())
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"examples:\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(action=action)
    return parser


def positive(text: str) -> int:
    """Read 1, 2, 3, ..."""
    return _whole(text, 1)


def from_zero(text: str) -> int:
    """Read 0, 1, 2, ..."""
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    # Nine digits are more than anything here can use, and less than torch cannot hold.
    number = int(text) if text.isdecimal() and len(text) <= 9 else -1
    if number < least:
        numbers = ", ".join(str(least + step) for step in range(3))
        raise argparse.ArgumentTypeError(f"expected {numbers}, ..., found '{text}'")
    return number


MAX_THREADS = 1024


def add_search(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("search (defaults: the run's inference section)")
    group.add_argument("--beam", type=positive, metavar="N", help="hypotheses kept; 1 is greedy")
    group.add_argument(
        "--length-penalty", type=float, metavar="ALPHA",
        help="scores are divided by ((5 + length) / 6)**ALPHA; larger prefers longer translations",
    )  # fmt: skip
    group.add_argument(
        "--coverage-penalty", type=float, metavar="BETA",
        help="larger prefers translations whose attention leaves no source piece out",
    )  # fmt: skip
    group.add_argument(
        "--no-repeat-ngram", type=from_zero, metavar="N", help="forbid repeated n-grams"
    )
    add_device(parser)


def add_device(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where to compute")
    group.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    group.add_argument(
        "--precision", choices=("auto", "fp32", "bf16", "int8"), default="fp32",
        help="of products; bf16 and int8 are faster where the processor has them, at some tenth of "
        "a BLEU; auto: bf16 where it is native; default: %(default)s",
    )  # fmt: skip
    group.add_argument("--threads", type=positive, metavar="N", help="CPU threads")


def add_workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers", type=positive, default=1, metavar="N",
        help="processes that share the lines; the translations are the same whatever N is. Each "
        "has one CPU thread, or --threads; N workers are faster than one with N threads. Under "
        "torchrun the processes that it started share the lines instead",
    )  # fmt: skip


@contextlib.contextmanager
def parallelism(arguments: argparse.Namespace) -> Iterator[Parallelism]:
    """Yield how this process shares its work: with workers, or with the ranks of torchrun."""
    from seq2seq.parallel import Parallelism, init_process_group

    set_threads(arguments)
    with init_process_group() as ranks:
        yield Parallelism(arguments.workers, arguments.threads or 1, ranks)


def search_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what was given of the search, as Translator.options takes it."""
    return {
        "beam_size": arguments.beam,
        "length_penalty": arguments.length_penalty,
        "coverage_penalty": arguments.coverage_penalty,
        "no_repeat_ngram": arguments.no_repeat_ngram,
    }


def set_threads(arguments: argparse.Namespace) -> None:
    """Use as many CPU threads as were asked for; workers, which are forked, start theirs."""
    if arguments.threads or getattr(arguments, "workers", 1) > 1:
        import torch

        threads = arguments.threads or 1
        if threads > MAX_THREADS:
            raise UserError(f"--threads: expected {MAX_THREADS} or less, found {threads}")
        torch.set_num_threads(1 if getattr(arguments, "workers", 1) > 1 else threads)
