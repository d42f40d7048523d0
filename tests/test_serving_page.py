"""docs/serving.md: commands parse, all options and paths are named, the Python code runs."""

from __future__ import annotations

import re
import shlex
from fnmatch import fnmatch
from pathlib import Path

import pytest
from serving import served

from seq2seq import cli
from seq2seq.inference.translator import Translator
from seq2seq.serving.models import Model, Models

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/serving.md").read_text(encoding="utf-8")


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


def test_docker_gets_all_that_the_package_needs_and_no_runs() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]

    def is_ignored(path: Path) -> bool:
        """Return whether the last pattern that matches the path or a parent is not negated."""
        found = False
        for pattern in patterns:
            name = pattern.removeprefix("!").removeprefix("**/")
            if any(fnmatch(str(each), name) for each in (path, *path.parents)):
                found = not pattern.startswith("!")
        return found

    links = [path.resolve() for path in (ROOT / "seq2seq").rglob("*") if path.is_symlink()]
    assert any("data" in path.parts for path in links)
    needed = ["requirements-inference.txt", "pyproject.toml", "exported/config.yaml"]
    needed += [str(path.relative_to(ROOT)) for path in links]
    assert [name for name in needed if is_ignored(Path(name))] == []
    unwanted = ["runs/quickstart/config.yaml", "data/tatoeba/train.tsv", ".git/HEAD", ".venv/bin"]
    assert all(is_ignored(Path(name)) for name in unwanted)


def test_program_runs(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [program] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    with served(Models({"toy": Model("toy", Translator.load(exported))})) as client:
        exec(program.replace("http://localhost:5000", client.url), {})
        paths = client.get("/spec").json["paths"]
    assert re.fullmatch(r"\[.*, .*\]\n", capsys.readouterr().out)
    assert {*re.findall(r"`(?:GET|POST) (/[a-z/]+)`", PAGE)} == {*paths}
