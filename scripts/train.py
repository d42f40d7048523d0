"""`seq2seq train` as a script; see `python scripts/train.py --help`."""

import sys

from seq2seq.cli import main

sys.exit(main(["train", *sys.argv[1:]]))
