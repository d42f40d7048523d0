"""What importing takes: translating and scoring on the CPU do without PyTorch."""

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
from seq2seq.errors import ConfigError, missing_package, verdict

ROOT = Path(__file__).parents[1]
# Modules that work with requirements-inference.txt alone.
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
    "seq2seq.onnx.backend",
    "seq2seq.inference.protocol",
    "seq2seq.inference.sampling",
    "seq2seq.inference.search",
    "seq2seq.inference.streams",
    "seq2seq.inference.text",
    "seq2seq.inference.translator",
    "seq2seq.packaged",
    "seq2seq.processes",
    "seq2seq.runs.checkpoint",
    "seq2seq.runs.directory",
    "seq2seq.onnx.graphs",
    "seq2seq.runs.logs",
    "seq2seq.serving.api",
    "seq2seq.serving.batching",
    "seq2seq.serving.interactive",
    "seq2seq.serving.libretranslate",
    "seq2seq.serving.markup",
    "seq2seq.serving.models",
    "seq2seq.serving.server",
    "seq2seq.serving.service",
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


@pytest.mark.parametrize(
    "command", [["train", "recipe.yaml"], ["doctor", "run"], ["faults", "run"]]
)
def test_command_without_torch_is_a_user_error(without_others: str, command: list[str]) -> None:
    code = f"{without_others}from seq2seq import cli; sys.exit(cli.main(sys.argv[1:]))"
    found = python(code, *command)
    assert found.returncode == 2
    assert re.fullmatch(
        r"seq2seq: this needs torch, which is not installed; install it with: pip install torch "
        r"datasets .*\n",
        found.stderr,
    )


def test_python_name_without_torch_is_an_import_error(without_others: str) -> None:
    code = (
        f"{without_others}"
        "try:\n    from seq2seq import train\n"
        "except ImportError as error:\n    print(error.name, error)"
    )
    assert python(code).stdout.startswith(
        "torch this needs torch, which is not installed; install it with: pip install torch "
    )


def test_corpus_without_datasets_is_a_user_error(without_others: str) -> None:
    code = (
        f"{without_others}"
        "from seq2seq.config import CorpusConfig\n"
        "from seq2seq.data.corpus import read_corpus\n"
        "from seq2seq.errors import verdict\n"
        "fields = dict(format='huggingface', name='x', split='y', source='a', target='b')\n"
        "try:\n    list(read_corpus(CorpusConfig(**fields)))\n"
        "except Exception as error:\n    print(*verdict(error))"
    )
    assert python(code).stdout.startswith("2 this needs torch, which is not installed")


def test_missing_package() -> None:
    error = ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
    assert missing_package(error) == (
        "this needs matplotlib, which is not installed; install it with: pip install matplotlib"
    )
    assert verdict(ModuleNotFoundError("No module named 'seq2seq.x'", name="seq2seq.x")) is None


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


def test_requirements_of_inference_are_among_the_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "requirements-inference.txt").read_text().splitlines()
    minimal = {line for line in lines if not line.startswith("#")}
    assert minimal - set(project["dependencies"]) == set()
    names = {re.split(r"[<>=]", line)[0] for line in project["dependencies"]}
    rest = names - {re.split(r"[<>=]", line)[0] for line in minimal}
    for name in rest:  # each has a message
        assert missing_package(ModuleNotFoundError(name=name)) is not None


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
