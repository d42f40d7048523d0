"""The types of the package and of the scripts, checked beside the other tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("system", ["linux", "win32", "darwin"])
def test_mypy_finds_nothing(system: str) -> None:
    """For other systems it finds what only Linux has; with one cache, each would replace it."""
    options = [] if system == "linux" else [f"--cache-dir=.mypy_cache/{system}", "seq2seq"]
    mypy = [sys.executable, "-m", "mypy", f"--platform={system}", *options]
    found = subprocess.run(mypy, cwd=ROOT, capture_output=True, encoding="utf-8")
    assert found.returncode == 0, found.stdout + found.stderr
