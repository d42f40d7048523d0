"""Untrusted runs execute no code, lead to no other path, and take no unbounded memory."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from foreign import alter_config, alter_header, checkpoint_of, copy_run, seal
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from seq2seq.errors import CheckpointError, UserError
from seq2seq.inference import torch_backend
from seq2seq.inference.translator import Translator
from seq2seq.model.translation_model import meta_parameters
from seq2seq.runs import directory

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*(ROOT / "seq2seq").rglob("*.py"), *(ROOT / "scripts").rglob("*.py")])

# --- the package

BANNED_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "imp"}
BANNED_CALLS = {"eval", "exec", "compile", "__import__"}
BANNED_ATTRIBUTES = {
    "torch": {"load", "save"},
    "os": {"system", "popen", "execv", "execve", "execvp", "spawnl", "spawnv", "posix_spawn"},
    "yaml": {
        "load",
        "load_all",
        "unsafe_load",
        "full_load",
        "UnsafeLoader",
        "FullLoader",
        "Loader",
    },
}


def dangers(tree: ast.AST) -> Iterator[str]:
    """Yield whatever can run code from data: pickle, shells, loaders that build objects."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] in BANNED_MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            parent = node.module.split(".")[0]
            names = {alias.name for alias in node.names}
            if parent in BANNED_MODULES or names & BANNED_ATTRIBUTES.get(parent, set()):
                yield f"{node.module}: {names}"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in BANNED_ATTRIBUTES.get(node.value.id, set()):
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Call):
            given = {word.arg: word.value for word in node.keywords if word.arg}
            if isinstance(node.func, ast.Name) and node.func.id in BANNED_CALLS:
                yield node.func.id
            for name in ("shell", "allow_pickle", "trust_remote_code"):
                if name in given and ast.unparse(given[name]) != "False":
                    yield name


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_package_cannot_run_code_from_data(path: Path) -> None:
    assert list(dangers(ast.parse(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from dill import loads",
        "from torch import load",
        "torch.load(path)",
        "torch.save(x, path)",
        "eval(text)",
        "exec(text)",
        "os.system(text)",
        "from os import popen",
        "subprocess.run(text, shell=True)",
        "numpy.load(path, allow_pickle=True)",
        "yaml.load(text)",
        "yaml.unsafe_load(text)",
    ],
)
def test_dangerous_calls_are_detected(line: str) -> None:
    assert list(dangers(ast.parse(line)))


def test_yaml_loader_is_safe() -> None:
    loader = import_module("seq2seq.config.loading")._Loader
    assert issubclass(loader, yaml.SafeLoader)


# --- an untrusted run

WATCH = """
import json, sys
from seq2seq.inference.translator import Translator

def translate(path):
    return [line[0].text for line in Translator.load(path).translate(["gato come", "perro"])]

found = {"events": [], "paths": [], "before": translate(sys.argv[1])}
watching = True

def note(event, arguments):
    if watching:
        found["events"].append(event)
        if event in ("open", "os.listdir", "os.scandir"):
            found["paths"].append(str(arguments[0]))

sys.addaudithook(note)
found["after"] = translate(sys.argv[2])
watching = False
print(json.dumps(found))
"""


def test_loading_opens_no_other_file_and_runs_no_code(trained: Path, tmp_path: Path) -> None:
    run, cache = copy_run(trained, tmp_path / "run"), tmp_path / "cache"
    for name in ("train", "valid", "test"):
        path = run / "config.yaml"
        text = path.read_text()
        (line,) = [line for line in text.splitlines() if line.endswith(f"/{name}.tsv")]
        path.write_text(text.replace(line.split("path: ")[1], f"{tmp_path}/canary-{name}"))
        (tmp_path / f"canary-{name}").write_text("gato\tcat\n")
    (tmp_path / "canary").write_text("secret")
    with (checkpoint_of(run) / "SHA256SUMS").open("a") as file:
        file.write(f"{'0' * 64}  ../../../canary\n{'0' * 64}  {tmp_path}/canary\n\n{'0' * 64}  \n")
    command = [sys.executable, "-c", WATCH, str(trained), str(run)]
    done = subprocess.run(
        command,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(cache)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["after"] == found["before"] == ["cat eats", "dog"]
    assert f"{run}/config.yaml" in found["paths"]
    own = (f"{run}/", f"{cache}/")
    assert [path for path in found["paths"] if not path.startswith(own)] == []
    harmless = {
        "open", "os.listdir", "os.scandir", "os.walk", "pathlib.Path.glob", "builtins.id",
        "object.__getattr__", "object.__setattr__", "sys._getframe",
        "fcntl.flock", "os.mkdir", "os.rename", "shutil.rmtree",  # in the cache
    }  # fmt: skip
    assert set(found["events"]) <= harmless


WATCH_EXPORT = """
import json, sys
from seq2seq import cli

seen = []
events = "open", "os.listdir", "os.scandir", "socket.connect", "socket.getaddrinfo"
sys.addaudithook(lambda event, more: seen.append(f"{event} {more}") if event in events else None)
ways = ["-o", sys.argv[2]], ["-o", sys.argv[2], "--compact"]
codes = [cli.main(["export", sys.argv[1], *way]) for way in ways]
print(json.dumps({"codes": codes, "seen": seen}))
"""


@pytest.mark.parametrize(
    "corpus",
    [
        {"path": "canary.tsv"},
        {"format": "aligned", "source_path": "canary.tsv", "target_path": "canary.tsv"},
        {
            "format": "huggingface",
            "name": "canary/canary",
            "split": "validation",
            "source": "es",
            "target": "en",
        },
    ],
)
def test_exporting_reads_no_corpus_that_the_recipe_names(
    trained: Path, tmp_path: Path, corpus: dict[str, str]
) -> None:
    run, canary = copy_run(trained, tmp_path / "run"), tmp_path / "canary.tsv"
    canary.write_text("gato\tcat\n")
    recipe = yaml.safe_load((run / "config.yaml").read_text())
    recipe["data"]["valid"] = {k: v.replace("canary.tsv", str(canary)) for k, v in corpus.items()}
    (run / "config.yaml").write_text(yaml.safe_dump(recipe))
    done = subprocess.run(
        [sys.executable, "-c", WATCH_EXPORT, run, tmp_path / "small"],
        capture_output=True, encoding="utf-8",
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["codes"] == [0, 0]
    assert any(str(run / "config.yaml") in event for event in found["seen"])
    assert [each for each in found["seen"] if "canary" in each or each.startswith("socket.")] == []
    assert "int8 was not measured" in done.stderr


LINKED = [
    "config.yaml",
    "source.model",
    "target.model",
    "checkpoints",
    "checkpoints/step-000150",
    *(f"checkpoints/step-000150/{name}" for name in ("model.safetensors", "state.json")),
    "checkpoints/step-000150/SHA256SUMS",
]


@pytest.mark.parametrize("name", LINKED)
def test_link_out_of_the_run_is_refused(trained: Path, tmp_path: Path, name: str) -> None:
    run = copy_run(trained, tmp_path / "run")
    (run / name).rename(tmp_path / "outside")
    (run / name).symlink_to(tmp_path / "outside")
    with pytest.raises(CheckpointError, match=rf"{name}: a link that leads out of the run"):
        Translator.load(run)
    with pytest.raises(UserError, match=r"not a run directory|a link that leads out of the run"):
        Translator.load(checkpoint_of(run))
    (run / name).unlink()
    (run / name).symlink_to("../" * name.count("/") + "inside")
    (tmp_path / "outside").rename(run / "inside")
    assert Translator.load(run).translate(["perro"])[0][0].text == "dog"
    (tmp_path / "link").symlink_to(run)  # links on the way to the run are the user's own
    assert Translator.load(tmp_path / "link").translate(["perro"])[0][0].text == "dog"


@pytest.mark.parametrize("name", LINKED)
@pytest.mark.parametrize(
    ("lay", "words"),
    [
        (lambda path: path.symlink_to(path.name), "cannot be read"),
        (lambda path: path.symlink_to("none"), "broken link"),
        (lambda path: path.symlink_to("/dev/zero"), "a link that leads out of the run"),
        (lambda path: os.mkfifo(path), "not a regular file; a run holds only files and folders"),
    ],
    ids=["circle", "nowhere", "endless", "pipe"],
)
def test_only_files_and_folders_are_accepted(
    trained: Path, tmp_path: Path, name: str, lay: Callable[[Path], None], words: str
) -> None:
    run = copy_run(trained, tmp_path / "run")
    path = run / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    lay(path)
    with pytest.raises(CheckpointError, match=words):
        Translator.load(run)


def test_folder_outside_the_run_is_not_listed(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy_run(trained, tmp_path / "run")
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").symlink_to("/")
    monkeypatch.setattr(os, "walk", lambda path: 1 / 0)
    with pytest.raises(CheckpointError, match="checkpoints: a link that leads out of the run"):
        Translator.load(run)


def test_huge_text_files_are_refused(single: Path, tmp_path: Path) -> None:
    for name, most in (
        ("config.yaml", directory.MAX_TEXT_BYTES),
        ("source.model", directory.MAX_TOKENIZER_BYTES),
        ("checkpoints/step-000150/state.json", directory.MAX_TEXT_BYTES),
        ("checkpoints/step-000150/SHA256SUMS", directory.MAX_TEXT_BYTES),
    ):
        run = Path(shutil.copytree(single, tmp_path / name.replace("/", "-")))
        os.truncate(run / name, most + 1)  # a sparse file
        with pytest.raises(
            CheckpointError, match=rf"{name}: {most + 1} bytes, more than the limit"
        ):
            Translator.load(run)


@pytest.mark.parametrize("size", ["decoder_size", "embedding_size", "encoder_size", "size"])
def test_config_larger_than_its_weights_is_refused(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    run = copy_run(trained, tmp_path / "run")
    alter_config(run, f" {size}: 24", f" {size}: 65536")
    monkeypatch.setattr(torch_backend, "TranslationModel", lambda *_: pytest.fail("took memory"))
    for backend in ("onnx", "torch"):
        with pytest.raises(CheckpointError, match=r"has the shape .*, but the config asks for"):
            Translator.load(run, backend=backend)


def reshape(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda header: header["output_bias"].update(changes)


@pytest.mark.parametrize(
    "change",
    [
        reshape(shape=[1 << 40]),
        reshape(shape=[1 << 62, 4]),
        reshape(shape=[1 << 32, 1 << 32]),
        reshape(shape=[-330]),
        reshape(shape=[331]),
        reshape(dtype="F64"),
        reshape(dtype="PICKLE"),
        reshape(data_offsets=[0, 1 << 50]),
        reshape(data_offsets=[8, 0]),
        lambda header: header.update(more=header["output_bias"]),
    ],
)
def test_header_that_does_not_match_its_file_is_refused(
    trained: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    run = copy_run(trained, tmp_path / "run")
    alter_header(run, change)
    with pytest.raises(CheckpointError, match=r"model.safetensors: cannot be read") as caught:
        Translator.load(run, backend="torch")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [5, 10**8 + 1, 2**63, 2**64 - 1])
def test_huge_header_is_refused(trained: Path, tmp_path: Path, size: int) -> None:
    run = copy_run(trained, tmp_path / "run")
    path = checkpoint_of(run) / "model.safetensors"
    path.write_bytes(size.to_bytes(8, "little") + path.read_bytes()[8:])
    seal(checkpoint_of(run))
    with pytest.raises(CheckpointError, match=r"model.safetensors: cannot be read"):
        Translator.load(run, backend="torch")


def test_meta_parameters_match_the_model(trained: Path) -> None:
    translator = Translator.load(trained, backend="torch")
    vocabularies = translator.source.vocab_size, translator.target.vocab_size
    found = meta_parameters(translator.config.model, *vocabularies)
    made = dict(translator.models[0].named_parameters())
    assert {name: tensor.shape for name, tensor in found.items()} == {
        name: parameter.shape for name, parameter in made.items()
    }
    assert {tensor.device.type for tensor in found.values()} == {"meta"}


FILES = ["config.yaml", "source.model", "target.model"]
FILES += [f"checkpoints/step-000150/{name}" for name in ("state.json", "model.safetensors")]


@pytest.fixture(scope="module")
def victim(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_run(trained, tmp_path_factory.mktemp("victim") / "run")


@examples(60)
@given(
    st.sampled_from([*FILES, "checkpoints/step-000150/SHA256SUMS"]),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 4), st.binary(max_size=4)), min_size=1, max_size=4
    ),
    st.booleans(),
)
def test_any_damage_is_an_error_or_harmless(
    victim: Path, name: str, changes: list[tuple[float, int, bytes]], sealed: bool
) -> None:
    path = victim / name
    whole = path.read_bytes()
    raw = bytearray(whole)
    for share, removed, added in changes:
        # Half of the positions are at the start of the file, where its structure is.
        start = int(share * 2 * len(raw)) if share < 0.5 else int((share - 0.5) * 400)
        raw[start : start + removed] = added
    try:
        path.write_bytes(raw)
        if sealed and "SUMS" not in name:
            seal(checkpoint_of(victim))
        with contextlib.suppress(UserError):
            assert len(Translator.load(victim).translate(["gato come pan", ""])) == 2
    finally:
        path.write_bytes(whole)
        seal(checkpoint_of(victim))
