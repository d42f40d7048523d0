"""The promises of docs/reliability*.md are held by tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("reliability*.md"))


def rows(page: Path) -> list[tuple[str, str]]:
    """Return promises and what holds them."""
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert all(len(row) == 2 for row in cells)
    return [(promise, tests) for promise, tests in cells if set(promise) - set("- ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_promise_is_held_by_tests_that_exist(page: Path) -> None:
    promises = [row for row in rows(page) if row != ("Promise", "Held by")]
    assert len(promises) > 5
    for promise, tests in promises:
        named = re.findall(r"`([^`]+)`", tests)
        assert named, f"nothing holds: {promise}"
        for name in named:
            path, _, test = name.partition("::")
            assert path.startswith("tests/"), name
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
            assert test in functions, name
            assert test.startswith("test_"), name
