"""LibreTranslate's interface."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

from fastapi import Request, Response, UploadFile
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, Field
from starlette import datastructures

from seq2seq.inference.text import Translation
from seq2seq.languages import language
from seq2seq.serving import documents
from seq2seq.serving.batching import RequestError
from seq2seq.serving.served_models import DetectedLanguage, Language, LanguageName, ServedModel
from seq2seq.serving.service import Keyed, Number, Service, Terms, make_router, service_of

T = TypeVar("T")

AUTO = "auto"  # instead of a source language
_FILES = (".txt", ".html", ".srt")
_KEPT_SECONDS, _KEPT_BYTES = 600, 2**26  # of translated files

router = make_router()


class _Languages(Keyed):
    source: str = Field(description="code of a language, also with a region, or auto")
    target: str = Field(description="code of the language to translate into")
    glossary: Terms = None


class TranslateRequest(_Languages):
    """POST /translate."""

    q: str | list[str] = Field(description="a text or several; line breaks are kept")
    format: Literal["text", "html"] = Field("text", description="html: keep tags in place")
    alternatives: Number = Field(0, ge=0, description="how many further translations to return")


class DetectRequest(Keyed):
    """POST /detect."""

    q: str | list[str] = Field(description="a text or several")


def _check_file(value: Any) -> Any:
    if not isinstance(value, datastructures.UploadFile):
        raise ValueError("expected a file; send multipart/form-data")
    return value


class FileRequest(_Languages):
    """POST /translate_file."""

    file: Annotated[UploadFile, BeforeValidator(_check_file)] = Field(
        description=f"in UTF-8, with a name that ends in one of {', '.join(_FILES)}"
    )


class FileResponse(BaseModel):
    """The address of a translated file."""

    translatedFileUrl: str = Field(description="address for GET; valid for ten minutes")


class TranslateResponse(BaseModel):
    """Translations; each field is a list if `q` is a list."""

    translatedText: str | list[str]
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = Field(
        None, description="with source auto only"
    )
    warnings: list[str] | list[list[str]] | None = Field(
        None,
        description="if a translation may be wrong. unlikely: the model itself finds that of a "
        "sentence unlikely; unfinished: the length limit ended one; "
        "missing: a term or token of the text is not in the translation",
    )
    missing: list[str] | list[list[str]] | None = Field(
        None, description="with the warning missing only: the terms and tokens"
    )
    alternatives: list[str] | list[list[str]] | None = Field(
        None, description="with alternatives of 1 or more only; best first, each a different text"
    )


class LanguagePair(BaseModel):
    """The languages that a form begins with."""

    source: LanguageName
    target: LanguageName


class SettingsResponse(BaseModel):
    """Settings for a translation form."""

    apiKeys: bool
    keyRequired: bool
    charLimit: int
    frontendTimeout: int = Field(500, description="milliseconds to wait for the end of typing")
    language: LanguagePair
    suggestions: bool = False
    filesTranslation: bool = True
    glossaries: list[str] = Field(description="names that a request can give")
    supportedFilesFormat: list[str] = list(_FILES)


@dataclass
class _Item:
    """A text of a request: its parts to translate, and their translations."""

    model: ServedModel | None  # none: it is in the target language already
    detected: DetectedLanguage | None
    parts: documents.Parts
    found: Sequence[Sequence[Translation]] = ()

    @property
    def lines(self) -> list[str]:
        """The lines to translate."""
        return [part.text for part in self.parts if not isinstance(part, str)]

    def texts(self, most: int) -> list[str]:
        """Return the translations, best first, at most this many, each a different text."""
        ranks = max(map(len, self.found), default=1)
        chosen = ([of[min(rank, len(of) - 1)] for of in self.found] for rank in range(ranks))
        return list(dict.fromkeys(documents.write(self.parts, each) for each in chosen))[:most]

    @property
    def missing(self) -> list[str]:
        """The terms and tokens that are not in the best translation."""
        return [text for best, *_ in self.found for part in best.parts for text in part.missing]

    @property
    def warnings(self) -> list[str]:
        """Why the best translation may be wrong."""
        parts = [part for best, *_ in self.found for part in best.parts]
        wrong = {
            "missing": bool(self.missing),
            "unlikely": any(part.unlikely for part in parts),
            "unfinished": not all(part.finished for part in parts),
        }
        return [name for name, is_so in wrong.items() if is_so]


@router.post("/translate", response_model=TranslateResponse)
async def translate(request: Request, wanted: TranslateRequest) -> Response:
    """Translate texts."""
    service = service_of(request)
    service.check_size(_texts(wanted), wanted.alternatives)
    answer = await _answer(service, wanted)
    if isinstance(wanted.q, str):
        return JSONResponse({name: value for name, [value] in answer.items()})
    return JSONResponse(answer)


@router.post("/translate_file", response_model=FileResponse)
async def translate_file(request: Request, wanted: FileRequest) -> Response:
    """Translate a file, and return where the translation is."""
    service, name = service_of(request), PurePath(wanted.file.filename or "")
    kind = name.suffix.lower()
    if kind not in _FILES:
        known = ", ".join(_FILES)
        raise RequestError(f"file: unknown format {kind[:40]!r}; use one of {known}")
    try:
        text = (await wanted.file.read()).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RequestError("file: not UTF-8; save it as UTF-8") from None
    service.check_size([text], name="file")
    if kind == ".srt" and "-->" not in text:
        raise RequestError("file: found no times of subtitles with an arrow (-->); use .txt")
    given = TranslateRequest(
        q=documents.read_subtitles(text) if kind == ".srt" else text, source=wanted.source,
        target=wanted.target, format="text" if kind == ".txt" else "html",
        glossary=wanted.glossary,
    )  # fmt: skip
    [found] = (await _answer(service, given))["translatedText"]
    found = documents.write_subtitles(found) if kind == ".srt" else found
    key = secrets.token_urlsafe()
    service.files[key] = f"{name.stem[:80]}.{wanted.target[:20]}{kind}", found.encode()
    while sum(len(content) for _, content in service.files.values()) > _KEPT_BYTES:
        del service.files[next(iter(service.files))]
    asyncio.get_running_loop().call_later(_KEPT_SECONDS, service.files.pop, key, None)
    is_https = request.headers.get("x-forwarded-proto") == "https"  # behind a proxy
    host = request.headers.get("host") or "{}:{}".format(*request.scope["server"])
    # The log has paths, but no queries.
    address = f"{host}/download_file/translation{kind}?key={key}"
    return JSONResponse({"translatedFileUrl": f"http{'s' * is_https}://{address}"})


@router.get("/download_file/{name}", include_in_schema=False)
async def download_file(request: Request) -> Response:
    """Return a translated file, with headers that keep browsers from opening it as a page."""
    kept = service_of(request).files.get(request.query_params.get("key", ""))
    if kept is None:
        raise RequestError("no such file; translated files are kept for ten minutes", 404)
    name, content = kept
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, errors='replace')}",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    return Response(content, media_type="text/plain", headers=headers)


async def _answer(service: Service, wanted: TranslateRequest) -> dict[str, list[Any]]:
    """Return the fields of the response to a request, a value in each for each of its texts."""
    texts = _texts(wanted)
    is_auto, is_html = wanted.source == AUTO, wanted.format == "html"
    source = None if is_auto else service.language("source", wanted.source)
    target = service.language("target", wanted.target)
    # HTML and detection would hold up other requests for too long, so they run in threads.
    call = asyncio.to_thread if is_html or is_auto else _at_once
    of_text = partial(_item, service, source=source, target=target, is_html=is_html)
    items = [await call(partial(of_text, text)) for text in texts]
    await _translate(service, items, wanted)
    service.batcher.metrics.characters.inc(sum(map(len, texts)))
    every = await call(lambda: [item.texts(wanted.alternatives + 1) for item in items])
    answer: dict[str, list[Any]] = {"translatedText": [each[0] for each in every]}
    if any(warnings := [item.warnings for item in items]):
        answer["warnings"] = warnings
    if any(item.missing for item in items):
        answer["missing"] = [item.missing for item in items]
    if wanted.alternatives:
        answer["alternatives"] = [each[1:] for each in every]
    if is_auto:
        answer["detectedLanguage"] = [item.detected.model_dump() for item in items if item.detected]
    return answer


def _item(service: Service, text: str, source: str | None, target: str, is_html: bool) -> _Item:
    """Return what to translate of a text; its language is detected if there is no `source`."""
    models, detected = service.models, None
    parts = documents.read_html(text) if is_html else documents.read_text(text)
    if source is None:
        able = {code for code in models.tokenizers if models.of(code, target)}
        blocks = (part.text for part in parts if not isinstance(part, str))
        visible = " ".join(blocks) if is_html else text
        detected = models.detect(visible, able | {target})[0]
        if not detected.confidence:  # no language: keep the text
            detected = DetectedLanguage(language=target, confidence=0)
        source = detected.language
        if source not in models.tokenizers:
            raise RequestError(
                f"source: a text seems to be {language(source).name} (confidence "
                f"{detected.confidence:.0f} %), and no model translates that into {target}; if it "
                f"is not, use its language instead of auto: {', '.join(sorted(able)) or 'none'}"
            )
    model = service.model(source, target)
    return _Item(model, detected, parts if model else [text])


async def _translate(service: Service, items: Sequence[_Item], wanted: TranslateRequest) -> None:
    """Find the translations of the lines of each item."""
    loop = asyncio.get_running_loop()
    end = loop.time() + service.limits.seconds
    glossary = service.glossary(wanted.glossary)
    # Only `auto` makes more than one model.
    for model in {item.model.name: item.model for item in items if item.model}.values():
        own = [item for item in items if item.model is model]
        options = model.translator.options(
            **service.search, nbest=wanted.alternatives + 1, keep_weights=wanted.format == "html",
            glossary=glossary,
        )  # fmt: skip
        lines = [line for item in own for line in item.lines]
        translated = iter(
            await service.batcher.translate(model.name, lines, options, seconds=end - loop.time())
        )
        for item in own:
            item.found = [next(translated) for _ in item.lines]


@router.post("/detect", response_model=list[DetectedLanguage] | list[list[DetectedLanguage]])
async def detect(request: Request, wanted: DetectRequest) -> Response:
    """Detect the language of a text, or of each of several."""
    service = service_of(request)
    texts = _texts(wanted)
    service.check_size(texts)
    found = [await asyncio.to_thread(service.models.detect, text) for text in texts]
    answer = [[each.model_dump() for each in of] for of in found]
    return JSONResponse(answer[0] if isinstance(wanted.q, str) else answer)


@router.get("/languages")
async def languages(request: Request) -> list[Language]:
    """List the languages."""
    return service_of(request).models.languages


@router.get("/frontend/settings")
async def settings(request: Request) -> SettingsResponse:
    """Get what a translation form needs to know."""
    service = service_of(request)
    languages = {each.code: each for each in service.models.languages}
    first = next(iter(service.models.by_name.values()))
    return SettingsResponse(
        apiKeys=bool(service.keys),
        keyRequired=bool(service.keys),
        charLimit=service.limits.characters,
        language=LanguagePair(source=languages[first.source], target=languages[first.target]),
        glossaries=[*service.glossaries],
    )


def _texts(wanted: TranslateRequest | DetectRequest) -> list[str]:
    return [wanted.q] if isinstance(wanted.q, str) else wanted.q


async def _at_once(function: Callable[[], T]) -> T:
    """Return what a function returns, like asyncio.to_thread but in this thread."""
    return function()
