"""Corpora from elsewhere: one file over HTTP, and one text file out of a zip or tar archive."""

from __future__ import annotations

import io
import logging
import re
import tarfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from tqdm import tqdm

from seq2seq.data.corpus import DAMAGED, MAX_RATIO, open_unpacked
from seq2seq.errors import DataError
from seq2seq.files import sync_directory, sync_file

MAX_BYTES = 1 << 30  # of a download, and of what an archive unpacks to

_CHUNK = 1 << 16
_TIMEOUT = 30  # seconds without a byte
_TRANSIENT = {408, 429, 500, 502, 503, 504}  # HTTP status codes that may be gone a moment later
# Some hosts, manythings.org among them, refuse the names of Python's clients.
_HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; seq2seq prepare_data)",
    "Accept-Encoding": "identity",
}
_ENCRYPTED = 0x1
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_MAX_HEADER = 1 << 16  # bytes of a long name or an extended header, which tarfile reads at once

logger = logging.getLogger(__name__)


def download(
    url: str, path: Path, *, sha256: str | None = None, attempts: int = 4, pause: float = 1.0
) -> None:
    """Fetch a file, which gets its name only when it is complete and has the given SHA-256.

    The pause, in seconds, doubles after each attempt. Raises DataError.
    """
    import pooch  # with requests it takes some 0.2 seconds
    import requests

    if not _is_web_address(url):
        raise DataError(f"{url}: not a web address; http:// or https:// is expected")
    pooch.get_logger().setLevel(logging.WARNING)
    partial = path.with_name(path.name + ".part")
    partial.unlink(missing_ok=True)
    for attempt in range(1, attempts + 1):
        fetch = pooch.HTTPDownloader(
            progressbar=_LimitedBar(url),
            chunk_size=_CHUNK,
            timeout=_TIMEOUT,
            headers=_HEADERS,
            hooks={"response": _check_response},
        )
        try:
            pooch.retrieve(url, sha256 and sha256.lower(), partial.name, path.parent, None, fetch)
            break
        except requests.RequestException as error:
            problem = _problem(error)
            if attempt == attempts:
                raise DataError(
                    f"{url}: {problem}, in the last of {attempts} attempts; run it again later, "
                    "or download the file by other means and pass its path as SOURCE"
                ) from None
            logger.warning("%s: %s; trying again", url, problem)
            time.sleep(pause * 2 ** (attempt - 1))
        except ValueError:
            raise DataError(
                f"{url}: its SHA-256 is not {sha256}; it is another file, or damaged"
            ) from None
    sync_file(partial)
    partial.replace(path)
    sync_directory(path.parent)


class _LimitedBar(tqdm):  # type: ignore[type-arg]
    """A progress bar, on terminals only, that stops a download of more than MAX_BYTES."""

    def __init__(self, url: str) -> None:
        super().__init__(unit="B", unit_scale=True, disable=None)
        self._url, self._received = url, 0

    def __bool__(self) -> bool:
        return True  # or pooch takes a file of unknown length for one without a bar

    def update(self, n: float | None = 1) -> bool | None:
        self._received += int(n or 0)
        if self._received > MAX_BYTES + _CHUNK:  # the last chunk counts in full
            raise DataError(f"{self._url}: more bytes than the limit of {MAX_BYTES}")
        return super().update(n)

    def reset(self, total: float | None = None) -> None:
        self._received = 0
        super().reset(total)


def _check_response(response: Any, *_: Any, **__: Any) -> None:
    """Raise DataError for a response that trying again would not change."""
    url, headers = response.url, response.headers
    if response.is_redirect:
        target = headers["Location"]
        if urlsplit(target).scheme not in ("", "http", "https"):
            raise DataError(f"{url}: redirects to {target!r}, which is not HTTP")
    elif response.status_code >= 400:
        if response.status_code not in _TRANSIENT:
            raise DataError(
                f"{url}: the server answers {response.status_code} {response.reason}; check the "
                "address"
            )
    elif headers.get("Content-Type", "").startswith("text/html"):
        raise DataError(f"{url}: the server sends a web page, not a file; check the address")
    elif int(headers.get("Content-Length", 0)) > MAX_BYTES:
        raise DataError(
            f"{url}: {headers['Content-Length']} bytes, more than the limit of {MAX_BYTES}"
        )


def _problem(error: Any) -> str:
    """Return in a few words what went wrong with a transfer."""
    if "timed out" in str(error):
        return "the connection timed out"
    if error.response is not None:
        return f"the server answers {error.response.status_code} {error.response.reason}"
    if "Connection broken" in str(error):
        return f"the connection was cut ({error})"
    return f"no connection ({error})"


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError where it is not a number
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc) and not re.search(r"\s", url)


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip or, by its name, a tar archive."""
    return path.name.endswith((".zip", *_TARS)) or zipfile.is_zipfile(path)


@contextmanager
def open_member(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open the one file of an archive that has this name, in whichever folder.

    Nothing is extracted, so the archive's own paths, links and devices have no effect. Raises
    DataError where the archive is damaged, has no such file or several, or exceeds the limits.
    """
    is_tar = path.name.endswith(_TARS)
    try:
        with _open_tar(path, name) if is_tar else _open_zip(path, name) as stream:
            yield stream
    except (zipfile.BadZipFile, tarfile.TarError, NotImplementedError, *DAMAGED) as error:
        kind = "tar" if is_tar else "zip"
        raise DataError(
            f"{path}: damaged, or not a {kind} archive ({error}); download it again"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


@contextmanager
def _open_zip(path: Path, name: str) -> Iterator[BinaryIO]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        member = members[_find([info.filename for info in members], path, name)]
        where = f"{path}: member {member.filename!r}"
        if member.flag_bits & _ENCRYPTED:
            raise DataError(f"{where} is encrypted; unpack it and pass the file itself")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(
                f"{where} is neither stored nor deflated; unpack it and pass the file itself"
            )
        if member.file_size > min(MAX_BYTES, MAX_RATIO * max(member.compress_size, 1)):
            raise DataError(
                f"{where} unpacks from {member.compress_size} to {member.file_size} bytes: over "
                f"the limit of {MAX_BYTES} bytes or {MAX_RATIO} to 1; if you trust it, unpack it "
                "yourself"
            )
        # zipfile ends the stream at the declared size, which was checked, whatever follows.
        with archive.open(member) as stream:
            yield io.BufferedReader(cast(io.RawIOBase, stream))


@contextmanager
def _open_tar(path: Path, name: str) -> Iterator[BinaryIO]:
    with open_unpacked(path, most=MAX_BYTES) as stream:
        wanted = _find([member.name for _, member in _members(stream)], path, name)
    with open_unpacked(path, most=MAX_BYTES) as stream:
        for number, (archive, member) in enumerate(_members(stream)):
            if number == wanted:
                data = archive.extractfile(member) if member.isreg() else None
                if data is None:
                    raise DataError(
                        f"{path}: member {member.name!r} is a link or a device, not a file; unpack "
                        "the archive and pass the file itself"
                    )
                yield cast(BinaryIO, data)
                return


def _members(stream: BinaryIO) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=_CheckedHeader) as archive:
        for member in archive:
            yield archive, member
            # tarfile would keep every member and every global header.
            archive.members, archive.pax_headers = [], {}  # type: ignore[attr-defined]


class _CheckedHeader(tarfile.TarInfo):
    """A header that is refused where reading on would take much memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _CheckedHeader:
        info = super().frombuf(buf, encoding, errors)
        if info.size < 0 or info.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("a sparse file, or one of negative size")
        if info.type not in (*tarfile.SUPPORTED_TYPES, tarfile.XHDTYPE) or (
            info.type not in tarfile.REGULAR_TYPES and info.size > _MAX_HEADER
        ):
            raise tarfile.ReadError(f"a header of {info.size} bytes, or of unknown type")
        return info


def _find(names: Iterable[str], path: Path, name: str) -> int:
    """Return the index of the one member that has this name in its folder."""
    names = list(names)
    places = [n for n, each in enumerate(names) if each.replace("\\", "/").split("/")[-1] == name]
    if len(places) != 1:
        found = [names[place] for place in places] or names
        raise DataError(
            f"{path}: {len(places) or 'no'} members are called {name}, one is expected; found "
            f"{', '.join(map(repr, found[:8]))}{', ...' if len(found) > 8 else ''}; "
            "unpack it and pass the file itself"
        )
    return places[0]
