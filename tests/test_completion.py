"""Completion in a shell: what follows a command, an option, or a part of a word."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# As bash calls the function that it registers for a command, when Tab is pressed.
TAB = """
eval "$(seq2seq completion bash)"
function=$(complete -p seq2seq | grep -o -- '-F [^ ]*' | cut -c 4-)
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
"$function" seq2seq
printf '%s\\n' "${COMPREPLY[@]}"
"""


def run(*command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    found = subprocess.run(
        command, cwd=folder, capture_output=True, encoding="utf-8", env={**os.environ, "PATH": path}
    )
    assert (found.returncode, found.stderr) == (0, "")
    return found.stdout


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("seq2seq tr", ["train", "translate"]),
        ("seq2seq translate --bac", ["--backend"]),
        ("seq2seq translate --backend ", ["auto", "onnx", "torch"]),
        ("seq2seq plot t", ["training"]),
        ("seq2seq translate es-en -i sp", ["spanish.txt"]),
    ],
)
def test_bash_completes(line: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "spanish.txt").touch()
    found = run("bash", "-c", TAB, "bash", line, folder=tmp_path)
    assert [word.strip() for word in found.splitlines()] == words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_is_of_the_shell(shell: str, tmp_path: Path) -> None:
    script = run(sys.executable, "-m", "seq2seq", "completion", shell, folder=tmp_path)
    assert {"bash": "complete ", "zsh": "compdef ", "fish": "complete --command "}[shell] in script
    if shutil.which(shell):
        (tmp_path / "script").write_text(script, encoding="utf-8")
        run(shell, "-n", "script", folder=tmp_path)
