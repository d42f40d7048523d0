"""Runs on the Hugging Face hub: download `hf:user/name[@revision]`, upload a folder.

Downloads stay in the hub's own cache (HF_HUB_CACHE); if the hub cannot be reached, a run is read
from there. Nothing here opens a downloaded file: loading a run checks its files.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from fnmatch import fnmatch
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from seq2seq.errors import CheckpointError

log = logging.getLogger(__name__)
for _name in ("httpx", "httpx2"):  # they log every request
    logging.getLogger(_name).setLevel(logging.WARNING)

PREFIX = "hf:"
FILES = [  # of a run; nothing else is downloaded
    "config.yaml", "config.json", "source.model", "target.model", "metrics.jsonl",
    *(f"checkpoints/*/{name}" for name in ("model.safetensors", "state.json", "SHA256SUMS")),
]  # fmt: skip
MAX_BYTES, MAX_FILES = 1 << 32, 100  # of a run


@cache
def download(name: str) -> Path:
    """Return the folder of the run `hf:user/name[@revision]`; download it unless it is cached.

    A revision is a branch, a tag or a commit; one process gets the same commit each time. Raises
    CheckpointError for a repository that is missing, private or too large, and if the hub cannot
    be reached and the run is not in the cache.
    """
    from huggingface_hub import HfApi, snapshot_download

    repo, _, revision = name.removeprefix(PREFIX).partition("@")
    wanted: dict[str, Any] = {"revision": revision or None, "allow_patterns": FILES}
    cached = None
    with suppress(OSError, ValueError):
        cached = Path(snapshot_download(repo, **wanted, local_files_only=True))
    try:
        found = HfApi().model_info(repo, revision=revision or None, files_metadata=True)
    except Exception as error:  # of huggingface_hub, or of its HTTP client
        if cached is None:
            raise _explained(name, error, "not in the cache, and ") from None
        log.info("%s; using the copy in the cache", _explained(name, error))
        return cached
    if cached and cached.name == found.sha:
        return cached
    files = found.siblings or []
    sizes = [f.size or 0 for f in files if any(fnmatch(f.rfilename, each) for each in FILES)]
    if sum(sizes) > MAX_BYTES or len(sizes) > MAX_FILES:
        raise CheckpointError(
            f"{name}: {sum(sizes)} bytes in {len(sizes)} files, more than the limits of "
            f"{MAX_BYTES} and {MAX_FILES}; this is not a run"
        )
    try:
        return Path(snapshot_download(repo, **wanted))
    except Exception as error:
        raise _explained(name, error) from None


def cache_of(run: Path) -> Path | None:
    """Return the hub's cache if a run is in it; its files are links within the cache."""
    if run.parent.name != "snapshots" or not find_spec("huggingface_hub"):
        return None
    from huggingface_hub.constants import HF_HUB_CACHE

    found = Path(HF_HUB_CACHE).resolve()
    return found if run.resolve().is_relative_to(found) else None


def upload(folder: Path, repo: str, *, private: bool = False, revision: str | None = None) -> str:
    """Commit a folder to a repository, created if needed; return its address.

    Files of a run that the repository had before are deleted. Raises CheckpointError if the hub
    refuses or cannot be reached.
    """
    from huggingface_hub import HfApi

    hub = HfApi()
    try:
        url = hub.create_repo(repo, private=private or None, exist_ok=True)
        if private and not hub.model_info(repo).private:
            raise CheckpointError(f"{repo}: is public; make it private first, or remove --private")
        if revision:
            hub.create_branch(repo, branch=revision, exist_ok=True)
        hub.upload_folder(
            repo_id=repo,
            folder_path=folder,
            revision=revision,
            delete_patterns=[*FILES, "graph/*"],  # earlier versions pushed graphs
        )
    except Exception as error:
        raise _explained(repo, error) from None
    return str(url)


def _explained(name: str, error: Exception, prefix: str = "") -> Exception:
    """Turn an error of huggingface_hub into one that says what to do."""
    from huggingface_hub import constants, errors

    if isinstance(error, CheckpointError) or getattr(error, "errno", None) is not None:
        return error  # the latter: such as a full disk
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.RevisionNotFoundError):
        why = "no such revision; name a branch, a tag or a commit"
    elif isinstance(error, errors.RepositoryNotFoundError) or status in (401, 403):
        why = (
            "no such repository, or one that you may not use; check its name, or log in with "
            "'hf auth login' or HF_TOKEN"
        )
    elif isinstance(error, errors.HFValidationError):
        why = "not the name of a repository; expected user/name"
    else:
        first = f"{type(error).__name__}: {error}".splitlines()[0]
        why = f"{prefix}{constants.ENDPOINT} cannot be used ({first}); check the network"
    return CheckpointError(f"{name}: {why}")
