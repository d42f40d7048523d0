"""`seq2seq export --web`: what the folder has, where its libraries come from, and errors."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import re
import shutil
import subprocess
import tarfile
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup

from seq2seq.cli import main
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import uncertain_words
from seq2seq.packaged import SAMPLE
from seq2seq.serving import static
from seq2seq.serving.static import LIBRARIES, export_web


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that only look like those of npm."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for name, library in LIBRARIES.items():
        path = folder / f"{name}-{library['version']}.tgz"
        with tarfile.open(path, "w:gz") as archive:
            for member in library["files"].values():
                content = f"{name}/{member}".encode()
                about = tarfile.TarInfo(f"package/{member}")
                about.size = len(content)
                archive.addfile(about, io.BytesIO(content))
        digest = b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
        monkeypatch.setitem(library, "integrity", f"sha512-{digest}")
    return folder


def integrity(content: bytes) -> str:
    return f"sha384-{b64encode(hashlib.sha384(content).digest()).decode()}"


def test_all_files_are_named_with_their_hashes(
    single: Path, packages: Path, tmp_path: Path
) -> None:
    folder = export_web(str(single), tmp_path / "web", "fp32", str(packages))
    found = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    worker, index = found.pop("service-worker.js").decode(), found.pop("index.html")
    [sums] = re.findall(r"const FILES = (\{.*?\});", worker, re.DOTALL)
    expected = {name: integrity(content) for name, content in found.items()}
    assert json.loads(sums) == {"./": integrity(index), **expected}

    about = json.loads(found["page/about.json"])
    assert about["files"] == {
        name: each for name, each in expected.items() if name != "page/about.json"
    }
    html = index.decode()
    [imports] = re.findall(r'<script type="importmap">(.*?)</script>', html)
    assert f"'{integrity(imports.encode())}'" in html.partition("\n<script")[0]
    hashes = json.loads(imports)["integrity"]
    scripts = {f"./page/{name}" for name in ("page.js", "tree.js", "drawing.js", "backend.js")}
    assert scripts < {*hashes}
    assert all(expected[name[2:]] == each for name, each in hashes.items())
    linked = re.findall(r'(?:href|src)="(page/\S+)" integrity="(\S+)"', html)
    assert {*linked} == {(name, expected[name]) for name, _ in linked}
    assert [name for name, _ in linked] == ["page/explanation.css", "page/page.css", "page/page.js"]
    assert not re.search(r'(?:href|src)="(?!page/|data:)', html)  # also below a path


def test_page_and_web_folder_share_all_modules_but_the_backend(
    single: Path, packages: Path, tmp_path: Path
) -> None:
    folder = export_web(str(single), tmp_path / "web", "fp32", str(packages)) / "page"
    for path in static.PAGE_FILES:
        assert (path.read_bytes() == (folder / path.name).read_bytes()) == (
            path.name != "backend.js"
        )
    packed = gzip.decompress((folder / "onnxruntime.wasm.gzip").read_bytes())
    assert packed == b"onnxruntime-web/dist/ort-wasm-simd-threaded.wasm"


def test_folder_has_onnx_files_and_no_weights(
    single: Path, packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(single)
    folder = export_web(".", tmp_path / "web", "fp32", str(packages))
    files = {path.name for path in (folder / "model").rglob("*") if path.is_file()}
    graphs = {f"{kind}.fp32.onnx" for kind in ("encoder", "embedding", "step")}
    assert files == {"config.yaml", "source.model", "target.model", "graph.json", *graphs}
    about = json.loads((folder / "page/about.json").read_bytes())
    assert about["name"] == "single"
    assert about["source"]["code"] == "es"
    assert about["source"]["rules"]["language"] == "es"


def test_earlier_export_is_replaced(
    single: Path, packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = export_web(str(single), tmp_path / "web", "fp32", str(packages))
    (folder / "page/old.js").write_text("")
    monkeypatch.chdir(folder)
    assert export_web(str(single), ".", "int8", str(packages)) == folder
    assert not (folder / "page/old.js").exists()
    assert not (folder / "model/graph/step.fp32.onnx").exists()


# --- Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--web", "DIR", "-o", "x"], "--web writes a folder of its own; remove --output"),
        (["--web", "DIR", "--compact"], "--web writes a folder of its own; remove --compact"),
        (["--web", "DIR", "--valid", "x"], "--web writes a folder of its own; remove --valid"),
        (["--web", "DIR", "--target", "x"], "--web writes a folder of its own; remove --target"),
        (["--web", "DIR", "--json"], "--web writes a folder of its own; remove --json"),
        (["--libraries", "x"], "--libraries requires --web DIR"),
    ],
)
def test_options_that_exclude_each_other(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [str(tmp_path / "web") if word == "DIR" else word for word in options]
    assert main(["export", "es-en", *options]) == 2
    assert capsys.readouterr().err == f"seq2seq: {message}\n"
    assert not (tmp_path / "web").exists()


def error(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Return the one line that a failing export prints."""
    assert main(["export", *map(str, arguments)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    return line


def test_directory_with_other_files_is_refused(
    packages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert error(capsys, "es-en", "--web", tmp_path, "--libraries", packages) == (
        f"seq2seq: {tmp_path}: not empty, and not an earlier export; name another directory"
    )
    assert packages.is_dir()


def test_run_that_cannot_be_exported_is_one_line(
    single: Path, packages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    web = ("--web", tmp_path / "web", "--libraries", packages)
    assert "nowhere: not a run directory" in error(capsys, "nowhere", *web)
    (tmp_path / "copy/graph").mkdir(parents=True)
    shutil.copyfile(single / "config.yaml", tmp_path / "copy/config.yaml")
    assert "copy: has ONNX files for other programs" in error(capsys, tmp_path / "copy", *web)
    with pytest.raises(SystemExit):  # an ensemble
        main(["export", str(single), str(single), *map(str, web)])
    assert "unrecognized arguments" in capsys.readouterr().err
    assert not (tmp_path / "web").exists()


def test_other_packages_are_refused(
    single: Path, libraries: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(libraries, kept)
    damaged = kept / "onnxruntime-web-1.30.0.tgz"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    line = error(capsys, single, "--web", tmp_path / "web", "--libraries", kept)
    assert line == f"seq2seq: {damaged}: not onnxruntime-web 1.30.0; delete this file"
    assert not (tmp_path / "web").exists()


def test_npm_that_fails_or_is_missing_is_one_line(
    single: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    script = tmp_path / "bin/npm"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho npm error code ENOTFOUND >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent), prepend=":")
    fix = (
        "run 'npm pack onnxruntime-web@1.30.0 sentencepiece-js@1.1.0 sentencex-wasm@0.1.31' "
        "elsewhere and name its folder with --libraries"
    )
    line = error(capsys, single, "--web", tmp_path / "web")
    assert line == f"seq2seq: npm failed (npm error code ENOTFOUND); {fix}"
    monkeypatch.setenv("PATH", "/nowhere")
    line = error(capsys, single, "--web", tmp_path / "web")
    assert line.endswith(f"npm is not installed; install it with Node.js, or {fix}")
    assert not (tmp_path / "web").exists()


def test_packages_have_the_recorded_hashes(web: Path) -> None:
    files = {path.name for path in (web / "page").iterdir()}
    assert {new for library in LIBRARIES.values() for new in library["files"]} < files


def in_node(folder: Path, asked: list[Any]) -> list[Any]:
    """Return what the modules of an export answer in Node.js to a list of [method, asked]."""
    found = subprocess.run(
        ["node", Path(__file__).parent / "web/translate.mjs", folder],
        input=json.dumps(asked), capture_output=True, encoding="utf-8",
    )  # fmt: skip
    assert found.returncode == 0, found.stderr[-1000:]
    return list(json.loads(found.stdout))


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_prefixes_and_alternatives_in_node_are_those_of_python(web: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(web, tmp_path / "web")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    translator, generator = Translator.load("es-en"), random.Random(0)
    rows = (SAMPLE / "test.tsv").read_text(encoding="utf-8").splitlines()[:24]
    texts = [row.split("\t")[0] for row in rows]
    texts += [" ".join(texts[:3]), texts[3].upper(), " ".join([texts[4]] * 30)]
    found = [best.text for [best] in translator.translate(texts)]
    prefixes = [
        text[: generator.randint(0, min(len(text), 80))] + generator.choice(["", " ", "x", "HO"])
        for text in found
    ]
    words = [" ".join(text.split()[: generator.randint(0, 3)]) for text in found[:8]]
    asked = [["translate", {"q": q, "prefix": p}] for q, p in zip(texts, prefixes, strict=True)]
    asked += [
        ["alternatives", {"q": q, "prefix": p}] for q, p in zip(texts[:8], words, strict=True)
    ]
    answers = in_node(folder, asked)
    expected = translator.translate(texts, prefixes=prefixes)
    for [best], answer in zip(expected, answers[: len(texts)], strict=True):
        assert answer["text"] == best.text
        for part, of in zip(best.parts, answer["parts"], strict=True):
            record = part.as_json(attention=False)
            assert of["tokens"] == record["tokens"]
            assert of["log_probs"] == pytest.approx(record["log_probs"], abs=1e-3)
            assert (of["finished"], of["unlikely"]) == (part.finished, part.unlikely)
            assert of["uncertain"] == uncertain_words(part)
    for text, prefix, answer in zip(texts, words, answers[len(texts) :], strict=False):
        alternatives = translator.alternatives(text, prefix)
        assert [(each["word"], each["text"]) for each in answer] == [
            (each.word, each.translation.text) for each in alternatives
        ]
        chances = [each.log_prob for each in alternatives]
        assert [each["log_prob"] for each in answer] == pytest.approx(chances, abs=1e-3)


def said(code: str) -> set[str]:
    """Return the texts that some JavaScript shows in the language of the page."""
    found = set()
    for call in re.finditer(r"\bsay\(", code):
        depth, end = 1, call.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        texts = re.findall(r'"(?:[^"\\]|\\.)*"', code[call.end() : end])
        found |= {json.loads(text) for text in texts}
    return found


def test_every_text_of_the_page_has_a_spanish_one() -> None:
    scripts = {path.name: path.read_text(encoding="utf-8") for path in static.PAGE_FILES}
    spanish = scripts.pop("spanish.js")
    html = BeautifulSoup((static.PAGE / "index.html").read_text(encoding="utf-8"), "html.parser")
    texts = set[str]()
    for tag in html.find_all(True):
        texts |= {tag[name] for name in ("aria-label", "title", "placeholder") if tag.get(name)}
        if tag.name not in ("script", "style"):
            texts |= {*tag.find_all(string=True, recursive=False)}
    texts = {" ".join(text.split()) for text in texts}.union(*map(said, scripts.values()))
    pairs = re.findall(r'^  (".*"|\w+):\s+(".*"),$', spanish, re.MULTILINE)
    known = {key.strip('"'): value for key, value in pairs}
    assert {text for text in texts if re.search(r"\w", text)} - {*known} == {"seq2seq"}
    for key, value in known.items():
        fields = [sorted(re.findall(r"\{(\w+)\}", text)) for text in (key, value)]
        assert fields[0] == fields[1], key
