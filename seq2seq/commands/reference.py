"""`seq2seq reference`: print the reference of all recipe keys."""

from __future__ import annotations

import argparse

from seq2seq.commands.options import Commands, add_command


def add(commands: Commands) -> None:
    add_command(
        commands,
        "reference",
        "print every key of the configuration with its default, as Markdown",
        "seq2seq reference > docs/configuration.md",
        action=_reference,
    )


def _reference(arguments: argparse.Namespace) -> int:
    from seq2seq.config.reference import reference

    print(reference(), end="")
    return 0
