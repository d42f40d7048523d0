"""The types of the package and of the scripts, checked beside the other tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [[], ["--platform=win32", "seq2seq"], ["--platform=darwin", "seq2seq"]], ids=" ".join
)
def test_mypy_finds_nothing(options: list[str]) -> None:
    """For other systems it finds what only Linux has."""
    mypy = [sys.executable, "-m", "mypy", *options]
    found = subprocess.run(mypy, cwd=ROOT, capture_output=True, encoding="utf-8")
    assert found.returncode == 0, found.stdout + found.stderr
