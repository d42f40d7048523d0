"""docs/python.md: its Python blocks run, and its keys are in the JSON."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import ToyCorpus

from seq2seq.cli import main

PAGE = (Path(__file__).parents[1] / "docs" / "python.md").read_text(encoding="utf-8")


def test_python_blocks_run(
    trained: Path, toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/quickstart.yaml").write_text(toy.recipe(tmp_path / "runs/unused"))
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/quickstart").symlink_to(trained)
    (tmp_path / "spanish.txt").write_text("gato come\nperro\n")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 8
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec("".join(blocks), names)
    assert "finished" in printed.getvalue().split("\n")
    for translation in names["translations"]:
        [part] = translation.parts
        assert part.weights.shape == (len(part.target_pieces), len(part.source_pieces))
    assert (tmp_path / "runs/short").is_dir()


def test_documented_keys_of_translations(trained: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("gato come pan\n", encoding="utf-8")
    files = ["-i", str(source), "-o", str(output)]
    arguments = ["--format", "jsonl", "--attention", "--tree", "--nbest", "2", *files]
    assert main(["translate", str(trained), *arguments]) == 0
    found = json.loads(output.read_text(encoding="utf-8"))
    check_keys(found, table("seq2seq translate RUN --format jsonl`"))
    tree = found["parts"][0]["tree"]
    check_keys(tree[0], table("seq2seq translate RUN --format jsonl --tree`"))


def test_documented_keys_of_explanations(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(trained), "gato come pan", "--json"]) == 0
    check_keys(json.loads(capsys.readouterr().out), table("seq2seq explain"))


def table(command: str) -> list[list[str]]:
    """Return the names in the first column of a command's table, row by row."""
    text = PAGE[PAGE.index(f"`{command}", PAGE.index("## JSON")) :]
    rows = re.search(r"\| --- \| --- \|\n((?:\|.*\n)+)", text)
    assert rows
    return [re.findall(r"`(.*?)`", row.split("|")[1]) for row in rows[1].splitlines()]


def check_keys(found: dict[str, Any], rows: list[list[str]]) -> None:
    """Check that each key exists; in a row, the keys after the first are in the same object."""
    named = set()
    for first, *others in rows:
        *path, name = first.split(".")
        place: Any = found
        for step in path:
            place = place[0] if step == "N" else place[step]
        for key in (name, *others):
            assert key in place, (first, key)
        named |= {name, *others} if not path else {path[0]}
    assert set(found) - named <= {"source_language", "target_language", "padding_difference"}
