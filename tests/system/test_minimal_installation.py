"""A fresh environment with what a plain `pip install` brings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

import pytest
from conftest import ToyCorpus, made_once
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_imports import INFERENCE_ONLY, PROJECT, needs

from seq2seq.packaged import model_names

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def minimal_environment(shared: Path) -> Path:
    """The Python of an environment with the dependencies of a plain installation alone.

    The package itself comes from the working tree, by PYTHONPATH (see `run`).
    """
    return made_once(shared / "minimal", install) / "bin/python"


def install(folder: Path) -> None:
    """Make an environment of links to what the dependencies, and theirs, have in this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [packages] = folder.glob("lib/python*/site-packages")
    size = 0
    for package in map(distribution, needed(PROJECT["dependencies"])):
        for file in package.files or []:
            if ".." not in file.parts:  # a command
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                (packages / file).symlink_to(file.locate())
                size += file.suffix != ".pyc" and (packages / file).stat().st_size
    # Without the compiled modules that an installation may add, and the package: 300 MB in all.
    assert 100e6 < size < 260e6


def needed(requirements: Iterable[str]) -> set[str]:
    """Return the names of the packages that pip would install for these requirements."""
    found: set[str] = set()
    waiting = [(requirement, "") for requirement in requirements]
    done = set(waiting)
    while waiting:
        text, extra = waiting.pop()
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        found.add(canonicalize_name(requirement.name))
        more = distribution(requirement.name).requires or []
        new = {(each, extra) for each in more for extra in ("", *requirement.extras)} - done
        done |= new
        waiting += new
    return found


def run(python: Path, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python with the package of the working tree."""
    return subprocess.run(
        [python, *arguments],
        cwd=ROOT, input=text, capture_output=True, encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_modules_import(minimal_environment: Path) -> None:
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    modules = [name for name in INFERENCE_ONLY if not name.startswith("seq2seq.serving")]
    found = run(minimal_environment, "-c", code, *modules)
    assert found.returncode == 0, found.stderr
    assert run(minimal_environment, "-c", "import torch").returncode == 1


def test_help_and_reference(minimal_environment: Path) -> None:
    found = run(minimal_environment, "-m", "seq2seq", "--help")
    assert (found.returncode, found.stderr) == (0, "")
    assert "translate" in found.stdout
    found = run(minimal_environment, "-m", "seq2seq", "reference")
    assert found.stdout == (ROOT / "docs/configuration.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "package", "extra"),
    [
        ("train configs/quickstart.yaml", "PyTorch", "train"),
        ("explain RUN gato --step 1", "PyTorch", "train"),
        ("translate RUN --backend torch", "PyTorch", "train"),
        ("plot attention RUN gato", "matplotlib", "plot"),
        ("serve RUN", "prometheus_client", "serve"),
    ],
)
def test_missing_extra_is_named(
    minimal_environment: Path, trained: Path, arguments: str, package: str, extra: str
) -> None:
    words = arguments.replace("RUN", str(trained)).split()
    found = run(minimal_environment, "-m", "seq2seq", *words, text="gato\n")
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == f"seq2seq: {needs(package, extra)}\n"


@pytest.mark.parametrize("precision", ["fp32", "auto"])
def test_exported_model_translates(
    minimal_environment: Path, exported: Path, precision: str
) -> None:
    found = run(
        minimal_environment, "-m", "seq2seq", "translate", str(exported), "--precision", precision,
        "--nbest", "2", "--workers", "2", text="gato come\nperro\n",
    )  # fmt: skip
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.split("\n")[::2] == ["cat eats", "dog", ""]


def test_run_translates(minimal_environment: Path, trained: Path) -> None:
    found = run(minimal_environment, "-m", "seq2seq", "translate", str(trained), text="gato\n")
    assert (found.returncode, found.stdout, found.stderr) == (0, "cat\n", "")


def test_run_is_exported(minimal_environment: Path, exported: Path, tmp_path: Path) -> None:
    words = ["export", str(exported), "-o", str(tmp_path / "small")]
    found = run(minimal_environment, "-m", "seq2seq", *words)
    assert found.returncode == 0, found.stderr
    for name in ("encoder.fp32.onnx", "step.int8.onnx"):
        made = (tmp_path / "small/graph" / name).read_bytes()
        assert made == (exported / "graph" / name).read_bytes()


def test_exported_model_samples_scores_aligns_and_compares(
    minimal_environment: Path, exported: Path, trained: Path, toy: ToyCorpus, tmp_path: Path
) -> None:
    test = str(toy.folder / "test.tsv")

    def command(*arguments: object) -> str:
        words = [str(argument) for argument in arguments]
        found = run(minimal_environment, "-m", "seq2seq", *words, text="gato\nperro\n")
        assert found.returncode == 0, found.stderr
        return found.stdout

    assert command("translate", exported, "--samples", 4, "--mbr", "chrf") == "cat\ndog\n"
    assert "BLEU" in command(
        "evaluate", exported, test, "-o", tmp_path / "hypotheses", "--confidence"
    )
    assert command("align", exported, test).startswith("0-0")
    assert "BLEU" in command("compare", exported, trained, test, "--html", tmp_path / "page.html")
    assert command("explain", exported, "gato").startswith("gato\ncat ")


@pytest.mark.parametrize("name", model_names())
def test_packaged_model_translates(minimal_environment: Path, name: str) -> None:
    text = {"es": "Ella come pan.\n", "en": "She eats bread.\n"}[name[:2]]
    found = run(minimal_environment, "-m", "seq2seq", "translate", name, text=text)
    assert (found.returncode, found.stdout[-2:]) == (0, ".\n"), found.stderr


def test_exported_model_in_python(minimal_environment: Path, exported: Path) -> None:
    code = (
        "import sys\n"
        "from seq2seq import Translator\n"
        "print(Translator.load(sys.argv[1]).translate(['gato come'])[0][0].text)"
    )
    found = run(minimal_environment, "-c", code, str(exported))
    assert (found.stdout, found.stderr) == ("cat eats\n", "")
