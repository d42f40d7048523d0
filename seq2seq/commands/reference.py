"""Print every key of the configuration with its default, as Markdown.

examples:
  seq2seq reference > docs/configuration.md
"""

from __future__ import annotations

import argparse

from seq2seq.commands import options


def add(commands: options.Commands) -> None:
    options.add_command(commands, "reference", __doc__, action=_reference)


def _reference(arguments: argparse.Namespace) -> int:
    from seq2seq.config.reference import reference

    print(reference(), end="")
    return 0
