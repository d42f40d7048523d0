"""docs/serving.md: commands parse, all options and paths are named, the Python code runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from serving import served

from seq2seq import cli
from seq2seq.inference.translator import Translator
from seq2seq.serving.models import Model, Models

PAGE = (Path(__file__).parents[1] / "docs/serving.md").read_text(encoding="utf-8")


def test_commands_parse() -> None:
    lines = re.findall(r"^ +(seq2seq .*)$", PAGE, re.MULTILINE)
    lines += re.findall(r"^ExecStart=\S*/(seq2seq .*)$", PAGE, re.MULTILINE)
    [docker] = re.findall(r"^CMD (.*)", PAGE, re.MULTILINE)
    lines.append(" ".join(re.findall(r'"([^"]+)"', docker)))
    assert len(lines) == 4
    for line in lines:
        assert cli.parse(shlex.split(line, comments=True)[1:]).parser.prog == "seq2seq serve"


def test_table_names_all_options_with_their_defaults() -> None:
    parser = cli.parse(["serve"]).parser
    rows = dict(re.findall(r"^\| `(--[a-z-]+)(?: [A-Z]+)?` \| (\S*)", PAGE, re.MULTILINE))
    translate = cli.parse(["translate", "x"]).parser._option_string_actions
    own = {name for name in parser._option_string_actions if name.startswith("--")}
    assert rows.keys() == (own - set(translate)) | {"--workers"}
    for name, shown in rows.items():
        default = parser._option_string_actions[name].default
        assert shown.strip("|").replace("none", "") == str(default or ""), name


def test_program_runs(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [program] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    with served(Models({"toy": Model("toy", Translator.load(exported))})) as client:
        exec(program.replace("http://localhost:5000", client.url), {})
        paths = client.get("/spec").json["paths"]
    assert re.fullmatch(r"\[.*, .*\]\n", capsys.readouterr().out)
    assert {*re.findall(r"`(?:GET|POST) (/[a-z/]+)`", PAGE)} == {*paths}
