"""docs/attention.md: what it prints for es-en is what the program prints, and its code runs."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from documentation import guide_pictures
from seq2seq.cli import main

DOCS = Path(__file__).parents[1] / "docs"
GUIDE = (DOCS / "attention.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    """Return what each `seq2seq explain es-en` command of the page prints."""
    found = {}
    for line in re.findall(r"^(?:\$ )?seq2seq (explain es-en .*)$", GUIDE, re.MULTILINE):
        command = re.split(r" [|>] | +#", line)[0]
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            if "--html" not in command:
                assert main(shlex.split(command)) == 0
        found[command] = output.getvalue()
    return found


def test_outputs_are_those_of_the_program(printed: dict[str, str]) -> None:
    shown = re.findall(r"^\$ seq2seq (explain es-en .*)\n((?:[^`$].*\n|\n)+)", GUIDE, re.MULTILINE)
    assert len(shown) == 4
    for line, output in shown:
        found = without_decimals(printed[line.partition(" | ")[0]])
        for expected in output.replace("...\n", "").splitlines():
            assert without_decimals(expected) in found


def without_decimals(text: str) -> str:
    """Return the text without the digits and bars that another processor may round differently."""
    return re.sub(r"-?\d+\.\d+(e-\d+)?|\s*█*$", "", text, flags=re.MULTILINE)


def test_translations_that_look_elsewhere(printed: dict[str, str]) -> None:
    shown = re.findall(r"^seq2seq (explain es-en .* --look \S+) +# (.*)$", GUIDE, re.MULTILINE)
    assert len(shown) == 5
    for command, translation in shown:
        assert f"translation  {translation}   (" in printed[command]


def test_python_blocks_run(
    printed: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = re.findall(r"^seq2seq (explain es-en .*) > (\S+\.json)$", GUIDE, re.MULTILINE)
    assert len(saved) == 3
    for command, name in saved:
        (tmp_path / name).write_text(printed[command], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n((?:.*\n)*?)```\n(?:\n((?: {4}.*\n)+))?", GUIDE)
    assert len(blocks) == 11
    names: dict[str, object] = {}
    for code, expected in blocks:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(code, names)
        assert rounded(output.getvalue()) == rounded(expected), code


def rounded(text: str) -> list[object]:
    """Return the words and numbers of a text; numbers equal those that differ in the last digit."""
    return [
        pytest.approx(float(word), abs=0.002, rel=0.01)
        if re.fullmatch(r"-?\d+\.?\d*", word)
        else word
        for word in re.findall(r"[\w▁ↄ.'<>/:-]+", text)
    ]


def test_pictures_are_small() -> None:
    for target in re.findall(r"!\[.*?\]\((.*?)\)", GUIDE):
        picture = DOCS / target
        assert picture.read_bytes().startswith((b"\x89PNG", b"<?xml"))
        assert picture.stat().st_size < 150_000


def test_pictures_of_the_guide_are_those_that_the_script_draws(tmp_path: Path) -> None:
    drawn = guide_pictures.draw_all(tmp_path)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)
    shown = re.findall(r"\(images/(guide-.*?\.png)\)", GUIDE)
    assert sorted(shown) == sorted(path.name for path in drawn)
