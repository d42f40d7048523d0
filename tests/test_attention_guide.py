"""docs/attention.md: Python blocks run, commands parse, images and anchors exist."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from seq2seq.cli import main, parse

DOCS = Path(__file__).parents[1] / "docs"
GUIDE = (DOCS / "attention.md").read_text(encoding="utf-8")


def test_python_blocks_run(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert main(["explain", str(trained), "gato come pan", "--json"]) == 0
    (tmp_path / "sister.json").write_text(output.getvalue())
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(blocks) == 3
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec("".join(blocks), {})
    *_, mean, right = printed.getvalue().split()
    assert (mean, right) == ("1.5", "2.4")


def test_commands_parse() -> None:
    joined = GUIDE.replace("\\\n", " ")
    lines = re.findall(
        r"^[ $]*(seq2seq (?:explain|plot|train|translate) .*)$", joined, re.MULTILINE
    )
    assert len(lines) > 15
    for line in lines:
        words = shlex.split(re.split(r" [|>] ", line)[0])
        if "RUN" not in words:
            assert parse(words[1:]).action


def test_images_and_anchors_exist() -> None:
    for target in re.findall(r"!\[.*?\]\((.*?)\)", GUIDE):
        picture = DOCS / target
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size < 150_000
    headings = {line.strip("# ").lower().replace(" ", "-") for line in GUIDE.splitlines()
                if line.startswith("#")}  # fmt: skip
    for anchor in re.findall(r"\]\(#(.*?)\)", GUIDE):
        assert anchor in headings
