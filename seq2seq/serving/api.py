"""The project's own routes, which show more of a model than LibreTranslate's interface.

They name a model instead of a pair of languages, so that two of one pair can be compared.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from seq2seq.errors import one_line
from seq2seq.serving.models import Model
from seq2seq.serving.schemas import Keyed, Number, RequestError, parse_request
from seq2seq.serving.service import Service, read_parameters, unless_gone

_MOST_HYPOTHESES = 20


class ModelRequest(Keyed):
    """POST /api/translate."""

    q: str = Field(description="a line")
    model: str = Field(description="name of a model, as GET /api/models lists it")
    beam: Number | None = Field(
        None, ge=1, le=_MOST_HYPOTHESES, description="beam size; default: the server's"
    )
    nbest: Number = Field(1, ge=1, le=_MOST_HYPOTHESES, description="number of translations")


@dataclass(frozen=True)
class ModelDescription:
    """An item of GET /api/models."""

    name: str
    source: str
    target: str
    style: str
    score: str


class Api:
    """The routes below /api."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def routes(self) -> list[Route]:
        """Return all of them."""
        return [
            Route("/api/models", self.models),
            Route("/api/translate", self.translate, methods=["POST"]),
        ]

    async def models(self, _: Request) -> Response:
        """List the models with their languages, decoder style and score function."""
        return JSONResponse(
            [asdict(_describe(model)) for model in self.service.models.by_name.values()]
        )

    async def translate(self, request: Request) -> Response:
        """Return `{"translations": [...]}`, best first, as `translate --format jsonl --attention`.

        The options are those of the command; a smaller beam is raised to `nbest`.
        """
        wanted = parse_request(await read_parameters(request, self.service.limits), ModelRequest)
        self.service.check_key(wanted)
        self.service.check_size([wanted.q])
        translator = self._model(wanted.model).translator
        search = {**self.service.search, **({"beam_size": wanted.beam} if wanted.beam else {})}
        options = translator.options(**search, nbest=wanted.nbest, keep_weights=True)
        translating = self.service.batcher.translate(
            wanted.model, [wanted.q], options, seconds=self.service.limits.seconds
        )
        [found] = await unless_gone(request, translating)
        return JSONResponse({"translations": [each.as_json(attention=True) for each in found]})

    def _model(self, name: str) -> Model:
        models = self.service.models.by_name
        if name not in models:
            raise RequestError(
                f"model: there is no '{one_line(name[:40])}'; use one of {', '.join(models)}"
            )
        return models[name]


def _describe(model: Model) -> ModelDescription:
    config = model.translator.config.model
    return ModelDescription(
        model.name, model.source, model.target, config.style, config.attention.score
    )
