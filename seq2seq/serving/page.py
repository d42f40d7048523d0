"""The page at `/`, and the routes that it uses: the project's own, under /api."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from seq2seq.errors import UserError, missing_package
from seq2seq.inference.protocol import SearchOptions
from seq2seq.serving import interactive
from seq2seq.serving.app import TOO_LATE, Service, read_body, unless_gone
from seq2seq.serving.batching import DeadlineError
from seq2seq.serving.models import Model
from seq2seq.serving.schemas import (
    MOST_BEAM,
    ExplainRequest,
    LineRequest,
    RequestError,
    SentenceRequest,
    WordsRequest,
    parse_request,
)

_PAGE = Path(__file__).parent / "page"
_SHARED = Path(__file__).parents[1] / "templates"  # with the page of `seq2seq explain --html`
_FILES = {
    "/": _PAGE / "index.html",
    **{f"/page/{name}": _PAGE / name for name in ("page.css", "page.js", "tree.js", "examples.js")},
    **{f"/page/{name}": _SHARED / name for name in ("drawing.js", "explanation.css")},
}
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

T = TypeVar("T")
Sentence = TypeVar("Sentence", bound=SentenceRequest)


def page_routes(service: Service) -> list[Route]:
    """Return the routes of the page and of its data."""
    own = _Own(service)
    files = [Route(path, _file(source)) for path, source in _FILES.items()]
    return [
        *files,
        Route("/api/models", own.models),
        Route("/api/translate", own.translate, methods=["POST"]),
        Route("/api/stream", own.stream, methods=["POST"]),
        Route("/api/alternatives", own.alternatives, methods=["POST"]),
        Route("/api/explain", own.explain, methods=["POST"]),
    ]


def _file(path: Path) -> Callable[[Request], Response]:
    content, kind = path.read_bytes(), _TYPES[path.suffix]

    def answer(_: Request) -> Response:
        return Response(content, headers=_HEADERS, media_type=kind)

    return answer


class _Own:
    """The routes under /api. Requests are JSON; those of a sentence name their model."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def models(self, _: Request) -> Response:
        names = {each.code: each.name for each in self.service.models.languages}
        found = [
            {
                "name": model.name,
                "source": model.source,
                "target": model.target,
                "source_name": names[model.source],
                "target_name": names[model.target],
                "style": model.translator.config.model.style,
                "score": model.translator.config.model.attention.score,
                "beam": self._options(model).beam_size,
            }
            for model in self.service.models.by_name.values()
        ]
        return JSONResponse(
            {
                "models": found,
                "characters": self.service.limits.characters,
                "most_beam": MOST_BEAM,
                "keyed": bool(self.service.keys),
            }
        )

    async def translate(self, request: Request) -> Response:
        wanted, model = await self._read(request, LineRequest)
        work = self._translation(wanted, model)
        return JSONResponse(await unless_gone(request, self._call(work, model.name)))

    async def stream(self, request: Request) -> Response:
        """Send server-sent events: `partial` for each step, then `translation` or `error`."""
        wanted, model = await self._read(request, LineRequest)
        loop, events = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any] | None]()
        gone = threading.Event()

        def show(text: str) -> None:
            if gone.is_set():
                raise _GoneError
            loop.call_soon_threadsafe(events.put_nowait, {"text": text})

        work = asyncio.ensure_future(self._call(self._translation(wanted, model, show), model.name))
        work.add_done_callback(lambda _: events.put_nowait(None))

        async def send(event: dict[str, Any] | None) -> AsyncIterator[str]:
            try:
                while event is not None:
                    yield _event("partial", event)
                    event = await events.get()
                try:
                    yield _event("translation", await work)
                except (RequestError, DeadlineError) as error:
                    yield _event("error", {"error": str(error) or TOO_LATE})
            finally:
                gone.set()
                work.cancel()

        try:
            first = await unless_gone(request, events.get())
        except BaseException:
            gone.set()
            work.cancel()
            raise
        if first is None:  # it failed, or there is nothing to translate
            work.result()
        return StreamingResponse(
            send(first), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    async def alternatives(self, request: Request) -> Response:
        wanted, model = await self._read(request, WordsRequest)
        work = partial(
            interactive.alternatives_json, model.translator, wanted.text, wanted.prefix,
            wanted.number, self._options(model),
        )  # fmt: skip
        return JSONResponse(await unless_gone(request, self._call(work, model.name)))

    async def explain(self, request: Request) -> Response:
        wanted, model = await self._read(request, ExplainRequest)
        work = partial(
            interactive.explain, model, wanted.text, beam=self._options(model).beam_size,
            target=wanted.target, look={wanted.step: wanted.position} if wanted.step else {},
        )  # fmt: skip
        return JSONResponse(await unless_gone(request, self._call(work)))

    def _translation(
        self, wanted: LineRequest, model: Model, show: Callable[[str], None] | None = None
    ) -> Callable[[], dict[str, Any]]:
        """Return the work for a line."""
        beam = {"beam_size": wanted.beam} if wanted.beam else {}
        options = self._options(
            model, **beam, nbest=wanted.alternatives + 1, keep_weights=True, keep_tree=wanted.tree
        )
        search = partial(
            interactive.translate, model.translator, wanted.text, options,
            prefix=wanted.prefix, show=show,
        )  # fmt: skip
        return lambda: interactive.translation_json(search(), tree=wanted.tree)

    def _options(self, model: Model, **changes: Any) -> SearchOptions:
        return model.translator.options(**{**self.service.search, **changes})

    async def _read(self, request: Request, kind: type[Sentence]) -> tuple[Sentence, Model]:
        """Return a request and its model. Raises RequestError if it cannot be used."""
        service, limits = self.service, self.service.limits
        body = await read_body(request, limits.body_bytes, limits.read_seconds)
        try:
            values = from_json(body)
        except ValueError:
            values = None
        if not isinstance(values, Mapping):
            raise RequestError("the body is not a JSON object; send one")
        wanted = parse_request(values, kind)
        service.check_key(wanted)
        for name in ("text", "prefix", "target"):
            size = len(getattr(wanted, name, None) or "")
            if size > limits.characters:
                raise RequestError(
                    f"{name}: {size} characters; send at most {limits.characters} at once"
                )
        for name in ("alternatives", "number"):
            if getattr(wanted, name, 0) > limits.alternatives:
                raise RequestError(f"{name}: ask for at most {limits.alternatives}")
        model = service.models.by_name.get(wanted.model)
        if model is None:
            raise RequestError(f"model: unknown; use one of {', '.join(service.models.by_name)}")
        return wanted, model

    async def _call(self, work: Callable[[], T], model: str = "") -> T:
        """Return the result of some work, on the worker of the model that it uses.

        Raises RequestError for a UserError, and for a package that is not installed.
        """
        try:
            return await self.service.batcher.call(
                work, seconds=self.service.limits.seconds, model=model
            )
        except UserError as error:
            raise RequestError(str(error)) from None
        except ModuleNotFoundError as error:
            line = missing_package(error)
            if line is None:
                raise
            raise RequestError(f"on the server, {line}", 501) from None


class _GoneError(Exception):
    """The client of a stream has gone."""


def _event(name: str, data: Mapping[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    return f"event: {name}\ndata: {text}\n\n"
