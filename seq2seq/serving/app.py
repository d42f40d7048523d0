"""The HTTP application.

A request passes through `_Observed` (access log and metrics), CORS, a route, and the batcher. Every
error is `{"error": text}`.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seq2seq.errors import WorkerError, one_line, verdict
from seq2seq.serving.api import Api
from seq2seq.serving.batching import TOO_LATE, DeadlineError, QueueFullError
from seq2seq.serving.libretranslate import LibreTranslate
from seq2seq.serving.metrics import Metrics
from seq2seq.serving.page import page_routes
from seq2seq.serving.schemas import RequestError
from seq2seq.serving.service import Service

access_log = logging.getLogger("seq2seq.access")

INTERNAL = "internal error; the server's log has the details"
_CLIENT_GONE = 499  # in the log and the metrics; nobody receives it
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})


def create_app(service: Service) -> Starlette:
    """Return the application. Its lifespan starts and stops the batcher."""
    routes = [*LibreTranslate(service).routes(), *Api(service).routes(), *page_routes()]
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
            WorkerError: _worker_lost,
            Exception: _server_error,
        },
    )


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


async def _worker_lost(_: Request, __: Exception) -> Response:
    return _error(INTERNAL, 500)  # the server is about to stop and says why


async def _server_error(_: Request, error: Exception) -> Response:
    found = verdict(error)
    return _error(found[1] if found else INTERNAL, 500)


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
