"""The HTTP application, and the process that serves it: a socket, signals, slow clients.

A request passes through `_Observed` (access log and metrics), CORS, a route, and the batcher. Every
error is `{"error": text}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import generate_latest
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from seq2seq.errors import UserError, WorkerError, one_line
from seq2seq.serving import api, libretranslate
from seq2seq.serving.batching import Metrics
from seq2seq.serving.service import Service, fault_message, make_router, service_of
from seq2seq.serving.static import PAGE, PAGE_FILES
from seq2seq.version import VERSION

log = logging.getLogger(__name__)
access_log = logging.getLogger("seq2seq.access")

_GRACE = 2  # seconds beyond the deadline that responses have when the server stops
_CLIENT_CLOSED = 499  # in the log and the metrics; nobody receives it
_NOT_HTTP = b'{"error":"not valid HTTP/1.1; send one Host header, and at most 64 KiB of headers"}'
_HINTS = {  # for the errors of Starlette
    "Not Found": "no such path; GET /spec describes all paths",
    "Method Not Allowed": "this path has no such method; the header Allow names those it has",
}
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
_BODIES = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
_PAGE = {  # it calls the routes below /api
    "/": PAGE / "index.html",
    **{f"/page/{path.name}": path for path in PAGE_FILES},
}
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

router = make_router()  # for the operator of the server


class StatusResponse(BaseModel):
    """The state of the server."""

    status: str


def create_app(service: Service) -> FastAPI:
    """Return the application. Its lifespan starts and stops the batcher."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.batcher.start()
        yield
        await service.batcher.stop()

    cors = Middleware(
        CORSMiddleware, allow_origins=["*"], allow_methods=["GET", "POST"], allow_headers=["*"]
    )
    app = FastAPI(
        title="seq2seq",
        version=VERSION,
        description="Machine translation with the interface of LibreTranslate. All parameters may "
        "be sent as JSON, as a form or as a query string.",
        # FastAPI's pages of documentation load scripts from another host.
        openapi_url=None,
        redirect_slashes=False,  # a redirect would go to any host that the client names
        servers=[{"url": "/"}],
        separate_input_output_schemas=False,
        # Traces would contain the query string, and with it texts and keys.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        lifespan=lifespan,
        middleware=[Middleware(_Observed, metrics=service.batcher.metrics), cors],
        exception_handlers={
            HTTPException: _refused,
            ClientDisconnect: _client_closed,
            WorkerError: _server_error,
            Exception: _server_error,
        },
    )
    app.state.service = service
    for each in (libretranslate.router, api.router, router):
        app.router.routes.extend(each.routes)  # include_router would match every request twice
    for path, source in _PAGE.items():
        kind = _TYPES[source.suffix]
        response = Response(source.read_bytes(), headers=_PAGE_HEADERS, media_type=kind)
        app.router.routes.append(Route(path, response, methods=["GET"]))
    # The page declares an empty icon; for every other path, browsers ask for this one.
    app.router.routes.append(Route("/favicon.ico", Response(status_code=204), methods=["GET"]))
    return app


def _complete(document: dict[str, Any], service: Service) -> None:
    """Add the types of bodies to FastAPI's document, and limits, languages and models."""
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        if body := operations.get("post", {}).get("requestBody"):
            kinds = _BODIES[-1:] if path == "/translate_file" else _BODIES
            body["content"] = dict.fromkeys(kinds, body["content"]["application/json"])
    limits, languages = service.limits, sorted(service.models.tokenizers)
    schemas["TranslateRequest"]["properties"]["alternatives"]["maximum"] = limits.alternatives
    for name in ("TranslateRequest", "DetectRequest"):
        text, several = schemas[name]["properties"]["q"]["anyOf"]
        text["maxLength"], several["maxItems"] = limits.characters, limits.texts
    for name in ("TranslateRequest", "FileRequest"):
        schemas[name]["properties"]["source"]["enum"] = [libretranslate.AUTO, *languages]
        schemas[name]["properties"]["target"]["enum"] = languages
    for name in ("LineRequest", "WordsRequest", "ExplainRequest"):
        schemas[name]["properties"]["model"]["enum"] = [*service.models.by_name]


# --- Routes for the operator of the server


@router.get("/health")
async def health() -> StatusResponse:
    """Ask whether the server runs."""
    return StatusResponse(status="ok")


@router.get(
    "/ready",
    responses={503: {"model": StatusResponse, "description": "it cannot translate any more"}},
)
async def ready(request: Request, response: Response) -> StatusResponse:
    """Ask whether the server can translate."""
    if failure := service_of(request).batcher.failure:
        response.status_code = 503
        return StatusResponse(status=str(failure))
    return StatusResponse(status="ready")


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Get counts in the format of Prometheus."""
    text = generate_latest(service_of(request).batcher.metrics.registry)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/docs", include_in_schema=False)  # where LibreTranslate has a page about it
@router.get("/spec")
async def spec(request: Request) -> dict[str, Any]:
    """Get this document."""
    app: FastAPI = request.app
    if app.openapi_schema is None:
        _complete(app.openapi(), service_of(request))
    return app.openapi()


# --- Errors


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = _HINTS.get(error.detail, error.detail)
    return JSONResponse({"error": detail}, error.status_code, error.headers)


async def _client_closed(_: Request, __: Exception) -> Response:
    return Response(status_code=_CLIENT_CLOSED)


async def _server_error(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": fault_message(error)}, 500)


class _Observed:
    """Write the access log and count responses; answer HEAD as GET, and `//path/` as `/path`.

    Log and metrics get neither the query string nor the body, which may hold texts and keys.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

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

        own = {**scope, "path": "/" + "/".join(filter(None, scope["path"].split("/")))}
        if scope["method"] == "HEAD":
            own["method"] = "GET"  # the server sends no body in response to HEAD
        self.metrics.in_progress.inc()
        try:
            await self.app(own, receive, observed)
        finally:
            self.metrics.in_progress.dec()
            seconds = time.monotonic() - started
            method = scope["method"] if scope["method"] in _METHODS else "other"
            path = own["route"].path if "route" in own else "other"
            self.metrics.requests.labels(method, path, str(status)).inc()
            self.metrics.seconds.observe(seconds)
            client = scope["client"][0] if scope.get("client") else "-"
            shown = one_line(scope["path"][:200])
            access_log.info('%s "%s %s" %d %.0f ms', client, method, shown, status, 1000 * seconds)


# --- The process


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises UserError if the address cannot be used."""
    try:
        [(family, _, _, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        # asyncio sets TCP_NODELAY only on sockets that name TCP as their protocol. Without it, the
        # body of a response waits up to 40 ms for the client to acknowledge its head.
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(1024)
    except (OSError, UnicodeError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{host}:{port}: cannot listen there ({reason}); choose another --host or --port"
        ) from None
    return found


def run(service: Service, listening: socket.socket) -> int:
    """Serve until SIGTERM or Ctrl-C; then answer the requests that were accepted, and return 0.

    Raises WorkerError if nothing can be translated any more.
    """
    server = make_server(service)
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn raises the signal again after it has stopped.
        signal.signal(number, server.handle_exit)
    server.run([listening])
    if service.batcher.failure:
        raise service.batcher.failure
    log.info("stopped")
    return 0


def make_server(service: Service) -> uvicorn.Server:
    """Return a server that runs the application."""
    seconds = service.limits.seconds + service.limits.read_seconds + _GRACE
    # At lower levels they log requests that are not HTTP or no form, and that the server starts.
    for name in ("uvicorn.error", "python_multipart"):
        logging.getLogger(name).setLevel(logging.ERROR)
    config = uvicorn.Config(
        create_app(service),
        http=partial(_Connection, service.limits.read_seconds),  # type: ignore[arg-type]
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(seconds) + 1,
    )
    return _Server(config, service)


class _Server(uvicorn.Server):
    """A server that stops when nothing can be translated any more."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or bool(self._service.batcher.failure)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if not self._service.batcher.failure:
            log.info("stopping: answering the requests that were accepted")
            # Read the connections that the system has accepted before closing the socket.
            await asyncio.sleep(0.1)
            # Worker processes share the socket, so closing it here would leave it open.
            for each in sockets or []:
                each.shutdown(socket.SHUT_RDWR)
        await super().shutdown(sockets)


class _Connection(H11Protocol):
    """uvicorn's connection, closed if the head of a request takes too long to arrive.

    Requests that are not HTTP get JSON.
    """

    def __init__(self, seconds: float, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._seconds = seconds

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle and not self.cycle.response_complete:
            self._due.cancel()
        elif self._due.cancelled():
            self._expect_head()

    def _expect_head(self) -> None:
        self._due = self.loop.call_later(self._seconds, self.transport.close)

    def send_400_response(self, msg: str) -> None:
        if repr(self.conn.our_state) in ("IDLE", "SEND_RESPONSE"):  # no response has begun
            head = f"HTTP/1.1 400 Bad Request\r\nContent-Length: {len(_NOT_HTTP)}\r\n"
            head += "Content-Type: application/json\r\nConnection: close\r\n\r\n"
            self.transport.write(head.encode() + _NOT_HTTP)
        self.transport.close()
