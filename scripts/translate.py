"""`seq2seq translate` as a script; see `python scripts/translate.py --help`."""

import sys

from seq2seq.cli import main

sys.exit(main(["translate", *sys.argv[1:]]))
