"""The project's own routes, which show more of a model than LibreTranslate's interface.

They name a model instead of a pair of languages, so that two of one pair can be compared.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from seq2seq.errors import UserError, missing_package, one_line
from seq2seq.inference.protocol import SearchOptions
from seq2seq.serving import interactive
from seq2seq.serving.batching import TOO_LATE, DeadlineError
from seq2seq.serving.models import Model
from seq2seq.serving.schemas import (
    ExplainRequest,
    LineRequest,
    ModelResponse,
    RequestError,
    SentenceRequest,
    WordsRequest,
    parse_request,
)
from seq2seq.serving.service import Service, read_parameters, unless_gone

T = TypeVar("T")
Sentence = TypeVar("Sentence", bound=SentenceRequest)


class Api:
    """The routes below /api."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def routes(self) -> list[Route]:
        """Return all of them."""
        return [
            Route("/api/models", self.models),
            Route("/api/translate", self.translate, methods=["POST"]),
            Route("/api/stream", self.stream, methods=["POST"]),
            Route("/api/alternatives", self.alternatives, methods=["POST"]),
            Route("/api/explain", self.explain, methods=["POST"]),
        ]

    async def models(self, _: Request) -> Response:
        """List the models with their languages, decoder style, score function and beam."""
        names = {each.code: each.name for each in self.service.models.languages}
        found = [
            ModelResponse(
                name=model.name,
                source=model.source,
                target=model.target,
                source_name=names[model.source],
                target_name=names[model.target],
                style=model.translator.config.model.style,
                score=model.translator.config.model.attention.score,
                beam=self._options(model).beam_size,
            )
            for model in self.service.models.by_name.values()
        ]
        return JSONResponse([each.model_dump() for each in found])

    async def translate(self, request: Request) -> Response:
        """Return `{"translations": [...]}`, best first, as `translate --format jsonl --attention`.

        The options are those of the command; a smaller beam is raised to `nbest`.
        """
        wanted, model = await self._read(request, LineRequest)
        gone = threading.Event()
        try:
            return await self._answer(request, self._translation(wanted, model, gone))
        finally:
            gone.set()

    async def stream(self, request: Request) -> Response:
        """Send server-sent events: `partial` for each step, then `translation` or `error`."""
        wanted, model = await self._read(request, LineRequest)
        loop, events = asyncio.get_running_loop(), asyncio.Queue[str | None]()
        gone = threading.Event()

        def show(text: str) -> None:
            loop.call_soon_threadsafe(events.put_nowait, text)

        translate = self._translation(wanted, model, gone, show)
        work = asyncio.ensure_future(self._call(lambda: _json(translate())))
        work.add_done_callback(lambda _: events.put_nowait(None))

        def stop() -> None:
            gone.set()
            work.cancel()

        async def send(text: str | None) -> AsyncIterator[str]:
            try:
                while text is not None:
                    yield _event("partial", _json({"text": text}))
                    # asyncio warns of several writes to a connection that the loop has not yet
                    # noticed to be closed.
                    await asyncio.sleep(0)
                    text = await events.get()
                try:
                    yield _event("translation", await work)
                except (RequestError, DeadlineError) as error:
                    yield _event("error", _json({"error": str(error) or TOO_LATE}))
            finally:
                stop()

        try:
            # What fails before the first step has a status of its own.
            first = await unless_gone(request, events.get())
            if first is None:
                work.result()
        except BaseException:
            stop()
            raise
        return StreamingResponse(
            send(first), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    async def alternatives(self, request: Request) -> Response:
        """Return the likeliest next words after a prefix."""
        wanted, model = await self._read(request, WordsRequest)
        work = partial(
            interactive.alternatives_json, model.translator, wanted.q, wanted.prefix,
            wanted.number, self._options(model),
        )  # fmt: skip
        return await self._answer(request, work)

    async def explain(self, request: Request) -> Response:
        """Return what `seq2seq explain --json` prints, but for large matrices only the shape."""
        wanted, model = await self._read(request, ExplainRequest)
        work = partial(
            interactive.explain, model, wanted.q, beam=self._options(model).beam_size,
            target=wanted.target, look={wanted.step: wanted.position} if wanted.step else {},
        )  # fmt: skip
        return await self._answer(request, work)

    def _translation(
        self,
        wanted: LineRequest,
        model: Model,
        gone: threading.Event,
        show: Callable[[str], None] | None = None,
    ) -> Callable[[], dict[str, Any]]:
        """Return the work for a line, which ends at the next step when its client has gone."""

        def watch(text: str) -> None:
            if gone.is_set():
                raise _GoneError
            if show:
                show(text)

        beam = {"beam_size": wanted.beam} if wanted.beam else {}
        options = self._options(
            model, **beam, nbest=wanted.nbest, keep_weights=True, keep_tree=wanted.tree
        )
        search = partial(
            interactive.translate, model.translator, wanted.q, options,
            prefix=wanted.prefix, show=watch,
        )  # fmt: skip
        return lambda: interactive.translations_json(search(), tree=wanted.tree)

    def _options(self, model: Model, **changes: Any) -> SearchOptions:
        return model.translator.options(**{**self.service.search, **changes})

    async def _read(self, request: Request, kind: type[Sentence]) -> tuple[Sentence, Model]:
        """Return a request and its model. Raises RequestError if it cannot be used."""
        service = self.service
        wanted = parse_request(await read_parameters(request, service.limits), kind)
        service.check_key(request, wanted)
        service.check_size([wanted.q])
        for name in ("prefix", "target"):
            size, most = len(getattr(wanted, name, None) or ""), service.limits.characters
            if size > most:
                raise RequestError(f"{name}: {size} characters; send at most {most}")
        models = service.models.by_name
        if wanted.model not in models:
            name = one_line(wanted.model[:40])
            raise RequestError(f"model: there is no '{name}'; use one of {', '.join(models)}")
        return wanted, models[wanted.model]

    async def _answer(self, request: Request, work: Callable[[], Any]) -> Response:
        """Return what some work finds as JSON, which is written where the work is done."""
        text = await unless_gone(request, self._call(lambda: _json(work())))
        return Response(text, media_type="application/json")

    async def _call(self, work: Callable[[], T]) -> T:
        """Return the result of some work.

        Raises RequestError for a UserError, and for a package that is not installed.
        """
        try:
            return await self.service.batcher.call(work, seconds=self.service.limits.seconds)
        except UserError as error:
            raise RequestError(str(error)) from None
        except ModuleNotFoundError as error:
            line = missing_package(error)
            if line is None:
                raise
            raise RequestError(f"on the server, {line}", 501) from None


class _GoneError(Exception):
    """The client has gone, or got status 504."""


def _json(values: Any) -> str:
    return json.dumps(values, ensure_ascii=False, allow_nan=False)


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"
