"""CITATION.cff and the workflow of GitHub Actions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
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


@pytest.mark.parametrize(
    ("target", "installed"),
    [
        ("setup", "train,serve,plot,corpora"), ("demo", "train,serve,plot,corpora"),
        ("bench", "train,serve,plot,corpora"), ("test", "train,serve,plot,corpora dev"),
        ("site", "train,serve,plot,corpora dev"),
    ],
)  # fmt: skip
def test_what_only_tests_and_documentation_need_is_not_set_up(target: str, installed: str) -> None:
    make = ["make", "--dry-run", "VENV=no-such-folder", target]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    assert re.findall(r"--editable '\.\[(.*)\]'", done.stdout) == installed.split()


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


def test_words_of_the_demo_are_frequent_in_its_corpus() -> None:
    demo = (ROOT / "scripts/demo.sh").read_text(encoding="utf-8")
    shown = re.findall(r"(?:translate|attention) \"\$run\" '([^']*)'", demo)
    assert len(shown) == 2
    pairs = (ROOT / "data/sample/train.tsv").read_text(encoding="utf-8").splitlines()
    sources = " ".join(pair.partition("\t")[0] for pair in pairs)
    counts = Counter(re.findall(r"\w+", sources.lower()))
    assert min(counts[word] for word in re.findall(r"\w+", " ".join(shown).lower())) >= 100


def test_integration_hides_every_feature_of_processors_that_the_program_looks_for() -> None:
    lines = (ROOT / "seq2seq/device.py").read_text(encoding="utf-8").splitlines()
    looked_for = re.findall(r'"(\w+)"', "\n".join(line for line in lines if "cpu_flags()" in line))
    integration = (ROOT / ".ci/run").read_text(encoding="utf-8")
    [hidden] = re.findall(r'SEQ2SEQ_HIDE_CPU_FLAGS="(.*)"', integration)
    assert set(hidden.split()) == set(looked_for)
