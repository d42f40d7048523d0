"""The types of the package and of the scripts, checked beside the other tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


def mypy(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")


def test_mypy_finds_nothing() -> None:
    found = mypy()
    assert found.returncode == 0, found.stdout + found.stderr


def test_other_systems_have_what_is_used() -> None:
    """Without other packages, whose types take long, mypy finds no more there than on Linux."""
    found = {}
    for system in ("linux", "win32", "darwin"):
        plain = ("--no-site-packages", "--ignore-missing-imports", "--no-error-summary", "seq2seq")
        checked = mypy(f"--platform={system}", f"--cache-dir=.mypy_cache/{system}", *plain)
        assert not checked.stderr
        found[system] = set(checked.stdout.splitlines())
    assert len(found["linux"]) > 100  # such as classes whose bases are unknown
    assert found["win32"] - found["linux"] == set()
    assert found["darwin"] - found["linux"] == set()
