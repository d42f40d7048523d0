"""docs/finetuning.md and docs/distillation.md: commands parse, and their recipes are valid."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from seq2seq.cli import parse
from seq2seq.config import load_config

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("page", "number"), [("finetuning", 9), ("distillation", 9)])
def test_commands_parse(page: str, number: int) -> None:
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"^ {4,}(?:cut .*\| )?(seq2seq .*)$", text, re.MULTILINE)
    assert len(lines) >= number
    for line in lines:
        command = re.split(r" [<|>] ", line)[0].replace("$seed", "1")
        words = shlex.split(command, comments=True)
        parsed = parse(words[1:])
        if words[1] == "train":
            load_config(ROOT / parsed.config, parsed.overrides)
