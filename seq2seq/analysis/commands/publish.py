"""Push a run to the Hugging Face hub; every command then takes it as hf:user/name.

Log in before, with 'hf auth login' or HF_TOKEN. docs/hub.md says what is pushed.

examples:
  seq2seq push runs/quickstart user/quickstart --private
  seq2seq push runs/tatoeba user/es-en --evaluate Tatoeba=data/tatoeba/test.tsv --license cc-by-4.0
  seq2seq push runs/quickstart user/quickstart -o folder     (write the folder, push nothing)
  seq2seq translate hf:user/quickstart < spanish.txt
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from seq2seq.commands import options


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "push", _push, __doc__)
    options.add_arguments(parser, "run")
    parser.add_argument("repo", metavar="USER/NAME", help="repository; created if needed")
    parser.add_argument("--private", action="store_true", help="create a private repository")
    parser.add_argument("--revision", metavar="BRANCH", help="branch to push to; default: main")
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="write the folder (a run itself) and push nothing"
    )
    parser.add_argument(
        "--evaluate", metavar="NAME=FILE", nargs="+", default=(), help="test sets for the card"
    )
    parser.add_argument("--license", metavar="ID", help="licence of the model, such as cc-by-4.0")


def _push(arguments: argparse.Namespace) -> int:
    # An extra that is missing is named before anything is written.
    import matplotlib.figure  # noqa: F401

    if not arguments.output:
        import huggingface_hub  # noqa: F401

    from seq2seq import hub
    from seq2seq.analysis.publishing import write_folder

    repo, revision = arguments.repo, arguments.revision
    with tempfile.TemporaryDirectory() as made:
        folder = Path(arguments.output or f"{made}/run")
        write_folder(
            arguments.run, folder, repo, tests=arguments.evaluate, license=arguments.license
        )
        if arguments.output:
            run = url = str(folder)
        else:
            url = hub.upload(folder, repo, private=arguments.private, revision=revision)
            run = f"{hub.PREFIX}{repo}{f'@{revision}' if revision else ''}"
    print(f"{url}\ntranslate with: seq2seq translate {run}")
    return 0
