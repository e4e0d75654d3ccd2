"""/runs, who you are, live figures, the probes, and the files of the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as InPath
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse

from ontodex import __version__
from ontodex.serve.answers import (
    Health,
    LoginAnswer,
    MeAnswer,
    Readiness,
    RunDetails,
    RunsAnswer,
    StatusAnswer,
)
from ontodex.serve.bodies import Login, Name
from ontodex.serve.guard import COOKIE
from ontodex.serve.problems import Problem, not_found
from ontodex.serve.service import TheService, who_of

router = APIRouter(tags=["service"])
PAGE = Path(__file__).parent / "page"
COOKIE_DAYS = 30
# The report is one file with its style inside; it can do nothing but be looked at.
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; sandbox"
_IF_DARK = "@media (prefers-color-scheme: dark)"
_FILE = re.compile(r"[a-z0-9][a-z0-9._-]{0,80}")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}


@router.get("/runs", response_model=RunsAnswer)
def runs(service: TheService) -> Any:
    """The runs that are served; the first is meant where none is named."""
    return {"runs": [served.about() for served in service.runs.values()]}


@router.get("/runs/{run}", response_model=RunDetails)
def run(run: Annotated[Name, InPath()], service: TheService) -> Any:
    """One run, with its settings and what `ontodex evaluate` measured."""
    served = service.run(run)
    settings = served.run.settings.tables()
    return {**served.about(), "settings": settings, "metrics": served.metrics()}


@router.get("/runs/{run}/report", response_class=HTMLResponse)
def report(
    run: Annotated[Name, InPath()],
    service: TheService,
    theme: Annotated[Literal["light", "dark"] | None, Query()] = None,
) -> Any:
    """The report of a run with its plots, as a page; light or dark as the system is, or as said."""
    path = service.run(run).run.folder / "report.html"
    if not path.is_file():
        raise Problem(404, f"the run {run!r} has no report", hint="ontodex evaluate RUN CORPUS")
    text = path.read_text(encoding="utf-8")
    if theme is not None:  # its style is at its top, before anything that it quotes
        text = text.replace("color-scheme: light dark", f"color-scheme: {theme}", 1)
        text = text.replace(_IF_DARK, "@media all" if theme == "dark" else "@media not all", 1)
    return HTMLResponse(text, headers={"content-security-policy": REPORT_POLICY})


@router.get("/me", response_model=MeAnswer)
def me(request: Request) -> Any:
    """Who decisions are signed with, and how that is known."""
    who = who_of(request)
    return {"name": who.name, "by": who.by}


@router.post("/login", response_model=LoginAnswer)
def login(body: Login, service: TheService, request: Request, response: Response) -> Any:
    """Keep a key in a cookie that no script can read."""
    if service.keys is None:
        raise Problem(409, "this service has no keys", hint="GET /me says who you are")
    name = service.keys.name_of(body.key)
    if name is None:
        raise Problem(401, "this key is not known", headers={"www-authenticate": "Bearer"})
    response.set_cookie(
        COOKIE,
        body.key,
        max_age=COOKIE_DAYS * 86400,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return {"name": name}


@router.post("/logout", status_code=204)
def logout() -> Response:
    """Forget the key."""
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


@router.get("/status", response_model=StatusAnswer)
def status(service: TheService) -> Any:
    """Live figures."""
    engine, database = service.engine, service.database
    return {
        "version": __version__,
        **service.figures.summary(),
        "queue": {"waiting": engine.waiting, "capacity": engine.capacity},
        "documents": database.counts(),
        "decisions": database.n_decisions(),
    }


@router.get("/healthz", response_model=Health)
async def healthz() -> dict[str, str]:
    """The process lives."""
    return {"status": "ok"}


@router.get("/readyz", response_model=Readiness)
def readyz(service: TheService) -> Response:
    """Whether requests should come here."""
    if not service.is_ready:
        return Problem(503, "not ready", headers={"retry-after": "5"}).response()
    return JSONResponse({"status": "ready"})


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(service: TheService) -> Response:
    """Prometheus text."""
    engine = service.engine
    gauges = {
        "queue_documents": engine.waiting,
        "queue_capacity": engine.capacity,
        "start_time_seconds": service.figures.started,
    }
    text = service.figures.text(gauges)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/", response_class=HTMLResponse)
def page() -> Response:
    """The curator's page."""
    if not (PAGE / "index.html").is_file():
        return HTMLResponse("<!doctype html><title>ontodex</title><p>This build has no page.")
    return _file("index.html")


_FILES = {kind.partition(";")[0]: {"schema": {"type": "string"}} for kind in _TYPES.values()}


@router.get("/page/{name}", response_class=Response, responses={200: {"content": _FILES}})
def page_file(name: Annotated[str, InPath(max_length=100)]) -> Response:
    """A file of the page."""
    return _file(name)


def _file(name: str) -> Response:
    path = PAGE / name
    if not _FILE.fullmatch(name) or path.suffix not in _TYPES or not path.is_file():
        raise not_found("file", name)
    return FileResponse(path, media_type=_TYPES[path.suffix], headers={"cache-control": "no-cache"})
