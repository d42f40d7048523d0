"""Run the application: a socket, signals, slow clients."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from seq2seq.errors import UserError, WorkerError
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

    Raises WorkerError if a worker process was killed.
    """
    server = make_server(service)
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn raises the signal again after it has stopped.
        signal.signal(number, server.handle_exit)
    server.run([listening])
    if service.batcher.failed.is_set():
        raise WorkerError(
            "a worker process was killed, perhaps for lack of memory; lower --workers"
        )
    log.info("stopped")
    return 0


def make_server(service: Service) -> uvicorn.Server:
    """Return a server that runs the application."""
    seconds = service.limits.seconds + service.limits.read_seconds + _GRACE
    # It logs what is not HTTP, at a lower level; starting and stopping is logged here.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        create_app(service),
        http=_patient(service.limits.read_seconds),
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
    """A server that stops when a worker process was killed."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._service.batcher.failed.is_set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if not self._service.batcher.failed.is_set():
            log.info("stopping: answering the requests that were accepted")
            # Connections that the system has accepted are read before the socket is closed.
            await asyncio.sleep(0.1)
            # Worker processes have the socket too, so closing it here would not end it.
            for each in sockets or []:
                each.shutdown(socket.SHUT_RDWR)
        await super().shutdown(sockets)


def _patient(seconds: float) -> type[H11Protocol]:
    """Return a protocol that closes a connection whose request head takes longer than this."""

    class Protocol(H11Protocol):
        _head_due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._unwatch()
            super().connection_lost(exc)

        def _watch(self) -> None:
            cycle: Any = self.cycle
            if cycle is not None and not cycle.response_complete:
                self._unwatch()
            elif self._head_due is None:
                self._head_due = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

        def _unwatch(self) -> None:
            if self._head_due is not None:
                self._head_due.cancel()
                self._head_due = None

    return Protocol
