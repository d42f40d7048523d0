"""What requests and responses look like; FastAPI makes the OpenAPI document of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from seq2seq.serving import RequestError

AUTO = "auto"  # instead of a source language
_MOST_HYPOTHESES = 20  # that a request below /api can ask for


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a number")
    return value


Number = Annotated[int, BeforeValidator(_no_bool)]


class Keyed(BaseModel):
    """A request that needs a key where the server has keys."""

    api_key: str | None = Field(
        None, description="one of the server's keys, if it has any; or as Authorization: Bearer KEY"
    )


class TranslateRequest(Keyed):
    """POST /translate."""

    q: str | list[str] = Field(description="a text or several; line breaks are kept")
    source: str = Field(description="code of its language, also with a region, or auto")
    target: str = Field(description="code of the language to translate into")
    format: Literal["text", "html"] = Field("text", description="html: keep tags in place")
    alternatives: Number = Field(0, ge=0, description="how many further translations to return")


class DetectRequest(Keyed):
    """POST /detect."""

    q: str = Field(description="a text")


class Error(BaseModel):
    """Any response that is not 200."""

    error: str


class DetectedLanguage(BaseModel):
    """A language that a text may be in."""

    language: str
    confidence: float = Field(ge=0, le=100, description="in percent")


class TranslateResponse(BaseModel):
    """Translations; a list for each field where `q` is a list."""

    translatedText: str | list[str]
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = Field(
        None, description="with source auto only"
    )
    alternatives: list[str] | list[list[str]] | None = Field(
        None, description="with alternatives of 1 or more only; best first, each a different text"
    )


class Language(BaseModel):
    """A language of the models, and what it can be translated into."""

    code: str
    name: str
    targets: list[str]


class StatusResponse(BaseModel):
    """The state of the server."""

    status: str


class LanguageName(BaseModel):
    """A language of the settings."""

    code: str
    name: str


class LanguagePair(BaseModel):
    """The languages that a form begins with."""

    source: LanguageName
    target: LanguageName


class SettingsResponse(BaseModel):
    """What a form for translating needs to know."""

    apiKeys: bool
    keyRequired: bool
    charLimit: int
    frontendTimeout: int = Field(description="milliseconds to wait for the end of typing")
    language: LanguagePair
    suggestions: bool
    filesTranslation: bool
    supportedFilesFormat: list[str]


class SentenceRequest(Keyed):
    """A line of text for one of the server's models."""

    model: str = Field(description="its name, as GET /api/models lists it")
    q: str = Field(description="a line")


class BeginningRequest(SentenceRequest):
    """A line of text, and how its translation begins."""

    prefix: str = Field("", description="the first characters of the translation")


class LineRequest(BeginningRequest):
    """POST /api/translate and POST /api/stream."""

    beam: Number | None = Field(
        None, ge=1, le=_MOST_HYPOTHESES, description="beam size; default: the server's"
    )
    nbest: Number = Field(1, ge=1, le=_MOST_HYPOTHESES, description="number of translations")
    tree: bool = Field(False, description="return all hypotheses of the search, with the best one")


class WordsRequest(BeginningRequest):
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


class TreeNode(BaseModel):
    """A hypothesis that the search ranked."""

    parent: int | None = Field(description="number of the hypothesis that it extends")
    token: int
    piece: str
    log_prob: float = Field(description="of all pieces so far")
    score: float
    status: Literal["extended", "finished", "unfinished", "pruned"]


class PartResponse(BaseModel):
    """A sentence that was translated at once, as `seq2seq translate --format jsonl` writes it."""

    source: str
    source_tokens: list[str]
    tokens: list[str]
    log_probs: list[float] = Field(description="of each target piece; they sum to log_prob")
    score: float
    log_prob: float
    finished: bool
    attention: list[list[float]] | None = Field(
        None,
        description="a row for each target piece; of a line that was split, the best translation's",
    )
    source_words: list[list[int]] = Field(description="numbers of the words of each source piece")
    target_words: list[list[int]] = Field(description="numbers of the words of each target piece")
    tree: list[TreeNode] | None = Field(None, description="the root, then a level for each step")


class WordWeights(BaseModel):
    """Attention between words, as `seq2seq explain --words` gives it."""

    source: list[str] = Field(description="the last is </s>, the end of sentence")
    target: list[str]
    weights: list[list[float]] = Field(description="a row for each target word; it sums to 1")


class LineTranslation(BaseModel):
    """A translation of a line, as `seq2seq translate --format jsonl --attention` writes it."""

    text: str
    score: float
    parts: list[PartResponse]
    words: WordWeights | None


class LineResponse(BaseModel):
    """The translations of a line, best first."""

    translations: list[LineTranslation]


class NextWord(BaseModel):
    """A word that may come next."""

    word: str = Field(description="empty: the translation ends")
    log_prob: float
    text: str = Field(description="the best translation that begins with it")


Parameters = TypeVar("Parameters", bound=Keyed)


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


_STATUS = {
    400: "a parameter is missing or cannot be used",
    403: "the key is missing or wrong",
    408: "the request took too long to arrive",
    413: "the request is too large",
    429: "too many requests wait; try again after the seconds in Retry-After",
    500: "an error of the server",
    501: "the server lacks a package that this needs",
    504: "the translation took too long",
}
READING, TRANSLATING = (400, 403, 408, 413), (429, 500, 504)  # what these can fail with


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route that can fail with these statuses."""
    return {status: {"model": Error, "description": _STATUS[status]} for status in statuses}
