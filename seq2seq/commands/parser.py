"""What all commands share in reading the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from seq2seq.errors import EXIT_USER, one_line

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
