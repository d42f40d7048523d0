"""docs/export.md: its program translates like `seq2seq translate`, and its tables are complete."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from seq2seq.cli import main, parse

PAGE = (Path(__file__).parents[1] / "docs" / "export.md").read_text(encoding="utf-8")
LINES = ["gato come pan", "", "él  ve agua grande", "niño quiere casa rojo perro", "xyz 😀"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    [block] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path_factory.mktemp("program") / "greedy.py"
    path.write_text(block, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def exported(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "toy"
    assert main(["export", str(trained), "-o", str(path)]) == 0
    return path


def test_program_is_short_and_needs_three_packages(program: Path) -> None:
    text = program.read_text(encoding="utf-8")
    assert text.count("\n") <= 42
    nodes = list(ast.walk(ast.parse(text)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert names - set(sys.stdlib_module_names) == {"numpy", "onnxruntime", "sentencepiece"}


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_program_translates_like_the_command(
    exported: Path, program: Path, tmp_path: Path, precision: str
) -> None:
    run = str(exported)
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    arguments = ["--beam", "1", "--precision", precision, "-i", str(source), "-o", str(output)]
    assert main(["translate", run, *arguments]) == 0
    found = subprocess.run(
        [sys.executable, "-X", "utf8", str(program), run, precision],
        stdin=source.open(), capture_output=True, cwd=tmp_path, encoding="utf-8", check=True,
    )  # fmt: skip
    assert found.stderr == ""
    assert found.stdout == output.read_text(encoding="utf-8")
    assert found.stdout.startswith("cat eats bread\n\n")


def test_exported_files_are_listed(exported: Path) -> None:
    listed = PAGE.partition("## Files")[2].partition("`--precision` writes")[0]
    documented = {Path(name).name for name in re.findall(r"`([\w./-]+\.\w+|SHA256SUMS)`", listed)}
    assert {path.name for path in exported.rglob("*") if path.is_file()} == documented


def test_keys_of_the_description_are_listed(exported: Path) -> None:
    table = PAGE.partition("`graph.json` has these keys")[2].partition("\n\n##")[0]
    cells = " ".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| `"))
    keys = {name.partition(".")[0] for name in re.findall(r"`([\w.]+)`", cells)}
    about = json.loads((exported / "graph/graph.json").read_text(encoding="utf-8"))
    assert keys == set(about)


def test_only_int8_needs_operators_of_onnx_runtime(exported: Path) -> None:
    for path in (exported / "graph").glob("*.onnx"):
        graph = onnx.load(path)
        assert graph.ir_version == 8
        domains = {"": 17, "com.microsoft": 1} if "int8" in path.name else {"": 17}
        assert {opset.domain: opset.version for opset in graph.opset_import} == domains
        found = {node.op_type for node in graph.graph.node if node.domain}
        assert found == ({"MatMulIntegerToFloat"} if "int8" in path.name else set())


def test_commands_parse() -> None:
    lines = re.findall(r"^    seq2seq (.*?)(?: +[#<].*)?$", PAGE, re.MULTILINE)
    assert len(lines) == 6
    for line in lines:
        assert parse(line.split()).action
