#!/usr/bin/env python
"""Measure how fast this machine trains and translates; `--help` tells the rest."""

import sys

from seq2seq.benchmark.main import main

sys.exit(main())
