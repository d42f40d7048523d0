"""`seq2seq reference`: print the reference of all recipe keys."""

from __future__ import annotations

import argparse

from seq2seq.commands import options


def add(commands: options.Commands) -> None:
    options.add_command(
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
