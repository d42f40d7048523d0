"""What all routes share: the models, the limits, and how parameters are read."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from seq2seq.errors import one_line
from seq2seq.serving.batching import Batcher
from seq2seq.serving.limits import Limits
from seq2seq.serving.metrics import Metrics
from seq2seq.serving.models import Model, Models
from seq2seq.serving.schemas import Keyed, RequestError

_MULTIPART = "multipart/form-data"
_MOST_FIELDS = 100  # of a form, beside the texts

T = TypeVar("T")


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

    def check_size(self, texts: Sequence[str], alternatives: int = 0) -> None:
        """Raise RequestError for more than the limits allow."""
        limits = self.limits
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

    def check_language(self, name: str, code: str) -> None:
        """Raise RequestError, which names the parameter, for a language that no model has."""
        known = sorted(self.models.tokenizers)
        if code not in known:
            raise RequestError(
                f"{name}: unknown language '{one_line(code[:40])}'; use one of {', '.join(known)}"
            )

    def model(self, source: str, target: str) -> Model | None:
        """Return the model for a pair of languages; None if there is nothing to translate.

        Raises RequestError for a language or a pair that no model has.
        """
        self.check_language("source", source)
        self.check_language("target", target)
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


async def read_parameters(request: Request, limits: Limits) -> dict[str, Any]:
    """Return the parameters of the query string and of the body, which come first.

    Raises RequestError for a body that is too large, too slow, or not JSON or a form.
    """
    body = await _body(request, limits.body_bytes, limits.read_seconds)
    found: dict[str, Any] = _fields(request.query_params.multi_items())
    if not body.strip():
        return found
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # Some clients leave out the type of JSON, or send that of a form.
    if kind == _MULTIPART or ("json" not in kind and not body.lstrip().startswith(b"{")):
        form = _replayed(request, body, is_multipart=kind == _MULTIPART)
        fields = limits.texts + _MOST_FIELDS
        try:
            read = await form.form(max_files=0, max_fields=fields, max_part_size=limits.body_bytes)
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


async def _body(request: Request, most: int, seconds: float) -> bytes:
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
