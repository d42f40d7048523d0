"""Training, translating and scoring in one process, without what Windows lacks.

This shows that nothing Unix-only is used on the way, not that the program works there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ToyCorpus

TESTS = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def seq2seq(*commands: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run commands one after another in one process."""
    code = (
        f"import json, sys\nsys.path.append({str(TESTS)!r})\n"
        "import windows\nwindows.hide()\n"
        "from seq2seq import cli\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    if code := cli.main(words):\n"
        "        sys.exit(code)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, json.dumps(commands)],
        cwd=folder, capture_output=True, encoding="utf-8",
    )  # fmt: skip


def test_one_process_trains_translates_and_scores(toy: ToyCorpus, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(toy.recipe(tmp_path / "run"), encoding="utf-8")
    (tmp_path / "in.txt").write_text("gato come\nNo lo veo.\n", encoding="utf-8")
    short = ["data.cache=cache", "training.checkpoint_every=1", "training.average=last"]
    trainings = [
        ["train", "recipe.yaml", *short, f"training.max_steps={steps}", how]
        for steps, how in ((3, "--overwrite"), (3, "--overwrite"), (4, "--resume"))
    ]
    translations = [
        ["translate", run, "-i", "in.txt", "-o", f"{run}.txt"] for run in ("run", "es-en")
    ]
    scoring = ["evaluate", "run", str(toy.folder / "test.tsv")]
    done = seq2seq(*trainings, *translations, scoring, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob(".*.partial"))
    for run in ("run", "es-en"):
        assert len((tmp_path / f"{run}.txt").read_text(encoding="utf-8").splitlines()) == 2
    assert done.stdout.startswith("BLEU = ")


def test_several_workers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("No lo veo.\n", encoding="utf-8")
    words = ["-i", "in.txt", "-o", "out.txt", "--workers", "2"]
    refused = seq2seq(["translate", "es-en", *words], folder=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr == (
        "seq2seq: this system cannot fork worker processes; use 1 instead of several\n"
    )


def test_stand_ins_refuse_what_windows_refuses(tmp_path: Path) -> None:
    """The tests above can fail: each call is refused to a module with the package's name."""
    code = (
        f"import sys\nsys.path.append({str(TESTS)!r})\n"
        "import windows\nwindows.hide()\n"
        "calls = ['import fcntl', 'import resource', 'import os; os.fork()',\n"
        "    'import os; os.fchmod', 'import signal; signal.SIGHUP',\n"
        "    'import mmap; mmap.MADV_DONTNEED', 'import os; os.open(\".\", os.O_RDONLY)',\n"
        "    'import os; os.fsync(open(\"a\").fileno())',\n"
        '    \'import os; f = open("a"); os.replace("a", "b")\',\n'
        '    \'import os; f = open("a"); os.unlink("a")\']\n'
        "open('a', 'w').close()\n"
        "for call in calls:\n"
        "    try:\n"
        "        exec(call, {'__name__': 'seq2seq.x'})\n"
        "    except (ImportError, AttributeError, OSError) as error:\n"
        "        print(type(error).__name__)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8"
    )
    assert found.stdout.split() == [
        *["ModuleNotFoundError"] * 2, *["AttributeError"] * 4, "PermissionError", "OSError",
        *["PermissionError"] * 2,
    ], found.stderr  # fmt: skip
