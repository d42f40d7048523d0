"""The pages that say what is promised name tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGES = sorted((TESTS.parent / "docs").glob("reliability*.md"))

NAMED = re.compile(r"\b((?:system/)?test_\w+\.py)::(\w+)")


def functions_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_promise_has_a_test(page: Path) -> None:
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    promises = [row for row in rows if row not in ("| Promise | Verified by |", "| --- | --- |")]
    assert len(promises) > 5
    assert [row for row in promises if not NAMED.search(row)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    assert named
    functions = {file: functions_of(TESTS / file) for file, _ in named}
    for file, name in named:
        assert name in functions[file], f"{page.name}: {file}::{name}"
