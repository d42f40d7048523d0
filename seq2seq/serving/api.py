"""The project's own routes: they show more of a model than LibreTranslate's interface.

They name a model instead of a pair of languages, so that two of one pair can be compared.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect

from seq2seq.analysis import Method
from seq2seq.errors import UserError, missing_package, one_line
from seq2seq.inference.protocol import SearchOptions
from seq2seq.serving import interactive
from seq2seq.serving.batching import Kind, RequestError, log_warnings
from seq2seq.serving.served_models import ServedModel
from seq2seq.serving.service import (
    Keyed,
    Number,
    Service,
    Terms,
    fault_message,
    make_router,
    service_of,
)

Work = Callable[[threading.Event], Any]  # the event is set when nobody waits for it any more

log = logging.getLogger(__name__)
router = make_router("/api")
_EVENTS = "text/event-stream"
_MOST_HYPOTHESES = 20  # that a request can ask for


# --- Requests and responses


class SentenceRequest(Keyed):
    """A text for one of the server's models."""

    model: str = Field(description="its name, as GET /api/models lists it")
    q: str = Field(description="a text; line breaks are kept")


class LineRequest(SentenceRequest):
    """POST /api/translate and POST /api/stream."""

    prefix: str = Field("", description="the first characters of the translation")
    beam: Number | None = Field(
        None, ge=1, le=_MOST_HYPOTHESES, description="beam size; default: the server's"
    )
    nbest: Number = Field(1, ge=1, le=_MOST_HYPOTHESES, description="number of translations")
    glossary: Terms = None
    tree: bool = Field(False, description="return all hypotheses of the search, with the best one")


class WordsRequest(SentenceRequest):
    """POST /api/alternatives."""

    prefix: str = Field("", description="complete words; the alternatives come after them")
    number: Number = Field(5, ge=1, le=_MOST_HYPOTHESES, description="how many words to return")


class ExplainRequest(SentenceRequest):
    """POST /api/explain."""

    target: str | None = Field(None, description="the translation to explain; default: the model's")
    step: Number | None = Field(
        None, ge=1, description="a step that attends to nothing but the `position`"
    )
    position: Number = Field(1, ge=1, description="of a source piece, from 1")
    attribution: Method | None = Field(
        None, description="also return what the source contributes to log p of each target piece"
    )


class ModelResponse(BaseModel):
    """A model of the server."""

    name: str
    source: str = Field(description="code of the language that it translates")
    target: str
    source_name: str
    target_name: str
    style: str = Field(description="of the decoder, model.style of the recipe")
    score: str = Field(description="of the attention; none: the model has no attention")
    beam: int = Field(description="hypotheses that its search keeps")


class LineTranslation(BaseModel):
    """A translation of a text, as `seq2seq translate --format jsonl --attention` writes it."""

    text: str
    score: float
    parts: list[dict[str, Any]] = Field(
        description="sentences, also with `words` and the weights between them, the numbers of the "
        "words of each piece, the numbers of the words between spaces that are `uncertain`, and on "
        "request the `tree` of its search"
    )


class LineResponse(BaseModel):
    """The translations of a text, best first."""

    translations: list[LineTranslation]


class NextWord(BaseModel):
    """A word that may come next."""

    word: str = Field(description="empty: the translation ends")
    log_prob: float
    text: str = Field(description="the best translation that begins with it")


# --- Routes


@router.get("/models")
async def models(request: Request) -> list[ModelResponse]:
    """List the models with their languages, decoder style, score function and beam."""
    service = service_of(request)
    names = {each.code: each.name for each in service.models.languages}
    return [
        ModelResponse(
            name=model.name,
            source=model.source,
            target=model.target,
            source_name=names[model.source],
            target_name=names[model.target],
            style=model.translator.config.model.style,
            score=model.translator.config.model.attention.score,
            beam=_options(service, model).beam_size,
        )
        for model in service.models.by_name.values()
    ]


@router.post("/translate", name="translateLine", response_model=LineResponse)
async def translate(request: Request, wanted: LineRequest) -> Response:
    """Translate a text, best first, as `translate --format jsonl --attention`.

    The options are those of the command; a smaller beam is raised to `nbest`.
    """
    kind, work = _translation(service_of(request), wanted, lambda _: None)
    return await _answer(request, kind, work)


@router.post(
    "/stream", response_class=Response,
    responses={200: {"content": {_EVENTS: {"schema": {"type": "string"}}}}},
)  # fmt: skip
async def stream(request: Request, wanted: LineRequest) -> Response:
    """Translate a text, step by step.

    Server-sent events: `partial` with the text so far for each step of the search, then
    `translation` with what /api/translate answers, or `error`.
    """
    service = service_of(request)
    loop, events = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def show(text: str) -> None:
        loop.call_soon_threadsafe(events.put_nowait, text)

    work = asyncio.ensure_future(_call(service, *_translation(service, wanted, show)))

    def end(done: asyncio.Future[str]) -> None:
        if not done.cancelled():
            done.exception()  # or asyncio logs it if the client has disconnected
        events.put_nowait(None)

    work.add_done_callback(end)

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
            except RequestError as error:
                yield _event("error", _json({"error": error.detail}))
            except Exception as error:
                # Raised, it would cut the connection, as if the server were gone.
                log.exception("/api/stream failed")
                yield _event("error", _json({"error": fault_message(error)}))
        finally:
            work.cancel()

    try:
        # A failure before the first step has a status of its own.
        first = await events.get()
        if first is None:
            work.result()
    except BaseException:
        work.cancel()
        raise
    return StreamingResponse(send(first), media_type=_EVENTS, headers={"Cache-Control": "no-store"})


@router.post("/alternatives", response_model=list[NextWord])
async def alternatives(request: Request, wanted: WordsRequest) -> Response:
    """Find the most likely next words after a prefix."""
    service = service_of(request)
    model = _model(service, wanted)
    options = _options(service, model)
    kind = service.batcher.kind(model.name, wanted.q, options, wanted.prefix)

    def work(ended: threading.Event) -> list[dict[str, Any]]:
        found = model.translator.alternatives(
            wanted.q, wanted.prefix, wanted.number, options, check=partial(_check, ended)
        )
        return [
            {"word": each.word, "log_prob": each.log_prob, "text": each.translation.text}
            for each in found
        ]

    return await _answer(request, kind, work)


@router.post("/explain", response_model=dict[str, Any])
async def explain(request: Request, wanted: ExplainRequest) -> Response:
    """Explain a translation as `seq2seq explain --json`, but of large matrices only the shape."""
    service = service_of(request)
    model = _model(service, wanted)

    def work(ended: threading.Event) -> dict[str, Any]:
        return interactive.explain(
            model, wanted.q, beam=_options(service, model).beam_size, target=wanted.target,
            look={wanted.step: wanted.position} if wanted.step else {},
            attribution=wanted.attribution, check=partial(_check, ended),
        )  # fmt: skip

    return await _answer(request, "explain", work)


def _translation(
    service: Service, wanted: LineRequest, show: Callable[[str], object]
) -> tuple[Kind, Work]:
    """Return the work for a text, and its kind; `show` gets the text of each step of the search."""
    model = _model(service, wanted)
    beam = {"beam_size": wanted.beam} if wanted.beam else {}
    options = _options(
        service, model, **beam, nbest=wanted.nbest, keep_weights=True, keep_tree=wanted.tree,
        glossary=service.glossary(wanted.glossary),
    )  # fmt: skip

    def work(ended: threading.Event) -> dict[str, Any]:
        def checked(text: str) -> None:
            _check(ended)
            show(text)

        found = interactive.translate(
            model.translator, wanted.q, options, prefix=wanted.prefix, show=checked
        )
        log_warnings(model.name, found[:1])
        return interactive.translations_json(found, tree=wanted.tree)

    return service.batcher.kind(model.name, wanted.q, options, wanted.prefix), work


def _model(service: Service, wanted: SentenceRequest) -> ServedModel:
    """Return the model of a request. Raises RequestError if there is none, or for a long text."""
    service.check_size([wanted.q])
    for name in ("prefix", "target"):
        size, most = len(getattr(wanted, name, None) or ""), service.limits.characters
        if size > most:
            raise RequestError(f"{name}: {size} characters; send at most {most}")
    models = service.models.by_name
    if wanted.model not in models:
        name = one_line(wanted.model[:40])
        raise RequestError(f"model: there is no '{name}'; use one of {', '.join(models)}")
    return models[wanted.model]


def _options(service: Service, model: ServedModel, **changes: Any) -> SearchOptions:
    return model.translator.options(**{**service.search, **changes})


async def _answer(request: Request, kind: Kind, work: Work) -> Response:
    """Return the result of some work as JSON."""
    text = await _call(service_of(request), kind, work)
    return Response(text, media_type="application/json")


def _check(ended: threading.Event) -> None:
    """Raise ClientDisconnect if the client has disconnected or got status 504."""
    if ended.is_set():
        raise ClientDisconnect


async def _call(service: Service, kind: Kind, work: Work) -> str:
    """Return the result of some work as JSON, written by the thread that does the work.

    Raises RequestError for a UserError, and for a package that is not installed.
    """
    try:
        return await service.batcher.call(
            lambda ended: _json(work(ended)), kind, seconds=service.limits.seconds
        )
    except UserError as error:
        raise RequestError(str(error)) from None
    except ModuleNotFoundError as error:
        line = missing_package(error)
        if line is None:
            raise
        raise RequestError(f"on the server, {line}", 501) from None


def _json(values: Any) -> str:
    return json.dumps(values, ensure_ascii=False, allow_nan=False)


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"
