"""The page at `/`: files of the package, which use the routes below /api."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_PAGE = Path(__file__).parent / "page"
# What the page shares with that of `seq2seq explain --html`.
_SHARED = Path(__file__).parents[1] / "analysis/templates"
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


def page_routes() -> list[Route]:
    """Return a route for each file."""
    return [Route(path, _file(source)) for path, source in _FILES.items()]


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    content, kind = path.read_bytes(), _TYPES[path.suffix]

    async def answer(_: Request) -> Response:
        return Response(content, headers=_HEADERS, media_type=kind)

    return answer
