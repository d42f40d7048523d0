"""The command line: parse, call, report errors."""

from __future__ import annotations

import argparse
import io
import logging
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module

from seq2seq import __version__
from seq2seq.commands.options import EXIT_CODES, Parser
from seq2seq.errors import did_you_mean, exit_status
from seq2seq.wings import WINGS

# The modules of the commands, in the order of the help. Those of the wings are only there if the
# folder is.
COMMANDS = (
    "seq2seq.commands.train",
    "seq2seq.commands.translate",
    "seq2seq.serving",
    "seq2seq.commands.evaluate",
    "seq2seq.analysis.commands.understand",
    "seq2seq.analysis.commands.measure",
    "seq2seq.commands.export",
    "seq2seq.analysis.commands.publish",
    "seq2seq.commands.distill",
    "seq2seq.commands.lists",
)


def main(arguments: Sequence[str] | None = None, parser: Parser | None = None) -> int:
    """Run a command, or the action of a script's own parser, and return its exit code.

    0: success; 1: a fault (see seq2seq.errors), or a failed check of the doctor; 2: a user error;
    130, 143: training was interrupted or terminated.
    """
    # OpenMP's threads wait for each other by spinning, which stalls training as soon as another
    # program needs a core. A short spin costs nothing on idle cores and shares busy ones. This must
    # be set before torch is imported.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    parser = parser or _command_parser()
    parsed = parse(arguments, parser)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s  %(message)s", datefmt="%H:%M:%S", force=True
    )
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A path that is not UTF-8 is printed as its bytes.
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    try:
        code: int = parsed.action(parsed)
        if sys.stdout is not None:  # closed by the caller
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of our output has exited, as `| head` does; that is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return EXIT_CODES["interrupted"]
    except Exception as error:
        found = exit_status(error)
        if found is None:
            raise
        code, line = found
        print(f"{parser.prog}: {line}", file=sys.stderr)
        return code


def parse(arguments: Sequence[str] | None, parser: Parser | None = None) -> argparse.Namespace:
    """Return the arguments, `action` being the function to call; exit with 2 on a user error."""
    parsed, further = (parser or _command_parser()).parse_known_args(arguments)
    # argparse does not expect overrides after an option, as in `train CONFIG --resume a.b=c`.
    if hasattr(parsed, "overrides"):
        parsed.overrides += [text for text in further if not text.startswith("-")]
        further = [text for text in further if text.startswith("-")]
    if further:
        known = re.findall(r"--?[a-z][a-z-]*", parsed.parser.format_help())
        hint = did_you_mean(further[0].partition("=")[0], known)
        parsed.parser.error(f"unrecognized arguments: {' '.join(further)}{hint}")
    return parsed


def _command_parser() -> Parser:
    parser = Parser(
        prog="seq2seq",
        description="Train, use and evaluate attentional sequence-to-sequence translation models.",
        epilog="See seq2seq COMMAND --help for options and examples.",
    )
    parser.add_argument("--version", action="version", version=f"seq2seq {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        try:
            import_module(command).add(commands)
        except ModuleNotFoundError as error:
            if error.name not in WINGS:
                raise
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may follow (seq2seq completion)
        import argcomplete

        argcomplete.autocomplete(parser)
    return parser
