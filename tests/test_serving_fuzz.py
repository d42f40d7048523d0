"""Random requests to every route: no 500, and every response as the OpenAPI document says.

They go to the application in this process, without HTTP, so that any bytes can be in any place.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote, urlencode

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from properties import examples
from serving import Answer, both_directions

from seq2seq.analysis import Method
from seq2seq.inference.translator import Translator
from seq2seq.serving import Limits
from seq2seq.serving.batching import Batcher
from seq2seq.serving.server import create_app
from seq2seq.serving.service import Service

LIMITS = Limits(characters=300, texts=10, alternatives=3, read_seconds=0.05)
FORM = "application/x-www-form-urlencoded"
GONE = 499  # of the access log; nobody receives it
STATUSES = (200, 400, 403, 408, 413, 429, 504)  # of known paths and methods, with PyTorch


class App:
    """The application, and what its OpenAPI document says of it."""

    def __init__(self, models: Any) -> None:
        self.app = create_app(Service(Batcher(models, LIMITS)))
        self.loop = asyncio.new_event_loop()
        self.lifespan = self.app.router.lifespan_context(self.app)
        self.loop.run_until_complete(self.lifespan.__aenter__())
        self.spec = json.loads(self.send("GET", "/spec").body)
        self._validators: dict[str, Draft202012Validator] = {}

    def close(self) -> None:
        self.loop.run_until_complete(self.lifespan.__aexit__(None, None, None))
        self.loop.close()

    def send(
        self,
        method: str,
        path: str,
        query: bytes = b"",
        headers: Sequence[tuple[bytes, bytes]] = (),
        chunks: Sequence[bytes] = (),
        end: str = "complete",
    ) -> Answer:
        """Return the response to a request; its body may also `stall`, or the client be `gone`."""
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": path, "raw_path": path.encode(), "root_path": "",
            "query_string": query, "headers": list(headers), "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 5000),
        }  # fmt: skip
        messages = [{"type": "http.request", "body": each, "more_body": True} for each in chunks]
        if end == "complete":
            messages.append({"type": "http.request", "body": b"", "more_body": False})
        elif end == "gone":
            messages.append({"type": "http.disconnect"})
        received = iter(messages)
        sent: list[Any] = []

        async def receive() -> Any:
            return next(received, None) or await asyncio.Event().wait()

        async def keep(message: Any) -> None:
            sent.append(message)

        # What raises is a 500.
        self.loop.run_until_complete(self.app(scope, receive, keep))  # type: ignore[arg-type]
        start, *parts = sent
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], found, b"".join(part["body"] for part in parts))

    def check(self, method: str, path: str, answer: Answer) -> None:
        """Check that the document has such a response of the route."""
        event(f"{path} {answer.status}")
        operation = self.spec["paths"][path][method.lower()]
        assert answer.status in STATUSES, (answer.status, answer.body)
        responses = operation["responses"]
        response = responses.get(str(answer.status)) or responses["default"]
        [(kind, described)] = response["content"].items()
        assert answer.headers["content-type"].partition(";")[0] == kind
        if kind == "application/json":
            self._validate(described["schema"], answer.json)
        elif kind == "text/event-stream":
            *blocks, last = answer.body.decode().split("\n\n")
            assert last == ""
            for block in blocks:
                name, data = re.fullmatch(r"event: (\w+)\ndata: (.*)", block).groups()  # type: ignore[union-attr]
                kind = {"translation": "LineResponse", "error": "Error"}.get(name)
                schema = {"$ref": f"#/components/schemas/{kind}"} if kind else {"type": "object"}
                self._validate(schema, json.loads(data))
            assert name in ("translation", "error")

    def _validate(self, schema: Any, value: Any) -> None:
        key = json.dumps(schema)
        if key not in self._validators:
            full = {**schema, "components": self.spec["components"]}
            self._validators[key] = Draft202012Validator(full)
        self._validators[key].validate(value)


@pytest.fixture(scope="module")
def app(exported: Path, trained: Path) -> Iterator[App]:
    app = App(both_directions(Translator.load(exported), str(trained)))
    yield app
    app.close()


# --- What clients may send

WORDS = st.lists(
    st.sampled_from(["gato", "perro rojo", "niño", "dog", "{a}", "\n", "<b>", "</b>", "<p>"])
)
TEXTS = WORDS.map(" ".join) | st.text(max_size=40)
SUBTITLES = st.lists(
    st.sampled_from(["1\n", "0:1 --> 0:2\n", "- ", "gato", "\n", "<i>", "</i>", "&lt;", "{\\an8}"])
).map("".join)
LONG = st.integers(1, 400).map(lambda size: "el gato come 😀 " * (size // 15) + "ñ" * (size % 15))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)  # fmt: skip
NUMBERS = st.integers(-1, 25) | st.integers() | st.sampled_from(["3", "1.5", "x", "9" * 5000, 2.0])
# What each parameter may be, and usually is.
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "q": TEXTS | LONG | st.lists(TEXTS, max_size=12),
    "source": st.sampled_from(["es", "en", "auto", "fr", ""]),
    "target": st.sampled_from(["en", "es", "auto"]) | TEXTS,
    "format": st.sampled_from(["text", "html", "html", "pdf"]),
    "alternatives": NUMBERS,
    "glossary": st.dictionaries(
        st.sampled_from(["gato", "rojo", "x"]) | st.text(max_size=3), TEXTS
    ),
    "api_key": TEXTS,
    "file": TEXTS | SUBTITLES,
    "model": st.sampled_from(["there", "there", "none"]),  # prefixes need pieces of the model's own
    "prefix": TEXTS,
    "beam": NUMBERS,
    "nbest": NUMBERS,
    "number": NUMBERS,
    "tree": st.booleans(),
    "step": NUMBERS,
    "position": NUMBERS,
    "attribution": st.sampled_from([*get_args(Method), "lime"]),
}
REQUESTS = {
    "/translate": "TranslateRequest", "/detect": "DetectRequest",
    "/translate_file": "FileRequest", "/api/translate": "LineRequest",
    "/api/stream": "LineRequest", "/api/alternatives": "WordsRequest",
    "/api/explain": "ExplainRequest",
}  # fmt: skip
USUAL = {"q": "gato", "source": "es", "target": "en", "model": "there", "file": "gato"}
NAMES = st.sampled_from(["a.txt", "a.html", "a.srt", "a.SRT", "a", "../ñ.srt", "\\ud800.txt"])


@st.composite
def parameters(draw: st.DrawFn, path: str, spec: Any) -> dict[str, Any]:
    """Return parameters of a route: most of them as they should be."""
    schema = spec["components"]["schemas"][REQUESTS[path]]
    own = list(schema["properties"])
    # `target` has two meanings: a language, or a translation.
    values = {name: USUAL[name] for name in schema.get("required", [])}
    for name in draw(st.lists(st.sampled_from(own), max_size=4, unique=True)):
        values[name] = draw(VALUES[name])
    if draw(st.integers(0, 4)) == 0:
        values[draw(st.sampled_from(own) | st.text(max_size=5))] = draw(JSON)
    if draw(st.integers(0, 9)) == 0:
        values.pop(draw(st.sampled_from(own)), None)
    return values


CODECS = st.sampled_from(["utf-8"] * 8 + ["utf-16", "utf-8-sig", "latin-1", "utf-7", "cp037"])


def multipart(values: Mapping[str, Any], extra: str, file: str) -> str:
    extras = {name: f'; filename="{file}"' if name == "file" else extra for name in values}
    parts = (
        f'--x\r\nContent-Disposition: form-data; name="{name}"{extras[name]}\r\n\r\n{value}\r\n'
        for name, value in values.items()
    )
    return f"{''.join(parts)}--x--\r\n"


@st.composite
def bodies(draw: st.DrawFn, values: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return a body with parameters in any encoding, and its type, which need not be right."""
    kinds = ["json", "form", *["multipart"] * (5 if "file" in values else 1)]
    kind = draw(st.sampled_from(kinds))
    if kind == "json":
        text = json.dumps(values, ensure_ascii=draw(st.booleans()))
        types = ["application/json", "application/json; charset=utf-16", FORM, "text/plain", ""]
    elif kind == "form":
        pairs = [(n, v if isinstance(v, list) else [v]) for n, v in values.items()]
        text = urlencode({n: [str(each) for each in v] for n, v in pairs}, True, errors="replace")
        types = [FORM, f"{FORM}; charset=utf-16", "", "application/json"]
    else:
        extras = st.sampled_from(["", "", '; filename="a"', "; filename*=x''y"])
        text = multipart(values, draw(extras), draw(NAMES))
        types = [f"multipart/form-data; boundary=x{rest}" for rest in (
            "", "", "; charset=hex", "; charset=undefined", "; charset=unicode_escape", "y"
        )] + ["multipart/form-data"]  # fmt: skip
    body = text.encode(draw(CODECS), errors="replace")
    return body, draw(st.sampled_from([types[0], *types]))


@st.composite
def damaged(draw: st.DrawFn, body: bytes) -> bytes:
    """Return a body with something cut out, or put in."""
    start = draw(st.integers(0, len(body)))
    end = draw(st.integers(start, min(len(body), start + 8)))
    return body[:start] + draw(st.binary(max_size=4)) + body[end:]


# --- The tests: 340 requests, in fuzzing 30 times as many

PATHS = st.sampled_from([*REQUESTS])


@examples(220)
@given(data=st.data(), path=PATHS)
def test_any_parameters_get_a_documented_response(app: App, data: st.DataObject, path: str) -> None:
    values = data.draw(parameters(path, app.spec))
    body, kind = data.draw(bodies(values))
    if data.draw(st.integers(0, 4)) == 0:
        body = data.draw(damaged(body))
    headers = [(b"content-type", kind.encode())] if kind else []
    query = b""
    if data.draw(st.integers(0, 4)) == 0:
        query = urlencode(data.draw(parameters(path, app.spec)), errors="replace").encode()
    app.check("POST", path, app.send("POST", path, query, headers, [body]))


@examples(90)
@given(
    path=PATHS,
    chunks=st.lists(st.binary(max_size=100), max_size=3),
    query=st.binary(max_size=60),
    headers=st.lists(
        st.tuples(
            st.sampled_from([b"content-type", b"content-length", b"origin", b"transfer-encoding"]),
            st.binary(max_size=30)
            | st.sampled_from([b"application/json", FORM.encode(), b"9" * 5000, b"\xb2", b"-1"]),
        ),
        max_size=3,
    ),
    repeat=st.sampled_from([1, 1, 1, 1000]),
    end=st.sampled_from(["complete"] * 6 + ["gone", "stall"]),
)
def test_any_bytes_get_a_documented_response(
    app: App, path: str, chunks: list[bytes], query: bytes,
    headers: list[tuple[bytes, bytes]], repeat: int, end: str,
) -> None:  # fmt: skip
    answer = app.send("POST", path, query, headers, chunks * repeat, end)
    if end != "gone" or answer.status != GONE:
        app.check("POST", path, answer)


@examples(30)
@given(
    path=st.sampled_from(["/languages", "/frontend/settings", "/health", "/ready", "/metrics",
                          "/api/models", "/spec"]) | PATHS | st.text(max_size=20).map(quote),
    method=st.sampled_from(["GET", "GET", "POST", "PUT", "OPTIONS", "TRACE", "x"]),
    query=st.binary(max_size=30),
)  # fmt: skip
def test_any_method_and_path_get_a_response(app: App, path: str, method: str, query: bytes) -> None:
    path = f"/{path.lstrip('/')}"
    answer = app.send(method, path, query)
    if method.lower() in app.spec["paths"].get(path, {}):
        app.check(method, path, answer)
    elif (method, path) != ("GET", "/"):  # the page
        assert answer.status in (404, 405)
        assert set(answer.json) == {"error"}
