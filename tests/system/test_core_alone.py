"""The core trains, translates and scores without the wings, analysis and serving."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from conftest import ToyCorpus

PACKAGE = Path(__file__).parents[2] / "seq2seq"


def test_core_works_without_the_wings(toy: ToyCorpus, tmp_path: Path) -> None:
    wings = shutil.ignore_patterns("analysis", "serving", "models", "__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "seq2seq", ignore=wings)
    # Without `site`, which would let an editable installation find the wings elsewhere.
    places = [str(tmp_path), *{sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}

    def seq2seq(*commands: list[str]) -> subprocess.CompletedProcess[str]:
        """Run commands one after another in one process."""
        code = (
            "import json, sys\nfrom seq2seq import cli\n"
            "sys.exit(max([cli.main(words) for words in json.loads(sys.argv[1])]))"
        )
        return subprocess.run(
            [sys.executable, "-S", "-c", code, json.dumps(commands)],
            capture_output=True, encoding="utf-8", cwd=tmp_path, env=environment,
        )  # fmt: skip

    (tmp_path / "recipe.yaml").write_text(toy.recipe(tmp_path / "run"), encoding="utf-8")
    (tmp_path / "in.txt").write_text("perro rojo\ngato\n", encoding="utf-8")
    done = seq2seq(
        ["train", "recipe.yaml", "training.max_steps=6"],
        ["translate", "run", "-i", "in.txt", "-o", "out.txt"],
        ["evaluate", "run", str(toy.folder / "test.tsv")],
    )
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()) == 2
    assert done.stdout.startswith("BLEU = ")

    helped = seq2seq(["--help"]).stdout
    assert "translate" in helped
    assert "serve" not in helped
    report = seq2seq(["evaluate", "run", str(toy.folder / "test.tsv"), "--report", "report"])
    assert report.returncode == 2
    assert report.stderr == (
        "seq2seq: this needs seq2seq.analysis, which this copy of the program lacks; install all "
        "of it\n"
    )
