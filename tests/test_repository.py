"""CITATION.cff and the workflow of GitHub Actions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
CITATION, WORKFLOW = ROOT / "CITATION.cff", ROOT / ".github/workflows/ci.yml"


@pytest.mark.parametrize(
    ("schema", "file"), [("citation-file-format", CITATION), ("github-workflows", WORKFLOW)]
)
def test_files_follow_their_schemas(schema: str, file: Path) -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", file]
    checked = subprocess.run(check, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_citation_names_this_version() -> None:
    [version] = re.findall(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert yaml.safe_load(CITATION.read_text(encoding="utf-8"))["version"] == version


def test_workflow_runs_commands_that_exist() -> None:
    steps = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["test"]["steps"]
    commands = [step["run"].split() for step in steps if "run" in step]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert [".ci/run"] in commands
    for program, *arguments in commands:
        if program == "make":
            assert set(arguments) <= set(targets)
        else:
            assert os.access(ROOT / program, os.X_OK)
