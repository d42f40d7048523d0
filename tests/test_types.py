"""The types of the package and of the scripts, checked beside the other tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_mypy_finds_nothing() -> None:
    mypy = [sys.executable, "-m", "mypy"]
    found = subprocess.run(mypy, cwd=ROOT, capture_output=True, encoding="utf-8")
    assert found.returncode == 0, found.stdout + found.stderr
