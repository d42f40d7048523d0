"""A server that speaks as much of the Hugging Face hub's protocol as the library needs."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_secret"
Files = dict[str, bytes]


@dataclass
class Repository:
    """Commits by their hash, and the hash that each branch names."""

    private: bool = False
    commits: dict[str, Files] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def commit(self, branch: str, files: Files) -> str:
        """Add a commit with exactly these files to a branch; return its hash."""
        sha = hashlib.sha1(repr((len(self.commits), sorted(files))).encode()).hexdigest()
        self.commits[sha] = files
        self.branches[branch] = sha
        return sha


@dataclass
class Hub:
    """Repositories by name, and what the server was asked."""

    url: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    sent: dict[str, bytes] = field(default_factory=dict)  # instead of files, by path
    sizes: dict[str, int] = field(default_factory=dict)  # listed instead of those of files


@contextmanager
def serve() -> Iterator[Hub]:
    """Run a hub on a free port of this machine."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        self._handle()

    do_GET = do_HEAD = do_POST

    def _handle(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.allowed = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        for pattern, action in _ROUTES.items():
            if match := re.fullmatch(pattern, f"{self.command} {path}"):
                return action(self, **match.groupdict())
        self._answer(404, {"error": "no such route"})

    def _answer(self, status: int, content: Any, **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        headers = {"Content-Length": str(len(data)), **headers}
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
            if int(headers["Content-Length"]) > len(data):
                self.close_connection = True

    def _find(self, repo: str, revision: str | None) -> tuple[str, Files] | None:
        """Return the hash and the files of a commit, or answer that there is none."""
        found = self.hub.repositories.get(repo)
        if found is None or (found.private and not self.allowed):
            self._answer(401, {"error": "no"}, X_Error_Code="RepoNotFound")
            return None
        sha = found.branches.get(revision or "main", revision or "")
        if sha not in found.commits:
            self._answer(404, {"error": "no"}, X_Error_Code="RevisionNotFound")
            return None
        return sha, found.commits[sha]

    def _create(self) -> None:
        if not self.allowed:
            return self._answer(401, {"error": "log in"})
        asked = json.loads(self.body)
        name = "/".join(filter(None, (asked.get("organization"), asked["name"])))
        if name in self.hub.repositories:
            return self._answer(409, {"url": f"{self.hub.url}/{name}"})
        made = self.hub.repositories[name] = Repository(asked.get("visibility") == "private")
        made.commit("main", {".gitattributes": b""})
        self._answer(200, {"url": f"{self.hub.url}/{name}", "name": name})

    def _branch(self, repo: str, revision: str) -> None:
        found = self.hub.repositories[repo]
        if revision in found.branches:
            return self._answer(409, {"error": "exists"})
        found.branches[revision] = found.branches["main"]
        self._answer(200, {})

    def _validate(self) -> None:
        text = json.loads(self.body)["content"]
        errors = [] if text.startswith("---\n") else [{"message": "no metadata"}]
        self._answer(400 if errors else 200, {"errors": errors, "warnings": []})

    def _preupload(self, repo: str, revision: str) -> None:
        files = json.loads(self.body)["files"]
        modes = [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files]
        self._answer(200, {"files": modes})

    def _commit(self, repo: str, revision: str) -> None:
        if not self.allowed:
            return self._answer(403, {"error": "no"})
        found = self.hub.repositories[repo]
        files = dict(found.commits[found.branches[revision]])
        for line in self.body.splitlines():
            part = json.loads(line)
            if part["key"] == "file":
                files[part["value"]["path"]] = base64.b64decode(part["value"]["content"])
            elif part["key"] == "deletedFile":
                del files[part["value"]["path"]]
        sha = found.commit(revision, files)
        url = f"{self.hub.url}/{repo}/commit/{sha}"
        self._answer(200, {"success": True, "commitOid": sha, "commitUrl": url})

    def _info(self, repo: str, revision: str | None = None) -> None:
        if found := self._find(repo, revision):
            sha, files = found
            siblings = [{"rfilename": f["path"], **f} for f in self._listed(files)]
            is_private = self.hub.repositories[repo].private
            about = {"id": repo, "sha": sha, "private": is_private, "siblings": siblings}
            self._answer(200, about)

    def _tree(self, repo: str, revision: str, folder: str = "") -> None:
        if found := self._find(repo, revision):
            self._answer(200, [{"type": "file", **f} for f in self._listed(found[1])])

    def _listed(self, files: Files) -> list[dict[str, Any]]:
        return [
            {
                "path": path,
                "size": self.hub.sizes.get(path, len(data)),
                "oid": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest(),
            }
            for path, data in files.items()
        ]

    def _resolve(self, repo: str, revision: str, path: str) -> None:
        if found := self._find(repo, revision):
            sha, files = found
            if path not in files:
                return self._answer(404, {"error": "no"}, X_Error_Code="EntryNotFound")
            data = files[path]
            self._answer(
                200,
                self.hub.sent.get(path, data),
                Content_Length=str(len(data)),
                ETag=f'"{hashlib.sha1(data).hexdigest()}"',
                X_Repo_Commit=sha,
            )


_REPO = r"(?P<repo>[\w.-]+/[\w.-]+)"
_ROUTES = {
    "POST /api/repos/create": _Handler._create,
    "POST /api/validate-yaml": _Handler._validate,
    rf"POST /api/models/{_REPO}/branch/(?P<revision>.+)": _Handler._branch,
    rf"POST /api/models/{_REPO}/preupload/(?P<revision>.+)": _Handler._preupload,
    rf"POST /api/models/{_REPO}/commit/(?P<revision>.+)": _Handler._commit,
    rf"GET /api/models/{_REPO}": _Handler._info,
    rf"GET /api/models/{_REPO}/revision/(?P<revision>.+)": _Handler._info,
    rf"GET /api/models/{_REPO}/tree/(?P<revision>[^/]+)/?(?P<folder>.*)": _Handler._tree,
    rf"(GET|HEAD) /{_REPO}/resolve/(?P<revision>[^/]+)/(?P<path>.+)": _Handler._resolve,
}
