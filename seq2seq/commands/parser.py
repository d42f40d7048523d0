"""What all commands share in reading the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeAlias

EXIT_FAULT, EXIT_USER, EXIT_INTERRUPTED, EXIT_TERMINATED = 1, 2, 130, 143


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USER, f"{self.prog}: {message} (see {self.prog} --help)\n")


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
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected 1, 2, 3, ..., found '{text}'")
    return number


def from_zero(text: str) -> int:
    """Read 0, 1, 2, ..."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected 0, 1, 2, ..., found '{text}'")
    return int(text)
