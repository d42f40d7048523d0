"""docs/architecture.md names only files and functions that exist, in walks of bounded length."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from traceback import extract_stack

import pytest

from seq2seq.inference.translator import Translator

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "seq2seq"
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
WALKS = ("A batch", "A sentence")
MOST_FILES = 12

STOP = re.compile(r"^\d+\. `(?P<file>[\w/.]+\.py)`:(?P<names>(?:(?!^\d+\. |^#).*\n)*)", re.M)


def walk(title: str) -> list[tuple[str, list[str]]]:
    """Return the files of a walk with the functions that the page names in each."""
    section = re.search(rf"^## {title}.*?(?=^## |\Z)", PAGE, re.M | re.S)
    assert section, title
    return [
        (stop["file"], re.findall(r"`([A-Za-z_][\w.]*)`", stop["names"]))
        for stop in STOP.finditer(section[0])
    ]


def defined(path: Path) -> set[str]:
    """Return the names that a file defines: functions, classes, and `Class.method`."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            found |= {f"{node.name}.{method.name}" for method in methods}
    return found


@pytest.mark.parametrize("title", WALKS)
def test_walk_names_existing_functions(title: str) -> None:
    stops = walk(title)
    assert stops
    known = set().union(*(defined(ROOT / file) for file, _ in stops))
    for file, names in stops:
        assert set(names) & defined(ROOT / file), f"{file}: the page names no function of it"
        assert set(names) <= known, f"{file}: no file of the walk defines {set(names) - known}"


@pytest.mark.parametrize("title", WALKS)
def test_walk_passes_through_few_files(title: str) -> None:
    files = [file for file, _ in walk(title)]
    assert len(set(files)) == len(files) <= MOST_FILES


def test_step_of_the_search_passes_through_six_functions(trained: Path) -> None:
    """The last one is Attention.forward; each of the others is a frame of the stack there."""
    translator = Translator.load(trained, backend="torch")
    stacks: list[list[str]] = []

    def watch(*_: object) -> None:
        frames = [each for each in extract_stack() if Path(each.filename).parent.parent == PACKAGE]
        stacks.append([each.name for each in frames])

    [model] = translator.models
    with model.decoder.attention.register_forward_pre_hook(watch):
        translator.translate(["gato come pan"])
    assert stacks
    for stack in stacks:
        assert stack[stack.index("beam_search") :] == ["beam_search", *["step"] * 4]


def test_every_path_on_the_page_exists() -> None:
    paths = set(re.findall(r"`((?:seq2seq|scripts|tests|docs|configs)/[\w/.-]*)`", PAGE))
    paths |= {f"docs/{path}" for path in re.findall(r"\]\((?!http)([\w/.-]+)\)", PAGE)}
    assert paths
    missing = [path for path in sorted(paths) if not (ROOT / path).exists()]
    assert not missing
