"""LibreTranslate's interface, and routes for whoever operates the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from seq2seq.inference.text import Translation
from seq2seq.serving.markup import Block, Token, read_html, write_html
from seq2seq.serving.models import Detected, Model
from seq2seq.serving.schemas import (
    AUTO,
    DetectRequest,
    TranslateRequest,
    openapi,
    parse_request,
)
from seq2seq.serving.service import Service, read_parameters, unless_gone

T = TypeVar("T")


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
            return "".join(lines)
        return "\n".join(
            (next(remaining).text if line.strip() else "") + "\r" * line.endswith("\r")
            for line in lines
        )


class LibreTranslate:
    """The routes of LibreTranslate's interface, and those for whoever operates the server."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._spec = openapi(
            service.limits, models=[*service.models.by_name],
            languages=sorted(service.models.tokenizers),
        )  # fmt: skip

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
        values = await read_parameters(request, self.service.limits)
        wanted = parse_request(values, TranslateRequest)
        self.service.check_key(request, wanted)
        texts = [wanted.q] if isinstance(wanted.q, str) else wanted.q
        self.service.check_size(texts, wanted.alternatives)
        # HTML takes long enough to hold up others.
        call = asyncio.to_thread if wanted.format == "html" else _at_once
        items = await call(lambda: [self._item(text, wanted) for text in texts])
        found = await unless_gone(request, self._translations(items, wanted))
        self.service.metrics.characters += sum(map(len, texts))
        most = wanted.alternatives + 1
        every = await call(
            lambda: [item.texts(of, most) for item, of in zip(items, found, strict=True)]
        )
        answer: dict[str, list[Any]] = {"translatedText": [each[0] for each in every]}
        if wanted.alternatives:
            answer["alternatives"] = [each[1:] for each in every]
        if wanted.source == AUTO:
            answer["detectedLanguage"] = [asdict(item.detected) for item in items if item.detected]
        if isinstance(wanted.q, str):
            return JSONResponse({name: value for name, [value] in answer.items()})
        return JSONResponse(answer)

    def _item(self, text: str, wanted: TranslateRequest) -> _Item:
        models, detected = self.service.models, None
        target = self.service.language("target", wanted.target)
        parts: Sequence[str | Token | Block] = text.split("\n")
        if wanted.format == "html":
            parts = read_html(text)
        if wanted.source == AUTO:
            able = {code for code in models.tokenizers if models.of(code, target)}
            visible = text
            if wanted.format == "html":
                visible = " ".join(part.text for part in parts if isinstance(part, Block))
            # Without a model into the target, any language: the pair is refused below.
            detected = models.detect(visible, able | {target} if able else None)[0]
            if not detected.confidence:  # no letters, or none that a model knows: keep the text
                detected = Detected(target, 0.0)
            source = detected.language
        else:
            source = self.service.language("source", wanted.source)
        model = self.service.model(source, target)
        return _Item(model, detected, parts if model else [text])

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
        wanted = parse_request(await read_parameters(request, self.service.limits), DetectRequest)
        self.service.check_key(request, wanted)
        self.service.check_size([wanted.q])
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
        if failure := self.service.batcher.failure:
            return JSONResponse({"status": str(failure)}, 503)
        return JSONResponse({"status": "ready"})

    async def metrics(self, _: Request) -> Response:
        return PlainTextResponse(
            self.service.metrics.text(), media_type="text/plain; version=0.0.4"
        )


async def _at_once(function: Callable[[], T]) -> T:
    """Return what a function returns, as asyncio.to_thread does from another thread."""
    return function()
