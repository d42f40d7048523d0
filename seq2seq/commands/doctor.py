"""`seq2seq doctor`: check a run."""

from __future__ import annotations

import argparse
import json

from seq2seq.commands.options import Commands, add_command
from seq2seq.errors import EXIT_FAULT


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "doctor",
        "check a run: files, data, attention weights, search, loss; exit code 1 when a check fails",
        "seq2seq doctor runs/quickstart\n"
        "seq2seq doctor runs/tatoeba data/tatoeba/test.tsv\n"
        "seq2seq doctor runs/tatoeba test.es --target test.en --json",
        action=_doctor,
    )
    parser.add_argument("run", metavar="RUN", help="run directory or checkpoint")
    parser.add_argument(
        "test", metavar="TEST", nargs="?", help="test set; default: that of the run's recipe"
    )
    parser.add_argument("--target", metavar="FILE", help="target side of TEST, line by line")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")


def _doctor(arguments: argparse.Namespace) -> int:
    from seq2seq.diagnosis.doctor import diagnose, findings_text, healthy

    findings = diagnose(
        arguments.run, arguments.test, target=arguments.target, device=arguments.device
    )
    if arguments.json:
        print(json.dumps({name: vars(found) for name, found in findings.items()}, indent=1))
    else:
        print(findings_text(findings))
    return 0 if healthy(findings) else EXIT_FAULT
