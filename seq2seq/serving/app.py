"""The HTTP application: LibreTranslate's interface.

A request passes through `_Observed` (access log and metrics), CORS, a route, and the batcher. Every
error is `{"error": text}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seq2seq.errors import one_line, verdict
from seq2seq.inference.text import Translation
from seq2seq.serving.batching import Batcher, DeadlineError, QueueFullError
from seq2seq.serving.markup import Block, Token, read_html, write_html
from seq2seq.serving.metrics import Metrics
from seq2seq.serving.models import Detected, Model, Models
from seq2seq.serving.schemas import (
    DetectRequest,
    Keyed,
    RequestError,
    TranslateRequest,
    openapi,
    parse_request,
)

log = logging.getLogger(__name__)
access_log = logging.getLogger("seq2seq.access")

AUTO = "auto"
TOO_LATE = "the translation took too long; send less text at once"
_CLIENT_GONE = 499  # in the log and the metrics; nobody receives it
_MULTIPART = "multipart/form-data"
_BYTES_PER_CHARACTER = 12  # as %-escapes of four bytes, or as two \uXXXX
_OTHER_BYTES = 65536  # of a body, for everything but the texts
_MOST_FIELDS = 100  # of a form, beside the texts

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """What a server accepts."""

    characters: int = 5000  # of all texts of a request
    texts: int = 100  # of a request
    alternatives: int = 10
    queue: int = 256  # requests that wait
    seconds: float = 30.0  # from a request to its response
    read_seconds: float = 10.0  # for the head of a request, and for its body

    @property
    def body_bytes(self) -> int:
        """The largest body."""
        return self.characters * _BYTES_PER_CHARACTER + _OTHER_BYTES


@dataclass(frozen=True)
class Service:
    """What the routes use."""

    models: Models
    batcher: Batcher
    metrics: Metrics
    limits: Limits = field(default_factory=Limits)
    search: Mapping[str, Any] = field(default_factory=dict)  # for Translator.options
    keys: Sequence[str] = ()  # none: no key is needed

    def check_key(self, request: Keyed) -> None:
        """Raise RequestError if the server has keys and the request has none of them."""
        given = (request.api_key or "").encode()
        if self.keys and not any(hmac.compare_digest(given, key.encode()) for key in self.keys):
            raise RequestError("api_key: missing or wrong; ask the owner of this server", 403)

    def model(self, source: str, target: str) -> Model | None:
        """Return the model for a pair of languages; None if there is nothing to translate.

        Raises RequestError for a language or a pair that no model has.
        """
        known = sorted(self.models.tokenizers)
        for name, code in (("source", source), ("target", target)):
            if code not in known:
                raise RequestError(
                    f"{name}: unknown language '{one_line(code[:40])}'; use one of "
                    f"{', '.join(known)}"
                )
        if source == target:
            return None
        found = self.models.of(source, target)
        if found is None:
            targets = ", ".join(self.models.targets(source)) or "nothing"
            raise RequestError(
                f"target: no model translates {source} into {target}; {source} can be translated "
                f"into {targets}"
            )
        return found


@dataclass
class _Item:
    """A text of a request: what to translate of it, and what its translation is made of."""

    model: Model | None  # none: it is in the target language already
    detected: Detected | None
    parts: Sequence[str | Token | Block]  # lines, or the parts of a document

    @property
    def lines(self) -> list[str]:
        """The lines to translate."""
        if self.model is None:
            return []
        lines = [part.text if isinstance(part, Block) else part for part in self.parts]
        return [line for line in lines if isinstance(line, str) and line.strip()]

    def texts(self, found: Sequence[Sequence[Translation]], most: int) -> list[str]:
        """Return the translations, best first, at most this many, each a different text."""
        ranks = max(map(len, found), default=1)
        chosen = ([of[min(rank, len(of) - 1)] for of in found] for rank in range(ranks))
        return list(dict.fromkeys(map(self._text, chosen)))[:most]

    def _text(self, translations: Sequence[Translation]) -> str:
        documents = [part for part in self.parts if not isinstance(part, str)]
        if documents:
            return write_html(documents, translations)
        remaining = iter(translations)
        lines = [part for part in self.parts if isinstance(part, str)]
        if self.model is None:
            return "\n".join(lines)
        return "\n".join(next(remaining).text if line.strip() else "" for line in lines)


def create_app(service: Service, others: Sequence[Route] = ()) -> Starlette:
    """Return the application with other routes. Its lifespan starts and stops the batcher."""
    routes = [*_LibreTranslate(service).routes(), *others]
    service.metrics.queue_length = lambda: service.batcher.queue_length

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.batcher.start()
        yield
        await service.batcher.stop()

    cors = Middleware(
        CORSMiddleware, allow_origins=["*"], allow_methods=["GET", "POST"], allow_headers=["*"]
    )
    paths = frozenset(route.path for route in routes)
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(_Observed, metrics=service.metrics, paths=paths), cors],
        exception_handlers={
            RequestError: _request_error,
            HTTPException: _http_error,
            ClientDisconnect: _client_gone,
            QueueFullError: _queue_full,
            DeadlineError: _too_late,
            Exception: _server_error,
        },
    )


class _LibreTranslate:
    """The routes of LibreTranslate's interface, and those for whoever operates the server."""

    def __init__(self, service: Service) -> None:
        self.service = service
        limits = service.limits
        self._spec = openapi(
            limits={
                "characters": limits.characters,
                "texts": limits.texts,
                "alternatives": limits.alternatives,
            }
        )

    def routes(self) -> list[Route]:
        """Return all of them."""
        return [
            Route("/translate", self.translate, methods=["POST"]),
            Route("/detect", self.detect, methods=["POST"]),
            Route("/languages", self.languages),
            Route("/frontend/settings", self.settings),
            Route("/spec", self.spec),
            Route("/health", self.health),
            Route("/ready", self.ready),
            Route("/metrics", self.metrics),
        ]

    async def translate(self, request: Request) -> Response:
        wanted = parse_request(await self._parameters(request), TranslateRequest)
        self.service.check_key(wanted)
        texts = [wanted.q] if isinstance(wanted.q, str) else wanted.q
        self._check_size(texts, wanted.alternatives)
        items = [self._item(text, wanted) for text in texts]
        found = await unless_gone(request, self._translations(items, wanted))
        self.service.metrics.characters += sum(map(len, texts))
        every = [
            item.texts(of, wanted.alternatives + 1) for item, of in zip(items, found, strict=True)
        ]
        answer: dict[str, list[Any]] = {"translatedText": [each[0] for each in every]}
        if wanted.alternatives:
            answer["alternatives"] = [each[1:] for each in every]
        if wanted.source == AUTO:
            answer["detectedLanguage"] = [asdict(item.detected) for item in items if item.detected]
        if isinstance(wanted.q, str):
            return JSONResponse({name: value for name, [value] in answer.items()})
        return JSONResponse(answer)

    def _check_size(self, texts: Sequence[str], alternatives: int) -> None:
        limits = self.service.limits
        characters = sum(map(len, texts))
        if characters > limits.characters:
            raise RequestError(
                f"q: {characters} characters; send at most {limits.characters} at once"
            )
        if len(texts) > limits.texts:
            raise RequestError(f"q: {len(texts)} texts; send at most {limits.texts} at once")
        if alternatives > limits.alternatives:
            raise RequestError(
                f"alternatives: {alternatives}; ask for at most {limits.alternatives}"
            )

    def _item(self, text: str, wanted: TranslateRequest) -> _Item:
        models, source, detected = self.service.models, wanted.source, None
        if source == AUTO:
            self.service.model(wanted.target, wanted.target)  # is it a language?
            able = {code for code in models.tokenizers if models.of(code, wanted.target)}
            detected = models.detect(text, able | {wanted.target})[0]
            if not detected.confidence:  # no letters, or none that a model knows: keep the text
                detected = Detected(wanted.target, 0.0)
            source = detected.language
        model = self.service.model(source, wanted.target)
        if wanted.format == "html":
            parts: Sequence[str | Token | Block] = (
                read_html(text) if model else [Token("other", text)]
            )
            return _Item(model, detected, parts or [""])
        return _Item(model, detected, text.split("\n"))

    async def _translations(
        self, items: Sequence[_Item], wanted: TranslateRequest
    ) -> list[list[list[Translation]]]:
        """Return for each item the translations of its lines."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.service.limits.seconds
        found: list[list[list[Translation]]] = [[] for _ in items]
        by_model: dict[str, list[int]] = {}
        for number, item in enumerate(items):
            if item.model:
                by_model.setdefault(item.model.name, []).append(number)
        for name, numbers in by_model.items():  # only `auto` makes more than one
            options = self.service.models.by_name[name].translator.options(
                **self.service.search,
                nbest=wanted.alternatives + 1,
                keep_weights=wanted.format == "html",
            )
            lines = [line for number in numbers for line in items[number].lines]
            translated = iter(
                await self.service.batcher.translate(
                    name, lines, options, seconds=end - loop.time()
                )
            )
            for number in numbers:
                found[number] = [next(translated) for _ in items[number].lines]
        return found

    async def detect(self, request: Request) -> Response:
        wanted = parse_request(await self._parameters(request), DetectRequest)
        self.service.check_key(wanted)
        self._check_size([wanted.q], 0)
        return JSONResponse([asdict(each) for each in self.service.models.detect(wanted.q)])

    async def languages(self, _: Request) -> Response:
        return JSONResponse([asdict(each) for each in self.service.models.languages])

    async def settings(self, _: Request) -> Response:
        names = {each.code: each.name for each in self.service.models.languages}
        first = next(iter(self.service.models.by_name.values()))
        return JSONResponse(
            {
                "apiKeys": bool(self.service.keys),
                "keyRequired": bool(self.service.keys),
                "charLimit": self.service.limits.characters,
                "frontendTimeout": 500,
                "language": {
                    side: {"code": code, "name": names[code]}
                    for side, code in (("source", first.source), ("target", first.target))
                },
                "suggestions": False,
                "filesTranslation": False,
                "supportedFilesFormat": [],
            }
        )

    async def spec(self, _: Request) -> Response:
        return JSONResponse(self._spec)

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(self, _: Request) -> Response:
        if self.service.batcher.failed.is_set():
            return JSONResponse({"status": "a worker process was killed"}, 503)
        return JSONResponse({"status": "ready"})

    async def metrics(self, _: Request) -> Response:
        return PlainTextResponse(
            self.service.metrics.text(), media_type="text/plain; version=0.0.4"
        )

    async def _parameters(self, request: Request) -> dict[str, Any]:
        """Return the parameters of the query string and of the body, which come first."""
        limits = self.service.limits
        body = await read_body(request, limits.body_bytes, limits.read_seconds)
        found: dict[str, Any] = _fields(request.query_params.multi_items())
        if not body.strip():
            return found
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        # Some clients leave out the type of JSON, or send that of a form.
        if kind == _MULTIPART or ("json" not in kind and not body.lstrip().startswith(b"{")):
            form = _replayed(request, body, is_multipart=kind == _MULTIPART)
            fields = limits.texts + _MOST_FIELDS
            try:
                read = await form.form(
                    max_files=0, max_fields=fields, max_part_size=limits.body_bytes
                )
            except (LookupError, ValueError):
                raise RequestError("the form cannot be read; encode it as its type says") from None
            return found | _fields(read.multi_items())
        try:
            values = from_json(body, allow_inf_nan=False)
        except ValueError as error:
            raise RequestError(f"invalid JSON: {one_line(str(error))}") from None
        if not isinstance(values, dict):
            raise RequestError("invalid JSON: expected an object")
        return found | values


def _fields(items: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a form or a query; one that is repeated becomes a list."""
    found: dict[str, list[Any]] = {}
    for name, value in items:
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """Return the body of a request; raise RequestError if it is too large or too slow."""

    async def read() -> bytes:
        found = bytearray()
        async for chunk in request.stream():
            found += chunk
            if len(found) > most:
                raise too_large
        return bytes(found)

    too_large = RequestError(f"the body has more than {most} bytes; send less at once", 413)
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > most:
        raise too_large
    try:
        return await asyncio.wait_for(read(), seconds)
    except asyncio.TimeoutError:
        raise RequestError(f"the body did not arrive within {seconds:g} seconds", 408) from None


def _replayed(request: Request, body: bytes, *, is_multipart: bool) -> Request:
    """Return the request of a form with a body that was read already."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = list(request.scope["headers"])
    if not is_multipart:
        headers = [each for each in headers if each[0] != b"content-type"]
        headers.append((b"content-type", b"application/x-www-form-urlencoded"))
    return Request({**request.scope, "headers": headers}, receive)


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of some work; cancel it and raise ClientDisconnect if the client goes."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, gone):
            task.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


# --- Errors


def _error(message: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, status, headers)


async def _request_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    # What is left of such a request is not read.
    close = {"Connection": "close"} if error.status in (408, 413) else None
    return _error(str(error), error.status, close)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.detail, error.status_code, error.headers)


async def _client_gone(_: Request, __: Exception) -> Response:
    return Response(status_code=_CLIENT_GONE)


async def _queue_full(_: Request, __: Exception) -> Response:
    return _error("too many requests are waiting; try again later", 429, {"Retry-After": "1"})


async def _too_late(_: Request, __: Exception) -> Response:
    return _error(TOO_LATE, 504)


async def _server_error(_: Request, error: Exception) -> Response:
    found = verdict(error)
    return _error(found[1] if found else "internal error; the server's log has the details", 500)


class _Observed:
    """Write the access log and count responses.

    Neither gets the query string or the body, which may hold texts and keys.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, paths: frozenset[str]) -> None:
        self.app, self.metrics, self.paths = app, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.monotonic(), 500

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self.metrics.in_progress += 1
        try:
            await self.app(scope, receive, observed)
        finally:
            self.metrics.in_progress -= 1
            seconds = time.monotonic() - started
            method = scope["method"] if scope["method"] in _METHODS else "other"
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.count_request(method, path, status, seconds)
            client = scope["client"][0] if scope.get("client") else "-"
            shown = one_line(scope["path"][:200])
            access_log.info('%s "%s %s" %d %.0f ms', client, method, shown, status, 1000 * seconds)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
