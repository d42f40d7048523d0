"""Fetching of one file over HTTP: checked, resumed, and named only when it is whole."""

from __future__ import annotations

import http.client
import json
import logging
import re
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from seq2seq.errors import DataError
from seq2seq.files import sha256 as sha256_of
from seq2seq.files import sync_directory, sync_file

MAX_BYTES = 1 << 30
_CHUNK = 1 << 16
_TIMEOUT = 30  # seconds without a byte
_ADDRESS = re.compile(r"https?://[^/]")
_PASSING = {408, 429, 500, 502, 503, 504}  # HTTP errors that may be gone a moment later
# Some hosts, manythings.org among them, turn urllib's own name away.
_AGENT = "Mozilla/5.0 (compatible; seq2seq prepare_data)"

logger = logging.getLogger(__name__)


class _TransferError(Exception):
    """A transfer ended early; what is in the partial file is kept for the next attempt."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects over HTTP alone: urllib itself would go on to an FTP server."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if not _ADDRESS.match(newurl):
            raise DataError(f"{req.full_url}: sent on to {newurl!r}, which is not over HTTP")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_Redirects)


@dataclass(frozen=True)
class _Version:
    """What a server said of a file, by which a partial copy is known to be of the same one."""

    url: str
    validator: str | None = None  # a strong ETag or a date
    total: int | None = None

    def continues(self, known: _Version) -> bool:
        """Tell whether nothing contradicts that both are of one file; a part may say less."""
        same_validator = None in (self.validator, known.validator) or (
            self.validator == known.validator
        )
        return same_validator and known.total in (None, self.total)


class _Partial:
    """The file under its temporary name, and beside it the version that it is a part of."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(path.name + ".part")
        self.version_path = path.with_name(path.name + ".part.json")

    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def version(self, url: str) -> _Version:
        """Return what is known of the partial file; without any such knowledge, it is removed."""
        try:
            version = _Version(**json.loads(self.version_path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            version = _Version(url)
        if version.url != url or (version.validator is None and version.total is None):
            self.remove()
            return _Version(url)
        return version

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.version_path.unlink(missing_ok=True)


def download(
    url: str, path: Path, *, sha256: str | None = None, attempts: int = 4, pause: float = 1.0
) -> None:
    """Fetch a file, and give it its name when it is whole and has the SHA-256 that is asked for.

    What an interrupted attempt left is resumed where the server shows that the file is the same,
    and else begun again. The pause, in seconds, doubles after each attempt. Raises DataError.
    """
    if not _ADDRESS.match(url):
        raise DataError(f"{url}: not an address; http:// or https:// is expected")
    partial = _Partial(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, attempts + 1):
        try:
            _fetch(url, partial)
            break
        except (OSError, ValueError, http.client.HTTPException, _TransferError) as error:
            problem = _problem(error)
            if not _may_pass(error):
                raise DataError(f"{url}: {problem}; check the address") from None
            if attempt == attempts:
                raise DataError(
                    f"{url}: {problem}, in the last of {attempts} attempts; run it again later, "
                    "or fetch the file by other means and name it as SOURCE"
                ) from None
            logger.warning("%s: %s; trying again", url, problem)
            time.sleep(pause * 2 ** (attempt - 1))
    if sha256 is not None and (found := sha256_of(partial.path)) != sha256.lower():
        partial.remove()
        raise DataError(f"{url}: its SHA-256 is {found}, not {sha256.lower()}; it is not that file")
    sync_file(partial.path)
    partial.path.replace(path)
    sync_directory(path.parent)
    partial.remove()


def _fetch(url: str, partial: _Partial) -> None:
    """Ask for what is missing and append it, or write the whole file anew."""
    known = partial.version(url)
    offset = partial.size()
    if offset and offset == known.total:
        return
    headers = {"User-Agent": _AGENT, "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
        if known.validator is not None:
            headers["If-Range"] = known.validator
    try:
        response = _OPENER.open(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            partial.remove()
            raise _TransferError("the file on the server is another one now") from None
        raise
    with response:
        version, start = _describe(url, response)
        if start and (start != offset or not version.continues(known)):
            partial.remove()
            raise _TransferError("the server sent another part than was asked for")
        if not start:
            partial.version_path.write_text(json.dumps(asdict(version)), encoding="utf-8")
        _store(response, partial.path, start, version.total)
    if version.total is not None and partial.size() != version.total:
        raise _TransferError(f"{partial.size()} of {version.total} bytes arrived")


def _describe(url: str, response: Any) -> tuple[_Version, int]:
    """Return the version of the whole file, and the byte at which this response starts in it."""
    headers = response.headers
    if headers.get_content_type() == "text/html":
        raise DataError(f"{url}: the server sends a web page, not a file; check the address")
    etag = headers.get("ETag")
    validator = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")
    length = headers.get("Content-Length", "")
    total = int(length) if length.isdecimal() else None
    start = 0
    if response.status == http.client.PARTIAL_CONTENT:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", headers.get("Content-Range", ""))
        start, total = (int(match[1]), int(match[2])) if match else (-1, None)
    if total is not None and total > MAX_BYTES:
        raise DataError(f"{url}: {total} bytes, more than the limit of {MAX_BYTES}")
    return _Version(url, validator, total), start


def _store(response: Any, path: Path, start: int, total: int | None) -> None:
    with (
        path.open("ab" if start else "wb") as stream,
        # None: shown on a terminal only
        tqdm(total=total, initial=start, unit="B", unit_scale=True, disable=None) as progress,
    ):
        while chunk := response.read(_CHUNK):
            stream.write(chunk)
            progress.update(len(chunk))
            if stream.tell() > MAX_BYTES:
                raise DataError(f"{response.url}: more bytes than the limit of {MAX_BYTES}")


def _may_pass(error: Exception) -> bool:
    """Tell whether another attempt can help."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code in _PASSING
    return not isinstance(error, ValueError | http.client.InvalidURL)


def _problem(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answers {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return f"no connection ({error.reason})"
    return str(error) or type(error).__name__
