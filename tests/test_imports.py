"""What importing takes: a plain installation translates, scores and explains without PyTorch."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib

from seq2seq import device
from seq2seq.errors import ConfigError, exit_status, missing_package

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Modules that a plain installation can import.
INFERENCE_ONLY = (
    "seq2seq",
    "seq2seq.cli",
    "seq2seq.config",
    "seq2seq.config.loading",
    "seq2seq.config.reference",
    "seq2seq.data.cleaning",
    "seq2seq.data.cache",
    "seq2seq.data.corpus",
    "seq2seq.data.ragged",
    "seq2seq.data.sources",
    "seq2seq.data.tokenizer",
    "seq2seq.data.windows",
    "seq2seq.device",
    "seq2seq.errors",
    "seq2seq.analysis.alignment",
    "seq2seq.analysis.plots",
    "seq2seq.analysis.compare",
    "seq2seq.evaluation.evaluate",
    "seq2seq.evaluation.metrics",
    "seq2seq.evaluation.robustness",
    "seq2seq.files",
    "seq2seq.hub",
    "seq2seq.analysis.heatmaps",
    "seq2seq.inference.onnx_backend",
    "seq2seq.inference.protocol",
    "seq2seq.inference.sampling",
    "seq2seq.inference.search",
    "seq2seq.inference.lines",
    "seq2seq.inference.text",
    "seq2seq.inference.translator",
    "seq2seq.packaged",
    "seq2seq.processes",
    "seq2seq.runs.checkpoint",
    "seq2seq.runs.directory",
    "seq2seq.runs.logs",
    "seq2seq.serving.api",
    "seq2seq.serving.batching",
    "seq2seq.serving.documents",
    "seq2seq.serving.interactive",
    "seq2seq.serving.libretranslate",
    "seq2seq.serving.served_models",
    "seq2seq.serving.server",
    "seq2seq.serving.service",
    "seq2seq.serving.static",
)
# What they must not import, nor need.
OTHERS = (
    "torch", "safetensors", "datasets", "pyarrow", "pandas", "pooch", "requests", "onnx",
    "tensorboard", "matplotlib", "jinja2", "rich", "huggingface_hub",
)  # fmt: skip
SERVING = ("fastapi", "starlette", "uvicorn", "python_multipart", "prometheus_client")
HELP_NEEDS_NONE_OF = (
    *OTHERS, *SERVING, "numpy", "pydantic", "yaml", "sentencepiece", "tqdm", "onnxruntime"
)  # fmt: skip


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    found = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, encoding="utf-8"
    )
    assert "Traceback" not in found.stderr, found.stderr
    return found


def loaded(statement: str, names: tuple[str, ...] = OTHERS) -> list[str]:
    """Return which of these packages a new process has imported after the statement."""
    show = f"print(*({set(names)!r} & sys.modules.keys()), file=sys.stderr)"
    return python(f"import sys\n{statement}\n{show}").stderr.split()


@pytest.fixture
def without_others() -> str:
    """Code that makes every import of the other packages fail as if they were not installed."""
    return f"import sys\nsys.modules.update(dict.fromkeys({OTHERS!r}))\n"


def test_modules_import_none_of_the_others() -> None:
    code = (
        "import importlib, json, sys\nfound = {}\n"
        "for name in sys.argv[1:]:\n"
        "    before = set(sys.modules)\n"
        "    importlib.import_module(name)\n"
        f"    found[name] = sorted({set(OTHERS)!r} & (sys.modules.keys() - before))\n"
        "print(json.dumps(found))"
    )
    assert json.loads(python(code, *INFERENCE_ONLY).stdout) == {name: [] for name in INFERENCE_ONLY}


def test_modules_import_without_the_others(without_others: str) -> None:
    imports = "".join(f"import {name}\n" for name in INFERENCE_ONLY)
    assert python(without_others + imports).returncode == 0


def test_help_imports_the_standard_library_only() -> None:
    show = (
        "from seq2seq import cli\n"
        "for name in ('', 'translate', 'serve', 'train', 'evaluate', 'align', 'plot'):\n"
        "    try:\n"
        "        cli.main([*filter(None, [name]), '--help'])\n"
        "    except SystemExit:\n"
        "        pass\n"
    )
    assert loaded(show, HELP_NEEDS_NONE_OF) == []


def test_reference_needs_no_numpy() -> None:
    assert loaded("from seq2seq import cli; cli.main(['reference'])", (*OTHERS, "numpy")) == []


def needs(package: str, extra: str) -> str:
    """Return the message about a missing package."""
    return (
        f"this needs {package}, which is not installed; install it with: pip install "
        f"'{PROJECT['name']}[{extra}]'"
    )


def imported_name(requirement: str) -> str:
    """Return the name by which the package of a requirement is imported."""
    name = re.split(r"[<>=\[;]", requirement)[0]
    names = {"pyyaml": "yaml", "mlflow-skinny": "mlflow", "markdown-it-py": "markdown_it"}
    return names.get(name, name.replace("-", "_"))


EXTRAS = {
    extra: [imported_name(each) for each in PROJECT["optional-dependencies"][extra]]
    for extra in ("train", "serve", "plot", "corpora", "hub", "mlflow", "wandb")
}


@pytest.fixture
def plain() -> str:
    """Code that makes every import of a package of an extra fail as if it were not installed."""
    names = [name for extra in EXTRAS.values() for name in extra]
    return f"import sys\nsys.modules.update(dict.fromkeys({names!r}))\n"


def test_plain_installation_translates_evaluates_and_explains(plain: str, tmp_path: Path) -> None:
    text, test = tmp_path / "text", tmp_path / "test.tsv"
    text.write_text("No lo veo.\n", encoding="utf-8")
    test.write_text("No lo veo.\tI don't see it.\n", encoding="utf-8")
    commands = [
        ["translate", "es-en", "-i", str(text)],
        ["evaluate", "es-en", str(test), "-o", str(tmp_path / "hypotheses")],
        ["explain", "es-en", "No lo veo."],
        ["explain", "es-en", "No lo veo.", "--words", "--force", "I see it."],
    ]
    code = f"{plain}from seq2seq import cli\n" + "".join(
        f"assert cli.main({command!r}) == 0\nprint('--')\n" for command in commands
    )
    found = python(code)
    assert found.returncode == 0, found.stderr
    translated, scored, explained, forced, _ = found.stdout.split("--\n")
    assert "see it" in translated
    assert scored.startswith("BLEU = ")
    lines = explained.splitlines()
    assert lines[0] == "No lo veo."
    assert lines[1].startswith(translated.strip())
    rows = dict(line.split(maxsplit=1) for line in lines[2:])
    assert rows["see"].startswith("veo 0.")
    assert [line.split()[0] for line in forced.splitlines()[2:]] == ["I", "see", "it", "."]
    assert found.stderr.count(needs("PyTorch", "train")) == 2


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        ("train recipe.yaml", "PyTorch", "train"),
        ("train recipe.yaml --processes 2", "PyTorch", "train"),
        ("doctor run", "PyTorch", "train"),
        ("faults run", "PyTorch", "train"),
        ("explain es-en No --step 1", "PyTorch", "train"),
        ("translate es-en -i text --backend torch", "PyTorch", "train"),
        ("serve es-en", r"\w+", "serve"),
        ("plot attention es-en No", "matplotlib", "plot"),
        ("push es-en user/name -o folder", "matplotlib", "plot"),
        ("translate hf:user/name", "huggingface_hub", "hub"),
    ],
)
def test_missing_extra_is_a_user_error(
    plain: str, command: str, package: str, extra: str, tmp_path: Path
) -> None:
    enter = f"import os; os.chdir({str(tmp_path)!r})\n"
    code = f"{plain}{enter}from seq2seq import cli; sys.exit(cli.main(sys.argv[1:]))"
    found = python(code, *command.split())
    assert found.returncode == 2
    line = re.escape(needs("PACKAGE", extra)).replace("PACKAGE", package)
    *_, last = found.stderr.splitlines()  # es-en may say that it made its graphs
    assert re.fullmatch(f"seq2seq: {line}", last), found.stderr
    assert not any(tmp_path.iterdir())


def test_python_name_without_torch_is_an_import_error(without_others: str) -> None:
    code = (
        f"{without_others}"
        "try:\n    from seq2seq import train\n"
        "except ImportError as error:\n    print(error.name, error)"
    )
    assert python(code).stdout == f"torch {needs('PyTorch', 'train')}\n"


def test_corpus_without_datasets_is_a_user_error(without_others: str) -> None:
    code = (
        f"{without_others}"
        "from seq2seq.config import CorpusConfig\n"
        "from seq2seq.data.corpus import read_corpus\n"
        "from seq2seq.errors import exit_status\n"
        "fields = dict(format='huggingface', name='x', split='y', source='a', target='b')\n"
        "try:\n    list(read_corpus(CorpusConfig(**fields)))\n"
        "except Exception as error:\n    print(*exit_status(error))"
    )
    assert python(code).stdout == f"2 {needs('datasets', 'train')}\n"


def test_missing_package() -> None:
    for extra, names in EXTRAS.items():
        for name in names:
            error = ModuleNotFoundError(f"No module named '{name}'", name=name)
            assert missing_package(error) == needs("PyTorch" if name == "torch" else name, extra)
    assert missing_package(ModuleNotFoundError("No module named 'numpy'", name="numpy")) is None
    assert exit_status(ModuleNotFoundError("No module named 'seq2seq.x'", name="seq2seq.x")) is None


def test_is_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_GPU_FILES", ("/nowhere",))
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    assert device.is_cpu("cpu")
    assert device.is_cpu("cpu:0")
    assert device.is_cpu("auto")
    for name in ("gpu", "cuda:", "cuda:x", "cuda:128", "cpu\n", ""):
        with pytest.raises(ConfigError, match="unknown device"):
            device.is_cpu(name)
    with pytest.raises(ModuleNotFoundError, match="torch"):
        device.is_cpu("cuda")
    monkeypatch.setattr(device, "_GPU_FILES", ("/dev/null",))
    assert device.is_cpu("auto")  # no torch to use the GPU with


def test_auto_asks_torch_where_there_may_be_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_GPU_FILES", ("/dev/null",))
    for found in (True, False):
        monkeypatch.setattr(device, "gpu_for_each_process", lambda found=found: found)
        assert device.is_cpu("auto") is not found


def test_dependencies_are_what_the_package_imports() -> None:
    imported = set()
    for path in (ROOT / "seq2seq").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    # What pydantic and Jinja2 bring, whose names are theirs too.
    imported -= {*sys.stdlib_module_names, "seq2seq", "markupsafe", "pydantic_core"}
    imported.discard("typing_extensions")  # for types alone
    required = {imported_name(each) for each in PROJECT["dependencies"]}
    # FastAPI reads forms by python_multipart, and scripts/prepare_data.py is not of the package.
    others = {"python_multipart", *EXTRAS["corpora"]}
    assert imported | others == required.union(*EXTRAS.values())


def test_only_commands_and_public_names_are_imported_by_string() -> None:
    """An import by a string is one that `.importlinter` does not see."""
    found = {
        path.relative_to(ROOT / "seq2seq").as_posix()
        for path in (ROOT / "seq2seq").rglob("*.py")
        if re.search(r"import_module|__import__", path.read_text(encoding="utf-8"))
    }
    assert found == {"__init__.py", "cli.py"}


def test_no_private_name_of_torch_is_required() -> None:
    """Private names may go with any version; the requirement is a lower bound only."""
    private = re.compile(r"(torch|dist|aten)(\.\w+)*\._(?!_version__)\w+")
    for path in sorted((ROOT / "seq2seq").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                assert not private.fullmatch(ast.unparse(node)), f"{path}:{node.lineno}"
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
                names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                assert not any(name.startswith("_") for name in names), f"{path}:{node.lineno}"
