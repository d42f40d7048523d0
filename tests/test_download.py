"""Downloads from a server that cuts, lies and changes its mind."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from seq2seq.data import download as download_module
from seq2seq.data.download import download
from seq2seq.errors import DataError

CONTENT = os.urandom(300_000)


@dataclass
class Site:
    """What the server does with each request in turn; the last behaviour stays."""

    url: str = ""
    behaviours: list[str] = field(default_factory=lambda: ["whole"])
    etag: str | None = '"v1"'
    modified: str | None = None
    location: str = ""  # for the behaviour "moved"
    content: bytes = CONTENT
    requests: list[dict[str, str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)  # ends what is silent


class Handler(http.server.BaseHTTPRequestHandler):
    site: Site

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        site = self.site
        site.requests.append(dict(self.headers))
        behaviour = site.behaviours.pop(0) if len(site.behaviours) > 1 else site.behaviours[0]
        if behaviour.isdecimal():
            self.send_error(int(behaviour))
            return
        if behaviour == "moved":
            self.send_response(302)
            self.send_header("Location", site.location)
            self.end_headers()
            return
        if behaviour == "silent":
            site.released.wait()
            return
        start = self._start() if behaviour != "no ranges" else 0
        if start >= len(site.content):
            self.send_error(416)
            return
        if start and behaviour == "wrong range":
            start += 7
        body = site.content[start:]
        declared = len(body)
        if behaviour == "cut":
            body = body[: len(body) // 2]
        elif behaviour == "longer":
            declared += 1000
        elif behaviour == "shorter":
            declared -= 1000
        self.send_response(206 if start else 200)
        if behaviour != "no length":
            self.send_header("Content-Length", str(declared))
        if start:
            total = len(site.content)
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        if site.etag:
            self.send_header("ETag", site.etag)
        if site.modified:
            self.send_header("Last-Modified", site.modified)
        if behaviour == "page":
            self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        if behaviour == "stuck":
            self.wfile.write(body[: len(body) // 2])
            site.released.wait()
            return
        self.wfile.write(body)

    def _start(self) -> int:
        wanted = self.headers.get("Range")
        version = self.site.etag or self.site.modified
        if wanted is None or self.headers.get("If-Range", version) != version:
            return 0
        return int(wanted.removeprefix("bytes=").removesuffix("-"))


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    current = Site()
    handler = type("SiteHandler", (Handler,), {"site": current})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        current.url = f"http://127.0.0.1:{server.server_address[1]}/list/spa-eng.zip"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield current
        current.released.set()
        server.shutdown()
        thread.join()


def fetch(site: Site, directory: Path, **keys: Any) -> bytes:
    path = directory / "file"
    download(site.url, path, pause=0, **keys)
    assert [entry.name for entry in directory.iterdir()] == ["file"]
    return path.read_bytes()


def ranges(site: Site) -> list[str | None]:
    return [request.get("Range") for request in site.requests]


def test_download(site: Site, tmp_path: Path) -> None:
    assert fetch(site, tmp_path, sha256=hashlib.sha256(CONTENT).hexdigest().upper()) == CONTENT
    assert ranges(site) == [None]


def test_download_goes_on_where_the_connection_was_cut(site: Site, tmp_path: Path) -> None:
    site.behaviours = ["cut", "cut", "whole"]
    assert fetch(site, tmp_path) == CONTENT
    assert ranges(site) == [None, "bytes=150000-", "bytes=225000-"]
    assert site.requests[1]["If-Range"] == '"v1"'


def test_download_goes_on_without_etags(site: Site, tmp_path: Path) -> None:
    site.etag = None
    site.behaviours = ["cut", "whole"]
    assert fetch(site, tmp_path) == CONTENT
    assert ranges(site) == [None, "bytes=150000-"]
    assert "If-Range" not in site.requests[1]


def test_a_date_does_where_there_is_no_etag(site: Site, tmp_path: Path) -> None:
    site.etag, site.modified = None, "Wed, 01 May 2024 00:00:00 GMT"
    site.behaviours = ["cut"]
    with pytest.raises(DataError):
        download(site.url, tmp_path / "file", attempts=1)
    site.behaviours = ["cut", "whole"]
    assert fetch(site, tmp_path) == CONTENT
    assert [request.get("If-Range") for request in site.requests] == [None, *[site.modified] * 2]
    (tmp_path / "file").unlink()
    site.behaviours = ["cut"]
    with pytest.raises(DataError):
        download(site.url, tmp_path / "file", attempts=1)
    site.behaviours, site.content = ["whole"], CONTENT[::-1]
    site.modified = "Thu, 02 May 2024 00:00:00 GMT"
    assert fetch(site, tmp_path) == CONTENT[::-1]


def test_weak_etags_are_not_asked_for(site: Site, tmp_path: Path) -> None:
    site.etag = 'W/"v1"'
    site.behaviours = ["cut", "whole"]
    assert fetch(site, tmp_path) == CONTENT
    assert "If-Range" not in site.requests[1]


def test_download_goes_on_in_another_run(site: Site, tmp_path: Path) -> None:
    site.behaviours = ["cut"]
    with pytest.raises(DataError, match="150000 of 300000 bytes arrived, in the last of 1"):
        download(site.url, tmp_path / "file", attempts=1)
    assert not (tmp_path / "file").exists()
    site.behaviours = ["whole"]
    assert fetch(site, tmp_path) == CONTENT
    assert ranges(site) == [None, "bytes=150000-"]


def test_download_begins_again_when_the_file_changed(site: Site, tmp_path: Path) -> None:
    site.behaviours = ["cut"]
    with pytest.raises(DataError):
        download(site.url, tmp_path / "file", attempts=1)
    site.behaviours, site.etag, site.content = ["whole"], '"v2"', CONTENT[::-1]
    assert fetch(site, tmp_path) == CONTENT[::-1]
    assert ranges(site) == [None, "bytes=150000-"]


@pytest.mark.parametrize("content", [CONTENT[:100], CONTENT[::-1] + b"more"])
def test_download_begins_again_when_the_size_changed(
    site: Site, tmp_path: Path, content: bytes
) -> None:
    site.behaviours, site.etag = ["cut"], None
    with pytest.raises(DataError):
        download(site.url, tmp_path / "file", attempts=1)
    site.behaviours, site.content = ["whole"], content
    assert fetch(site, tmp_path) == content
    assert ranges(site) == [None, "bytes=150000-", None]


def test_a_part_of_another_address_is_not_used(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(b"stale")
    (tmp_path / "file.part.json").write_text('{"url": "http://a/b", "total": 9}')
    assert fetch(site, tmp_path) == CONTENT
    (tmp_path / "file.part").write_bytes(b"stale")
    (tmp_path / "file.part.json").write_text("not JSON")
    assert fetch(site, tmp_path) == CONTENT
    assert ranges(site) == [None, None]


def test_a_whole_part_is_only_renamed(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT)
    (tmp_path / "file.part.json").write_text(json.dumps({"url": site.url, "total": len(CONTENT)}))
    assert fetch(site, tmp_path) == CONTENT
    assert site.requests == []


@pytest.mark.parametrize("behaviour", ["no ranges", "wrong range", "503", "429"])
def test_download_survives(site: Site, tmp_path: Path, behaviour: str) -> None:
    site.behaviours = ["cut", behaviour, "whole"]
    assert fetch(site, tmp_path) == CONTENT


def test_download_without_a_length(site: Site, tmp_path: Path) -> None:
    site.behaviours = ["no length"]
    assert fetch(site, tmp_path) == CONTENT


def test_a_length_that_is_never_reached_is_an_error(site: Site, tmp_path: Path) -> None:
    site.behaviours = ["longer"]
    with pytest.raises(DataError, match="in the last of 4 attempts"):
        download(site.url, tmp_path / "file", pause=0)
    assert not (tmp_path / "file").exists()


def test_a_length_that_is_too_short_fails_the_checksum(site: Site, tmp_path: Path) -> None:
    site.behaviours = ["shorter"]
    with pytest.raises(DataError, match="its SHA-256 is"):
        download(site.url, tmp_path / "file", sha256=hashlib.sha256(CONTENT).hexdigest())
    assert list(tmp_path.iterdir()) == []


def test_lasting_errors_are_not_tried_again(site: Site, tmp_path: Path) -> None:
    site.behaviours = ["404"]
    with pytest.raises(DataError, match="the server answers 404 Not Found; check the address"):
        download(site.url, tmp_path / "file")
    assert len(site.requests) == 1
    for url in ("ftp://a/b", "http://", "file:///etc/passwd", "http://a b/c", "http://a:b/c"):
        with pytest.raises(DataError, match="address"):
            download(url, tmp_path / "file")


@pytest.mark.parametrize("behaviour", ["silent", "stuck"])
def test_a_server_that_hangs_is_not_waited_for(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str
) -> None:
    monkeypatch.setattr(download_module, "_TIMEOUT", 0.3)
    site.behaviours = [behaviour, "whole"]
    assert fetch(site, tmp_path) == CONTENT
    kept = download_module._CHUNK * 2  # whole chunks of the half that came
    assert ranges(site) == [None, f"bytes={kept}-" if behaviour == "stuck" else None]
    site.behaviours = ["silent"]
    with pytest.raises(DataError, match=r"timed out.* in the last of 2 attempts"):
        download(site.url, tmp_path / "other", attempts=2, pause=0)


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("file://{secret}", "is not allowed"),
        ("ftp://127.0.0.1/a.zip", "not over HTTP"),
        ("data:,secret", "is not allowed"),
    ],
)
def test_redirects_stay_on_the_web(site: Site, tmp_path: Path, location: str, words: str) -> None:
    (tmp_path / "secret").write_text("secret")
    site.behaviours, site.location = ["moved"], location.format(secret=tmp_path / "secret")
    with pytest.raises(DataError, match=words):
        download(site.url, tmp_path / "file", pause=0)
    assert os.listdir(tmp_path) == ["secret"]
    assert len(site.requests) == 1


def test_redirects_are_followed(site: Site, tmp_path: Path) -> None:
    site.behaviours, site.location = ["moved", "cut", "moved", "whole"], "/elsewhere.zip"
    assert fetch(site, tmp_path) == CONTENT


def test_a_page_in_place_of_the_file_is_refused(site: Site, tmp_path: Path) -> None:
    site.behaviours = ["page"]
    with pytest.raises(DataError, match="sends a web page, not a file; check the address"):
        download(site.url, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(DataError, match="no connection"):
        download("http://127.0.0.1:9/a.zip", tmp_path / "file", attempts=2, pause=0)


@pytest.mark.parametrize("behaviour", ["whole", "no length"])
def test_download_has_a_limit(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str
) -> None:
    monkeypatch.setattr(download_module, "MAX_BYTES", 100_000)
    site.behaviours = [behaviour]
    with pytest.raises(DataError, match="than the limit of 100000"):
        download(site.url, tmp_path / "file")
    assert not (tmp_path / "file").exists()
