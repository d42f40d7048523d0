"""The wheel, installed: what comes with it works in an empty folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from seq2seq.packaged import model_names

ROOT = Path(__file__).parents[2]
PARTS = ("seq2seq", "configs", "data/sample", "pyproject.toml", "README.md", "LICENSE")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel, which finds all other packages in this one."""
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "tree/data").mkdir(parents=True)
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / "tree" / part, symlinks=True)
        else:
            shutil.copy(ROOT / part, folder / "tree")
    python = folder / "venv/bin/python"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-index"]
    build = ["wheel", *options, "--no-build-isolation", "-w", folder, folder / "tree"]
    subprocess.run([*pip, *build], check=True)
    [wheel] = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    install = [*pip, "--python", python, "install", *options, wheel]
    subprocess.run(install, env=environment(), check=True)
    [packages] = folder.glob("venv/lib/python*/site-packages")
    # Not that environment's own .pth files: an editable installation would come first.
    (packages / "outer.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python.parent


def environment() -> dict[str, str]:
    """Return the variables of this process but PYTHONPATH, where another copy may be."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(command: Path, *arguments: str, text: str = "", folder: Path) -> str:
    """Run the installed command in a folder; return its output."""
    variables = {"OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(folder.parent / "cache")}
    found = subprocess.run(
        [command, *arguments],
        cwd=folder, input=text, capture_output=True, encoding="utf-8",
        env=environment() | variables,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_installed_program_works_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    where = "import seq2seq; print(seq2seq.__file__)"
    assert str(installed.parent) in run(installed / "python", "-c", where, folder=empty)
    seq2seq = installed / "seq2seq"
    listed = run(seq2seq, "models", folder=empty)
    for name in model_names():
        assert name in listed
        text = {"es": "Ella come pan.\n", "en": "She eats bread.\n"}[name[:2]]
        assert run(seq2seq, "translate", name, text=text, folder=empty).endswith(".\n")
        explained = run(seq2seq, "explain", name, text.strip(), folder=empty)
        assert explained.startswith(f"source       {text}")
    assert not any(empty.iterdir())
    run(
        seq2seq, "train", "quickstart", "training.max_steps=2", "training.validate_every=2",
        "training.validation_sentences=10", "data.tokenizer.max_sentences=1000",
        "data.tokenizer.source_vocab_size=600", "data.tokenizer.target_vocab_size=600",
        "model.embedding_size=16", "model.encoder_size=16", "model.decoder_size=16", folder=empty,
    )  # fmt: skip
    assert run(seq2seq, "translate", "runs/quickstart", text="gato\n", folder=empty)
    scores = run(
        seq2seq, "evaluate", "runs/quickstart", "data/sample/test.tsv", "--beam", "1", folder=empty
    )
    assert scores.startswith("BLEU = ")
