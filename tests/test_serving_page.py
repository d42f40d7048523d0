"""docs/serving.md: its commands print what it says, and it names all options and paths."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from serving import Client, served

import benchmark
from seq2seq import cli
from seq2seq.inference.required import Glossary
from seq2seq.inference.translator import Translator
from seq2seq.packaged import SAMPLE
from seq2seq.serving.served_models import load_models

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/serving.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """What `seq2seq serve` serves, with a glossary."""
    glossaries = {"shop": Glossary({"coche": "automobile"})}
    with served(load_models([], Translator.load), glossaries=glossaries) as client:
        yield client


def code(language: str) -> list[str]:
    """Return the blocks of code in a language; those of a shell have none."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [block for of, block in blocks if of == language]


def shell_commands() -> list[tuple[str, str]]:
    """Return the commands with a prompt, each with the output that the page prints."""
    shell = "".join(block for block in code("") if block.startswith("$ "))
    found = []
    for text in shell.split("$ ")[1:]:
        lines = text.splitlines()
        size = 1 + sum(line.endswith("\\") for line in lines)
        found.append(("\n".join(lines[:size]), "\n".join(lines[size:])))
    return found


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_commands_print_what_the_page_says(client: Client) -> None:
    commands = shell_commands()
    assert len(commands) == len(re.findall(r"curl (?:-|localhost)", PAGE))
    for command, printed in commands:
        line = command.replace("localhost:5000", f"127.0.0.1:{client.port}")
        found = subprocess.run(["sh", "-c", line], capture_output=True, encoding="utf-8")
        assert (found.returncode, found.stdout) == (0, printed), command


def test_command_of_the_speeds_measures_the_rows_of_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """test_benchmarks.py has a short run of what is called here."""
    [line] = re.findall(r"^ +python scripts/benchmark.py ((?:.*\\\n)*.*)", PAGE, re.MULTILINE)
    words = shlex.split(
        line.replace("\\\n", "").replace("data/tatoeba/test.tsv", str(SAMPLE / "test.tsv"))
    )
    measured: list[tuple[str, str]] = []

    def measure(run: str, _: object, *, precision: str, workers: int, seconds: float) -> list[Any]:
        assert (run, seconds) == ("es-en", 4)
        measured.append((precision, str(workers)))
        return []

    monkeypatch.setattr(benchmark, "serving_speed", measure)
    monkeypatch.setattr("benchmarks.decoding.multiplies_int8", lambda: True)
    assert benchmark.main(words) == 0
    rows = re.findall(r"^\| (fp32|int8) \| ([12]) \|", PAGE, re.MULTILINE)
    assert {*rows} <= {*measured}


def test_commands_parse() -> None:
    lines = re.findall(r"^ +(seq2seq .*)$", PAGE, re.MULTILINE)
    lines += re.findall(r"^ExecStart=\S*/(seq2seq .*)$", PAGE, re.MULTILINE)
    [docker] = re.findall(r"^CMD (.*)", PAGE, re.MULTILINE)
    lines.append(" ".join(re.findall(r'"([^"]+)"', docker)))
    assert len(lines) == 5
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
    needed = ["README.md", "pyproject.toml", "exported/config.yaml"]
    needed += [str(path.relative_to(ROOT)) for path in links]
    assert [name for name in needed if is_ignored(Path(name))] == []
    unwanted = ["runs/quickstart/config.yaml", "data/tatoeba/train.tsv", ".git/HEAD", ".venv/bin"]
    assert all(is_ignored(Path(name)) for name in unwanted)


def test_python_program_prints_what_the_page_says(client: Client) -> None:
    [program] = code("python")
    program = program.replace("http://localhost:5000", client.url)
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8")
    assert found.stdout == re.findall(r"print\(.*  # (.*\n)", program)[0], found.stderr


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_javascript_program_prints_what_the_page_says(client: Client) -> None:
    [program] = code("js")
    program = program.replace("http://localhost:5000", client.url)
    command = ["node", "--input-type=module", "-e", program]
    found = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert found.stdout == re.findall(r"console.log\(.* // (.*\n)", program)[0], found.stderr


@pytest.mark.parametrize(
    ("code", "texts"),
    [
        ("es", ["Hola", "Perro", "¿Dónde", "casa", "Buenas tardes", "No lo veo", "Ella come"]),
        ("en", ["Hello", "Dog", "Where", "house", "Good morning", "I don't", "She eats"]),
    ],
)
def test_language_of_a_few_words_is_detected(client: Client, code: str, texts: list[str]) -> None:
    for text in texts:
        assert client.post("/detect", q=text).json[0]["language"] == code, text


def test_tables_name_all_paths(client: Client) -> None:
    paths = client.get("/spec").json["paths"]
    assert {*re.findall(r"`(?:GET|POST) (/[a-z/_]+)`", PAGE)} == {*paths}
