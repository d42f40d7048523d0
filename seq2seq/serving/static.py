"""The files of the page, and `seq2seq export --web`: a folder that translates without a server.

The folder has the page of `seq2seq serve`, but with page/worker.js in the place of the server. What is
from npm comes from the packages below, whose hashes are those that npm itself records.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import tarfile
import tempfile
from base64 import b64decode, b64encode
from hashlib import sha384
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq.errors import DataError, UserError
from seq2seq.files import publish_directory

_HERE = Path(__file__).parent
PAGE, _WEB = _HERE / "page", _HERE / "web"
_SHARED = _HERE.parent / "analysis/templates"  # with the page of `seq2seq explain --html`
PAGE_FILES = [
    *(PAGE / name for name in ("page.css", "page.js", "tree.js", "examples.js", "backend.js")),
    *(_SHARED / name for name in ("drawing.js", "explanation.css")),
]
_SERVICE_WORKER = "service-worker.js"
_REGISTRY = "http://localhost"  # npm's own default
_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval' '{}'; style-src 'self'; "
    "connect-src 'self'; worker-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
)


class Library(NamedTuple):
    """A package of npm, and the names that its files get in the folder."""

    name: str
    version: str
    integrity: str
    files: dict[str, str]


LIBRARIES = (
    Library(
        "onnxruntime-web", "1.30.0",
        "sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4C"
        "XAfKYQ==",
        {"dist/ort.wasm.bundle.min.mjs": "onnxruntime.mjs",
         "dist/ort-wasm-simd-threaded.wasm": "onnxruntime.wasm"},
    ),
    Library(
        "sentencepiece-js", "1.1.0",
        "sha512-HN6teKCRO9tz37zbaNI3i+vMZ/JRWDt6kmZ7OVpzQv1jZHyYNmf5tE7CFpIYN86+y9TLB0cuscMdA3OH"
        "hT/MhQ==",
        {"dist/index.js": "sentencepiece.js", "LICENSE": "sentencepiece.LICENSE"},
    ),
    Library(
        "sentencex-wasm", "0.1.31",
        "sha512-fzHf8TMt3YNINIx+aF2NLnkY5JADmxhs/nGIyV7gen41n6YHuA8A8/oHVEg88IJ9lXV6TG0kvgwNJZii"
        "RkVP4A==",
        {"sentencex_wasm.js": "sentencex.js", "sentencex_wasm_bg.wasm": "sentencex.wasm",
         "LICENSE": "sentencex.LICENSE"},
    ),
)  # fmt: skip


def export_web(
    run: str | Path, output: str | Path, precision: str = "int8", libraries: str | None = None
) -> Path:
    """Write a folder that translates in a browser with a run's best checkpoint; return it.

    `libraries` is a folder like npm's node_modules that has the packages; by default they are
    downloaded, and kept in the cache. Raises DataError for a folder that is not empty and no
    earlier export, CheckpointError for a run that cannot be used, UserError for packages that are
    missing or cannot be downloaded.
    """
    target = Path(output)
    earlier = (target / _SERVICE_WORKER).exists() and (target / "page").is_dir()
    if target.exists() and not (target.is_dir() and (earlier or not any(target.iterdir()))):
        raise DataError(f"{target}: not an empty directory, nor an earlier export; name another")
    files = {path.name: path.read_bytes() for path in (*PAGE_FILES, *_WEB.glob("*.js"))}
    service_worker = files.pop(_SERVICE_WORKER).decode()
    about, of_model = _model(run, precision)
    files |= of_model
    for library in LIBRARIES:
        files |= _read(library, libraries)
    for name in [name for name in files if name.endswith(".wasm")]:
        # A suffix that no server takes for an encoding, which the browser would undo.
        files[f"{name}.gzip"] = gzip.compress(files.pop(name), mtime=0)
    about["files"] = {name: _integrity(content) for name, content in files.items()}
    files["model.json"] = json.dumps(about, ensure_ascii=False).encode()
    index = _index({name: _integrity(content) for name, content in files.items()})
    kept = {"./": index} | {f"page/{name}": content for name, content in files.items()}
    sums = json.dumps({path: _integrity(content) for path, content in kept.items()}, indent=1)
    with publish_directory(target) as folder:
        (folder / "page").mkdir()
        for name, content in files.items():
            (folder / "page" / name).write_bytes(content)
        (folder / "index.html").write_bytes(index)
        service_worker = service_worker.replace("FILES = {}", f"FILES = {sums}", 1)
        (folder / _SERVICE_WORKER).write_text(service_worker, encoding="utf-8")
    return target


def _model(run: str | Path, precision: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return what model.json says of a run, and its tokenizers and graphs by name."""
    from seq2seq.inference.sentences import rules_json
    from seq2seq.inference.text import UNLIKELY
    from seq2seq.onnx.export import write_graphs
    from seq2seq.onnx.graphs import KINDS, Graphs, read_graphs
    from seq2seq.packaged import LANGUAGE_NAMES, find_run
    from seq2seq.runs.directory import check_files, find_checkpoint, run_of
    from seq2seq.serving import Limits

    path = find_run(run)
    source = run_of(path)
    check_files(source.path, source.graphs)
    config, tokenizers = source.config(), source.tokenizers()
    with tempfile.TemporaryDirectory() as folder:
        graphs = None if source.checkpoints.exists() else read_graphs(source.graphs)
        if graphs is None:
            meta = write_graphs(find_checkpoint(path), source, Path(folder), [precision])
            graphs = Graphs(Path(folder), meta)
        found = dict(zip(KINDS, graphs.files(precision), strict=True))
        files = {graph.name: graph.read_bytes() for graph in found.values()}
    sides = ("source", "target")
    models = {f"{side}.model": (source.path / f"{side}.model").read_bytes() for side in sides}
    if len({*models.values()}) == 1:
        del models["target.model"]
    codes = [config.data.source_language, config.data.target_language]
    shown = {"name": source.path.name, "style": config.model.style, "source": codes[0]}
    shown |= {"score": config.model.attention.score, "target": codes[1]}
    shown |= {f"{s}_name": LANGUAGE_NAMES.get(c, c) for s, c in zip(sides, codes, strict=True)}
    page = {"models": [shown | {"beam": config.inference.beam_size}], "keyRequired": False}
    names = [*models, *models][:2]
    about = {
        "page": page | {"charLimit": Limits.characters},
        "inference": config.inference.model_dump(),
        "unlikely": UNLIKELY,
        "graphs": {kind: graph.name for kind, graph in found.items()},
        "tokenizers": {
            side: {"file": name, "pieces": tokenizer.pieces(range(tokenizer.vocab_size))}
            for side, name, tokenizer in zip(sides, names, tokenizers, strict=True)
        },
        "sentences": {
            side: rules_json(code) if config.inference.split_sentences else None
            for side, code in zip(sides, codes, strict=True)
        },
    }
    return about, files | models


def _read(library: Library, folder: str | None) -> dict[str, bytes]:
    """Return the files of a package by their names in the export."""
    name, version = library.name, library.version
    if folder is None:
        with tarfile.open(_download(library)) as archive:
            members = {new: archive.extractfile(f"package/{old}") for old, new in library.files.items()}
            return {new: member.read() for new, member in members.items() if member}
    place = Path(folder) / name
    try:
        found = json.loads((place / "package.json").read_bytes())["version"]
        if found == version:
            return {new: (place / old).read_bytes() for old, new in library.files.items()}
    except (OSError, ValueError, KeyError):
        found = "missing"
    raise UserError(f"{place}: {found}; install it with: npm install {name}@{version}")


def _download(library: Library) -> Path:
    import pooch

    pooch.get_logger().setLevel("WARNING")
    settings = {key.lower(): value for key, value in os.environ.items()}
    registry = settings.get("npm_config_registry", _REGISTRY).rstrip("/")
    name, version = library.name, library.version
    url = f"{registry}/{name}/-/{name}-{version}.tgz"
    known = f"sha512:{b64decode(library.integrity.partition('-')[2]).hex()}"
    try:
        return Path(pooch.retrieve(url, known, f"{name}-{version}.tgz", pooch.os_cache("seq2seq")))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{url}: cannot be downloaded ({error}); check the network, set npm_config_registry, "
            f"or run 'npm install {name}@{version}' elsewhere and pass --libraries node_modules"
        ) from None


def _index(sums: dict[str, str]) -> bytes:
    """Return the page's HTML with a security policy and the hashes of its scripts and styles."""
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    # The hashes of modules that other modules import.
    modules = [path.name for path in PAGE_FILES if path.suffix == ".js"]
    imports = json.dumps({"integrity": {f"./page/{name}": sums[name] for name in modules}})
    charset = '<meta charset="utf-8">'
    policy = _POLICY.format(_integrity(imports.encode()))
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    head = f'{charset}\n{head}\n<script type="importmap">{imports}</script>'
    html = re.sub(r'(?<="page/)([\w.]+)"', lambda m: f'{m[0]} integrity="{sums[m[1]]}"', html)
    return html.replace(charset, head, 1).encode()


def _integrity(content: bytes) -> str:
    """Return a hash as browsers check it."""
    return f"sha384-{b64encode(sha384(content).digest()).decode()}"
