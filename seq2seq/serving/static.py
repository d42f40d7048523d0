"""The files of the page, and `seq2seq export --web`: a folder that translates without a server.

It has the page of `seq2seq serve`, with a worker in the place of the server, and an exported run.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import tarfile
from base64 import b64decode, b64encode
from hashlib import sha384
from pathlib import Path
from typing import IO, Any, cast

from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import DataError, UserError
from seq2seq.files import publish_directory
from seq2seq.inference.sentences import rules_json
from seq2seq.inference.text import UNLIKELY
from seq2seq.packaged import LANGUAGE_NAMES
from seq2seq.runs.directory import RunDirectory
from seq2seq.serving import Limits

_HERE = Path(__file__).parent
PAGE, _WEB = _HERE / "page", _HERE / "web"
_SHARED = _HERE.parent / "analysis/templates"  # with the page of `seq2seq explain --html`
PAGE_FILES = [
    *(PAGE / name for name in ("page.css", "page.js", "tree.js", "examples.js", "backend.js")),
    *(_SHARED / name for name in ("drawing.js", "explanation.css")),
]
_SERVICE_WORKER = "service-worker.js"
LIBRARIES: dict[str, Any] = json.loads((_WEB / "libraries.json").read_bytes())  # of npm
_REGISTRY = "http://localhost"  # npm's own default


def export_web(
    run: str, output: str | Path, precision: Any = "int8", libraries: str | None = None
) -> Path:
    """Write a folder that translates in a browser with a run's best checkpoint; return it.

    `libraries` is the folder of npm's packages, which are downloaded if it lacks them; by default
    the cache. Raises DataError for an output with other files, UserError for a failed download, and
    as seq2seq.onnx.export.export does.
    """
    from seq2seq.onnx.export import export

    target = Path(output)
    if target.exists() and not (target / _SERVICE_WORKER).exists() and any(target.glob("*")):
        raise DataError(f"{target}: not empty, and not an earlier export; name another directory")
    # The last ones have another backend.js.
    files = {f"page/{path.name}": path.read_bytes() for path in (*PAGE_FILES, *_WEB.glob("*.js"))}
    service_worker = files.pop(f"page/{_SERVICE_WORKER}").decode()
    for name, library in LIBRARIES.items():
        with tarfile.open(_download(name, **library, folder=libraries)) as archive:
            for new, old in library["files"].items():
                content = cast("IO[bytes]", archive.extractfile(f"package/{old}")).read()
                # Hosts take no other suffix for an encoding, which browsers would undo.
                is_packed = new.endswith(".gzip")
                files[f"page/{new}"] = gzip.compress(content, mtime=0) if is_packed else content
    with publish_directory(target) as folder:
        model = export(run, folder / "model", [precision]).path.parent
        made = [path for path in model.rglob("*") if path.is_file()]
        files |= {path.relative_to(folder).as_posix(): path.read_bytes() for path in made}
        about = _describe(RunDirectory(model), Path(run).name)
        about["files"] = {name: _integrity(content) for name, content in files.items()}
        files["page/about.json"] = json.dumps(about, ensure_ascii=False).encode()
        index = _index(about["files"])
        kept = {name: _integrity(content) for name, content in {"./": index, **files}.items()}
        sums = f"FILES = {json.dumps(kept, indent=1)}"
        files |= {"index.html": index}
        files[_SERVICE_WORKER] = service_worker.replace("FILES = {}", sums, 1).encode()
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
        named = LANGUAGE_NAMES.get(code, code)
        return {"code": code, "name": named, "pieces": pieces, "rules": rules}

    sides = {
        "source": side(config.data.source_language, source),
        "target": side(config.data.target_language, target),
    }
    return {"name": name, "charLimit": Limits.characters, "unlikely": UNLIKELY, **sides}


def _download(name: str, version: str, integrity: str, folder: str | None, **_: Any) -> str:
    """Return the path of a package, whose file has the name that `npm pack` gives it."""
    import pooch

    pooch.get_logger().setLevel("WARNING")
    settings = {key.lower(): value for key, value in os.environ.items()}
    file = f"{name}-{version}.tgz"
    url = f"{settings.get('npm_config_registry', _REGISTRY).rstrip('/')}/{name}/-/{file}"
    known = f"sha512:{b64decode(integrity.partition('-')[2]).hex()}"
    try:
        return str(pooch.retrieve(url, known, file, folder or pooch.os_cache("seq2seq")))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{url}: cannot be downloaded ({error}); check the network and npm_config_registry, or "
            f"run 'npm pack {name}@{version}' elsewhere and name its folder with --libraries"
        ) from None


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
