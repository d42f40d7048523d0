"""`seq2seq evaluate` as a script; see `python scripts/evaluate.py --help`."""

import sys

from seq2seq.cli import main

sys.exit(main(["evaluate", *sys.argv[1:]]))
