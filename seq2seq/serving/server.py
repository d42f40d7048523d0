"""Run the application: a socket, signals, slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.types import Receive, Scope, Send

from seq2seq.errors import UserError
from seq2seq.serving.app import create_app
from seq2seq.serving.service import Service

log = logging.getLogger(__name__)

_GRACE = 2  # seconds beyond the deadline that responses have when the server stops


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises UserError if the address cannot be used."""
    try:
        [(family, _, _, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        # Only of sockets that name TCP does asyncio set TCP_NODELAY, without which the body of a
        # response waits up to 40 ms for the client to acknowledge its head.
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
    # It logs what is not HTTP, at a lower level; starting and stopping is logged here.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        create_app(service),
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(seconds) + 1,
    )
    _close_late_heads(config, service.limits.read_seconds)
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
            # Connections that the system has accepted are read before the socket is closed.
            await asyncio.sleep(0.1)
            # Worker processes have the socket too, so closing it here would not end it.
            for each in sockets or []:
                each.shutdown(socket.SHUT_RDWR)
        await super().shutdown(sockets)


class _Connection:
    """A protocol around that of uvicorn. It closes a connection on which a request head is late.

    All that it does not define is that protocol's.
    """

    def __init__(self, inner: asyncio.Protocol, seconds: float, found: _Connections) -> None:
        self._inner, self._seconds, self._found = inner, seconds, found
        self._address: Any = None
        self._due: asyncio.TimerHandle | None = None
        self._requests = 0  # whose head has arrived, and which have no response yet

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._address = (transport.get_extra_info("peername") or ())[:2]
        self._found[self._address] = self
        self._inner.connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)
        self._expect_head()

    def connection_lost(self, error: Exception | None) -> None:
        self._forget_head()
        if self._found.get(self._address) is self:
            del self._found[self._address]
        self._inner.connection_lost(error)

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Wait for no head while the application answers a request."""
        self._forget_head()
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    def _expect_head(self) -> None:
        if not self._requests and self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_later(self._seconds, self._transport.close)

    def _forget_head(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None


_Connections = dict[Any, _Connection]  # by the address of the client


def _close_late_heads(config: uvicorn.Config, seconds: float) -> None:
    """Close connections on which the head of a request takes longer than this."""
    connections: _Connections = {}
    config.load()
    protocol, app = config.http_protocol_class, config.loaded_app

    async def observed(scope: Scope, receive: Receive, send: Send) -> None:
        connection = connections.get(scope.get("client"))
        with connection.request() if connection else contextlib.nullcontext():
            await app(scope, receive, send)

    def wrapped(**arguments: Any) -> _Connection:
        return _Connection(protocol(**arguments), seconds, connections)

    config.loaded_app, config.http_protocol_class = observed, wrapped  # type: ignore[assignment]
