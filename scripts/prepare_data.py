#!/usr/bin/env python3
"""Prepare a corpus: see `prepare_data.py --help` and seq2seq/data/prepare.py."""

import sys

from seq2seq.data.prepare import main

if __name__ == "__main__":
    sys.exit(main())
