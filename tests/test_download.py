"""Downloads from a server that cuts connections, hangs, lies about sizes and redirects."""

from __future__ import annotations

import hashlib
import http.server
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from corpora.tatoeba import download as download_module
from corpora.tatoeba.download import download
from seq2seq.errors import DataError

CONTENT = os.urandom(300_000)


@dataclass
class Site:
    """What the server does with each request in turn; the last behaviour stays."""

    url: str = ""
    behaviours: list[str] = field(default_factory=lambda: ["whole"])
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
        body, declared = site.content, len(site.content)
        if behaviour == "cut":
            body = body[: len(body) // 2]
        elif behaviour == "longer":
            declared += 1000
        elif behaviour == "shorter":
            declared -= 1000
        self.send_response(200)
        if behaviour != "no length":
            self.send_header("Content-Length", str(declared))
        if behaviour == "page":
            self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        if behaviour == "stuck":
            self.wfile.write(body[: len(body) // 2])
            site.released.wait()
            return
        self.wfile.write(body)


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


def test_download(site: Site, tmp_path: Path) -> None:
    assert fetch(site, tmp_path, sha256=hashlib.sha256(CONTENT).hexdigest().upper()) == CONTENT
    assert len(site.requests) == 1


def test_cut_connection_is_tried_again(site: Site, tmp_path: Path) -> None:
    site.behaviours = ["cut", "cut", "whole"]
    assert fetch(site, tmp_path) == CONTENT
    assert len(site.requests) == 3


def test_nothing_is_left_of_a_download_that_failed(site: Site, tmp_path: Path) -> None:
    site.behaviours = ["cut"]
    with pytest.raises(DataError, match=r"connection was cut .* in the last of 2 attempts"):
        download(site.url, tmp_path / "file", attempts=2, pause=0)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file.part").write_bytes(b"left by a crash")
    site.behaviours = ["whole"]
    assert fetch(site, tmp_path) == CONTENT


@pytest.mark.parametrize("behaviour", ["503", "429", "silent"])
def test_transient_errors_are_tried_again(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str
) -> None:
    monkeypatch.setattr(download_module, "_TIMEOUT", 0.3)
    site.behaviours = ["cut", behaviour, "whole"]
    assert fetch(site, tmp_path) == CONTENT


def test_download_without_a_length(site: Site, tmp_path: Path) -> None:
    site.behaviours = ["no length"]
    assert fetch(site, tmp_path) == CONTENT


def test_missing_bytes_are_an_error(site: Site, tmp_path: Path) -> None:
    site.behaviours = ["longer"]
    with pytest.raises(DataError, match="in the last of 4 attempts"):
        download(site.url, tmp_path / "file", pause=0)
    assert not (tmp_path / "file").exists()


def test_wrong_checksum_is_refused(site: Site, tmp_path: Path) -> None:
    site.behaviours = ["shorter"]
    with pytest.raises(DataError, match="its SHA-256 is"):
        download(site.url, tmp_path / "file", sha256=hashlib.sha256(CONTENT).hexdigest())
    assert list(tmp_path.iterdir()) == []


def test_permanent_errors_are_not_tried_again(site: Site, tmp_path: Path) -> None:
    site.behaviours = ["404"]
    with pytest.raises(DataError, match="the server answers 404 Not Found; check the address"):
        download(site.url, tmp_path / "file")
    assert len(site.requests) == 1
    for url in ("ftp://a/b", "http://", "file:///etc/passwd", "http://a b/c", "http://a:b/c"):
        with pytest.raises(DataError, match="address"):
            download(url, tmp_path / "file")


@pytest.mark.parametrize("behaviour", ["silent", "stuck"])
def test_hanging_server_times_out(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str
) -> None:
    monkeypatch.setattr(download_module, "_TIMEOUT", 0.3)
    site.behaviours = [behaviour, "whole"]
    assert fetch(site, tmp_path) == CONTENT
    assert len(site.requests) == 2
    site.behaviours = ["silent"]
    with pytest.raises(DataError, match=r"timed out.* in the last of 2 attempts"):
        download(site.url, tmp_path / "other", attempts=2, pause=0)


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("file://{secret}", "not HTTP"),
        ("ftp://127.0.0.1/a.zip", "not HTTP"),
        ("data:,secret", "not HTTP"),
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


def test_web_page_is_refused(site: Site, tmp_path: Path) -> None:
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
