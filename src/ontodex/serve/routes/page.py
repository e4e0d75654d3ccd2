"""GET / and /page: the files of the curator's page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Response
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse, HTMLResponse

from ontodex.serve.http.json_route import BoundedRoute
from ontodex.serve.http.problems import make_not_found

router = APIRouter(route_class=BoundedRoute, tags=["service"])
FOLDER = Path(__file__).parent.parent / "page"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,80}")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".tsv": "text/tab-separated-values; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}
_CONTENT = {kind.partition(";")[0]: {"schema": {"type": "string"}} for kind in _TYPES.values()}


@router.get("/", response_class=HTMLResponse)
def get_page() -> Response:
    """Return the curator's page."""
    return _read_file("index.html")


@router.get("/docs", response_class=HTMLResponse)
def get_api_page() -> Response:
    """Return the page that describes this API; it loads nothing from other hosts."""
    return _read_file("docs.html")


@router.get("/page/{name}", response_class=Response, responses={200: {"content": _CONTENT}})
def get_page_file(name: Annotated[str, PathParameter(max_length=100)]) -> Response:
    """Return a file of the page."""
    return _read_file(name)


def _read_file(name: str) -> Response:
    path = FOLDER / name
    if not _NAME.fullmatch(name) or path.suffix not in _TYPES or not path.is_file():
        raise make_not_found("file", name)
    return FileResponse(path, media_type=_TYPES[path.suffix], headers={"cache-control": "no-cache"})
