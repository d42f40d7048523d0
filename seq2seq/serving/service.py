"""Shared by all routes: the models, the limits, and how parameters are read and checked."""

from __future__ import annotations

import asyncio
import hmac
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, BeforeValidator, Field, SkipValidation, ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect
from starlette.types import Message

from seq2seq.errors import DataError, WorkerError, exit_status, one_line
from seq2seq.inference.required import Glossary
from seq2seq.serving import Limits
from seq2seq.serving.batching import Batcher, RequestError
from seq2seq.serving.served_models import ServedModel, ServedModels

_MULTIPART = "multipart/form-data"
_CLOSE = {"Connection": "close"}  # the rest of the request is not read
_MOST_FIELDS = 100  # of a form, beside the texts


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a number")
    return value


_MAX_TERMS = 1000  # of a request; `re` keeps 512 patterns, 0.2 MB each with so many terms
Terms = Annotated[
    str | dict[str, str] | None,
    SkipValidation,  # Service.glossary names the term that is wrong
    Field(description="the name of a glossary of the server, or terms and their translations"),
]
Number = Annotated[int, BeforeValidator(_no_bool)]


class Keyed(BaseModel):
    """A request that needs a key if the server has keys."""

    api_key: str | None = Field(
        None, description="one of the server's keys, if it has any; or as Authorization: Bearer KEY"
    )


class Error(BaseModel):
    """Any response that is not 200."""

    error: str


Parameters = TypeVar("Parameters", bound=Keyed)


def fault_message(error: Exception) -> str:
    """Return what a client is told of an error that is not the request's."""
    # The log says more about a lost worker: the server is about to stop.
    found = None if isinstance(error, WorkerError) else exit_status(error)
    return found[1] if found else "internal error; the server's log has the details"


@dataclass(frozen=True)
class Service:
    """Everything that the routes use."""

    batcher: Batcher
    search: Mapping[str, Any] = field(default_factory=dict)  # for Translator.options
    keys: Sequence[str] = ()  # none: no key is needed
    glossaries: Mapping[str, Glossary] = field(default_factory=dict)  # by name
    # translated files by the keys of their addresses: names and contents
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)

    @property
    def models(self) -> ServedModels:
        """The models of the server."""
        return self.batcher.models

    @property
    def limits(self) -> Limits:
        """The limits of the server."""
        return self.batcher.limits

    def check_key(self, request: Request, wanted: Keyed) -> None:
        """Raise RequestError if the server has keys and the request has none of them.

        A key is the parameter `api_key`, or in the header `Authorization: Bearer KEY`.
        """
        if not self.keys:
            return
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        bearer = key.strip(" ").encode("latin-1") if scheme.lower() == "bearer" else b""
        given = {(wanted.api_key or "").encode(), bearer}
        if not any(hmac.compare_digest(g, key.encode()) for g in given for key in self.keys):
            raise RequestError("api_key: missing or wrong; ask the owner of this server", 403)

    def check_size(self, texts: Sequence[str], alternatives: int = 0, name: str = "q") -> None:
        """Raise RequestError for more than the limits allow."""
        limits = self.limits
        characters = sum(map(len, texts))
        if characters > limits.characters:
            raise RequestError(
                f"{name}: {characters} characters; send at most {limits.characters} at once"
            )
        if len(texts) > limits.texts:
            raise RequestError(f"q: {len(texts)} texts; send at most {limits.texts} at once")
        if alternatives > limits.alternatives:
            raise RequestError(
                f"alternatives: {alternatives}; ask for at most {limits.alternatives}"
            )

    def glossary(self, wanted: Any) -> Glossary | None:
        """Return the glossary of a name, or of the terms of a request.

        Raises RequestError for an unknown name, and for what is not terms.
        """
        if wanted is None or wanted == "":
            return None
        if isinstance(wanted, dict):
            if len(wanted) > _MAX_TERMS:
                raise RequestError(
                    f"glossary: {len(wanted)} terms, a request may have {_MAX_TERMS}; start the "
                    "server with larger glossaries"
                )
            try:
                return Glossary(wanted)
            except DataError as error:
                raise RequestError(str(error)) from None
        if not isinstance(wanted, str):
            raise RequestError("glossary: expected a name or a JSON object of terms")
        if wanted.lstrip().startswith("{"):
            raise RequestError(
                "glossary: terms have to be a JSON object in a request of type application/json; "
                "a form can only name a glossary"
            )
        if wanted not in self.glossaries:
            names = ", ".join(self.glossaries) or "a JSON object of terms"
            raise RequestError(
                f"glossary: there is no '{one_line(wanted[:40])}'; use one of {names}"
            )
        return self.glossaries[wanted]

    def language(self, name: str, code: str) -> str:
        """Return the code that the models have for a language.

        Case, and a region or script that they do not name, are ignored: `ES`, `es-MX` and `es_ES`
        are `es`. Raises RequestError, naming the parameter, for a language that no model has.
        """
        known = {code.lower().replace("_", "-"): code for code in self.models.tokenizers}
        wanted = code.lower().replace("_", "-")
        found = known.get(wanted) or known.get(wanted.partition("-")[0])
        if found is None:
            codes = ", ".join(sorted(known.values()))
            raise RequestError(
                f"{name}: unknown language '{one_line(code[:40])}'; use one of {codes}"
            )
        return found

    def model(self, source: str, target: str) -> ServedModel | None:
        """Return the model for a pair of languages; None if there is nothing to translate.

        Raises RequestError for a pair that no model has.
        """
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


def service_of(request: Request) -> Service:
    """Return the service of the application that got a request."""
    service: Service = request.app.state.service
    return service


class _ParametersRoute(APIRoute):
    """A route with parameters as JSON, a form or a query string, whichever the client sends.

    FastAPI reads a body as one of these only. The OpenAPI document follows the endpoint's
    signature; its parameter `wanted` gets a request of the declared type, once the key was checked.
    The endpoint is cancelled when the client disconnects.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        endpoint = self.endpoint
        kind: type[Keyed] | None = inspect.get_annotations(endpoint, eval_str=True).get("wanted")
        if kind is None:
            return super().get_route_handler()

        async def handle(request: Request) -> Response:
            service = service_of(request)
            wanted = parse_request(await read_parameters(request, service.limits), kind)
            service.check_key(request, wanted)
            return await _unless_disconnected(request, endpoint(request, wanted))

        return handle


def make_router(prefix: str = "") -> APIRouter:
    """Return a router for some routes. Generated clients name a method after each endpoint."""
    error = {"model": Error, "description": "an error; docs/serving.md lists the statuses"}
    return APIRouter(
        prefix=prefix,
        route_class=_ParametersRoute,
        generate_unique_id_function=attrgetter("name"),
        responses={"default": error},  # FastAPI's own check of requests (422) is not used
    )


def parse_request(values: Mapping[str, Any], kind: type[Parameters]) -> Parameters:
    """Return the request that these parameters make; raise RequestError if one is wrong."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)[0]
        name = str(found["loc"][0]) if found["loc"] else "request"
        if found["type"] == "missing":
            raise RequestError(f"{name}: missing parameter") from None
        raise RequestError(f"{name}: {found['msg'].removeprefix('Value error, ')}") from None


async def read_parameters(request: Request, limits: Limits) -> dict[str, Any]:
    """Return the parameters of the query string and the body; those of the body take precedence.

    Raises RequestError for a body that is too large, too slow, or not JSON or a form.
    """
    most, size = limits.body_bytes, 0

    async def receive() -> Message:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > most:
            error = f"the body has more than {most} bytes; send less at once"
            raise RequestError(error, 413, _CLOSE)
        return message

    limited = Request(request.scope, receive)
    try:
        body = await asyncio.wait_for(limited.body(), limits.read_seconds)
    except asyncio.TimeoutError:
        message = f"the body did not arrive within {limits.read_seconds:g} seconds"
        raise RequestError(message, 408, _CLOSE) from None
    fields = limits.texts + _MOST_FIELDS
    found = _urlencoded(request.scope["query_string"], fields)
    if not body.strip():
        return found
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # Some clients leave out the type of JSON, or send that of a form.
    if kind == _MULTIPART:
        try:
            form = await limited.form(max_files=1, max_fields=fields, max_part_size=most)
        except (LookupError, ValueError):
            raise RequestError("the form cannot be read; encode it as its type says") from None
        return found | _fields({name: form.getlist(name) for name in form})
    if "json" not in kind and not body.lstrip().startswith(b"{"):
        return found | _urlencoded(body, fields)
    try:
        values = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise RequestError(f"invalid JSON: {one_line(str(error))}") from None
    if not isinstance(values, dict):
        raise RequestError("invalid JSON: expected an object")
    return found | {name: value for name, value in values.items() if value is not None}


def _fields(found: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return the fields of a form or a query; one that is repeated is a list."""
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _urlencoded(data: bytes, most: int) -> dict[str, Any]:
    """Return the fields of a URL-encoded form or query; characters may be %-escapes or UTF-8."""
    try:
        text = data.decode()
        found = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=most)
    except UnicodeDecodeError:
        raise RequestError("the form or query string is not UTF-8; encode it as UTF-8") from None
    except ValueError:
        raise RequestError(f"more than {most} parameters; send fewer") from None
    return _fields(found)


async def _unless_disconnected(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """Return what work returns; cancel it and raise ClientDisconnect if the client disconnects."""
    working = asyncio.ensure_future(work)
    disconnected = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({working, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, disconnected):
            task.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
