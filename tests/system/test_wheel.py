"""The wheel, installed: what comes with it works in an empty folder."""

from __future__ import annotations

import json
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
    seq2seq = installed / "seq2seq"
    listed = run(seq2seq, "models", folder=empty)
    texts = {"es": "Ella come pan.\n", "en": "She eats bread.\n"}
    for name in model_names():
        assert name in listed
        text = texts[name[:2]]
        assert run(seq2seq, "translate", name, text=text, folder=empty).endswith(".\n")
    assert not any(empty.iterdir())

    # The rest in one process, which imports everything once.
    tiny = [f"model.{part}_size=16" for part in ("embedding", "encoder", "decoder")]
    tiny += [f"data.tokenizer.{key}=600" for key in ("source_vocab_size", "target_vocab_size")]
    tiny += ["data.tokenizer.max_sentences=1000", "training.validation_sentences=10"]
    (tmp_path / "text").write_text("gato\n")
    commands = [
        *(["explain", name, texts[name[:2]].strip()] for name in model_names()),
        ["train", "quickstart", "training.max_steps=2", "training.validate_every=2", *tiny],
        ["translate", "runs/quickstart", "-i", str(tmp_path / "text")],
        ["evaluate", "runs/quickstart", "data/sample/test.tsv", "--beam", "1"],
    ]
    code = "import json, sys, seq2seq\nfrom seq2seq import cli\nprint(seq2seq.__file__)\n"
    code += "for words in json.loads(sys.argv[1]): print(cli.main(words), '--')"
    found = run(installed / "python", "-c", code, json.dumps(commands), folder=empty)
    where, _, rest = found.partition("\n")
    assert where.startswith(str(installed.parent))
    *explained, trained, translated, scores, end = rest.split("0 --\n")
    for name, text in zip(model_names(), explained, strict=True):
        assert text.startswith(f"source       {texts[name[:2]]}")
    assert (trained, end) == ("", "")
    assert translated
    assert scores.startswith("BLEU = ")
