"""Check a run: files, data, attention weights, search, loss; exit code 1 when a check fails.

examples:
  seq2seq doctor runs/quickstart
  seq2seq doctor runs/tatoeba data/tatoeba/test.tsv
  seq2seq doctor runs/tatoeba test.es --target test.en --json
"""

from __future__ import annotations

import argparse
import json

from seq2seq.analysis import to_json
from seq2seq.commands import options
from seq2seq.errors import EXIT_FAULT


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "doctor", __doc__, action=_doctor)
    options.add_arguments(parser, "run")
    options.add_arguments(
        parser, "test", nargs="?", help="test set; default: that of the run's recipe"
    )
    options.add_arguments(parser, "--target", "--json", "--device")


def _doctor(arguments: argparse.Namespace) -> int:
    from seq2seq.analysis.doctor import diagnose, findings_text, healthy

    findings = diagnose(
        arguments.run, arguments.test, target=arguments.target, device=arguments.device
    )
    if arguments.json:
        print(json.dumps(to_json(findings), indent=1))
    else:
        print(findings_text(findings))
    return 0 if healthy(findings) else EXIT_FAULT
