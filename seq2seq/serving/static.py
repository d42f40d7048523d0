"""The files of the page, and `seq2seq export --web`: a folder that translates without a server.

It has the page of `seq2seq serve`, with a worker in the place of the server, and ONNX files.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha384, sha512
from pathlib import Path
from typing import IO, Any, cast

from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import DataError, UserError, one_line
from seq2seq.files import publish_directory
from seq2seq.inference.sentences import rules_json
from seq2seq.inference.text import UNCERTAIN, UNLIKELY
from seq2seq.languages import language
from seq2seq.runs.directory import RunDirectory
from seq2seq.serving import Limits

_HERE = Path(__file__).parent
PAGE, _WEB = _HERE / "page", _HERE / "web"
_SHARED = _HERE.parent / "analysis/templates"  # with the page of `seq2seq explain --html`
PAGE_FILES = [
    *sorted(path for path in PAGE.iterdir() if path.suffix != ".html"),
    *(_SHARED / name for name in ("drawing.js", "explanation.css")),
]
_SERVICE_WORKER = "service-worker.js"
LIBRARIES: dict[str, Any] = json.loads((_WEB / "libraries.json").read_bytes())  # of npm


def export_web(
    run: str, output: str | Path, precision: Any = "int8", libraries: str | None = None
) -> Path:
    """Write a folder that translates in a browser with a run's best checkpoint; return it.

    `libraries` is a folder to keep npm's packages in; those that it lacks are downloaded. Raises
    DataError for an output with other files and for a damaged package, UserError for a failed
    download, and as seq2seq.export.export_graphs does.
    """
    from seq2seq.export import export_graphs

    target = Path(output).resolve()  # "." has no name
    if target.exists() and not (target / _SERVICE_WORKER).exists() and any(target.glob("*")):
        raise DataError(f"{target}: not empty, and not an earlier export; name another directory")
    # The last ones replace backend.js.
    files = {f"page/{path.name}": path.read_bytes() for path in (*PAGE_FILES, *_WEB.glob("*.js"))}
    service_worker = files.pop(f"page/{_SERVICE_WORKER}").decode()
    with tempfile.TemporaryDirectory() as temporary:
        for path, wanted in packages(Path(libraries or temporary)):
            with tarfile.open(path) as archive:
                for new, old in wanted.items():
                    content = cast("IO[bytes]", archive.extractfile(f"package/{old}")).read()
                    # Hosts would serve .gz as an encoding, and browsers would unpack it.
                    is_packed = new.endswith(".gzip")
                    files[f"page/{new}"] = gzip.compress(content, mtime=0) if is_packed else content
    with publish_directory(target) as folder:
        model = folder / "model"
        export_graphs(run, model, [precision])
        sums = {name: _integrity(content) for name, content in files.items()}
        for path in filter(Path.is_file, model.rglob("*")):
            sums[path.relative_to(folder).as_posix()] = _integrity(path.read_bytes())
        about = {**_describe(RunDirectory(model), Path(run).resolve().name), "files": sums}
        files["page/about.json"] = json.dumps(about, ensure_ascii=False).encode()
        files["index.html"] = _index(sums)
        kept = {"./": _integrity(files["index.html"]), **sums}
        kept["page/about.json"] = _integrity(files["page/about.json"])
        listed = f"FILES = {json.dumps(kept, indent=1)}"
        files[_SERVICE_WORKER] = service_worker.replace("FILES = {}", listed, 1).encode()
        (folder / "page").mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
    return target


def _describe(run: RunDirectory, name: str) -> dict[str, Any]:
    """Return what the page needs of a run beside its graph.json."""
    config, (source, target) = run.config(), run.tokenizers()

    def side(code: str, tokenizer: Tokenizer) -> dict[str, Any]:
        pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        rules = rules_json(code) if config.inference.split_sentences else None
        known = language(code)
        named = {"code": code, "name": known.name, "joiners": known.joiners}
        return {**named, "pieces": pieces, "rules": rules}

    sides = {
        "source": side(config.data.source_language, source),
        "target": side(config.data.target_language, target),
    }
    marks = {"unlikely": UNLIKELY, "uncertain": UNCERTAIN}
    return {"name": name, "charLimit": Limits.characters, **marks, **sides}


def packages(folder: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield the path of each library's archive, and which of its files the page needs.

    npm downloads archives that the folder lacks, with its own settings and cache. Raises UserError
    if npm fails, DataError for an archive with another hash.
    """
    paths = {name: folder / f"{name}-{each['version']}.tgz" for name, each in LIBRARIES.items()}
    missing = [f"{n}@{LIBRARIES[n]['version']}" for n, path in paths.items() if not path.exists()]
    if missing:
        fix = f"run 'npm pack {' '.join(missing)}' elsewhere and name its folder with --libraries"
        npm = shutil.which("npm")
        if npm is None:
            raise UserError(f"npm is not installed; install it with Node.js, or {fix}")
        folder.mkdir(parents=True, exist_ok=True)
        found = subprocess.run(
            [npm, "pack", "--loglevel=error", "--prefer-offline", *missing],
            capture_output=True, encoding="utf-8", errors="replace", cwd=folder,
        )  # fmt: skip
        if found.returncode:
            raise UserError(f"npm failed ({one_line(found.stderr)[:200]}); {fix}")
    for name, path in paths.items():
        digest = b64encode(sha512(path.read_bytes()).digest()).decode()
        if f"sha512-{digest}" != LIBRARIES[name]["integrity"]:
            raise DataError(f"{path}: not {name} {LIBRARIES[name]['version']}; delete this file")
        yield path, LIBRARIES[name]["files"]


def _index(sums: dict[str, str]) -> bytes:
    """Return the page's HTML with a security policy and the hashes of its scripts and styles."""
    # The hashes of modules that other modules import.
    modules = [f"page/{path.name}" for path in PAGE_FILES if path.suffix == ".js"]
    imports = json.dumps({"integrity": {f"./{name}": sums[name] for name in modules}})
    head = (_WEB / "head.html").read_text().format(_integrity(imports.encode()), imports)
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    html = re.sub(r'(?<==")(page/[\w.]+)"', lambda m: f'{m[0]} integrity="{sums[m[1]]}"', html)
    return html.replace("<head>\n", f"<head>\n{head}", 1).encode()


def _integrity(content: bytes) -> str:
    """Return a hash as browsers check it."""
    return f"sha384-{b64encode(sha384(content).digest()).decode()}"
