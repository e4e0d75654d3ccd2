"""GET /runs: the served runs, their settings, metrics and reports."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import HTMLResponse

from ontodex.runs.versions import list_versions
from ontodex.serve.http.json_route import BoundedRoute
from ontodex.serve.http.problems import Problem
from ontodex.serve.prediction.reload import hide_path, reload_runs, restore_run
from ontodex.serve.prediction.run_view import RunView
from ontodex.serve.requests import Name
from ontodex.serve.responses import (
    ReloadResponse,
    RunDetails,
    RunsResponse,
    RunVersionsResponse,
)
from ontodex.serve.service import Service, ServiceDep

router = APIRouter(prefix="/runs", route_class=BoundedRoute, tags=["service"])
# The report is one file with inline style. The sandbox keeps it from running anything.
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; sandbox"
_DARK_QUERY = "@media (prefers-color-scheme: dark)"


@router.get("", response_model=RunsResponse)
def list_runs(service: ServiceDep) -> Any:
    """List the served runs. The first one answers requests that name no run."""
    return {"runs": [_summarize(service, run) for run in service.runs.values()]}


@router.get("/{run}", response_model=RunDetails)
def get_run(run: Annotated[Name, Path()], service: ServiceDep) -> Any:
    """Return one run with its settings and the metrics of `ontodex evaluate`."""
    view = service.find_run(run)
    settings = view.metadata.settings.tables()
    return {
        **_summarize(service, view),
        "settings": settings,
        "metrics": view.read_metrics(),
        "sample": view.make_sample(),
    }


def _summarize(service: Service, run: RunView) -> dict[str, Any]:
    return {**run.summarize(), "project": service.get_project(run)}


@router.get("/{run}/versions", response_model=RunVersionsResponse)
def list_run_versions(run: Annotated[Name, Path()], service: ServiceDep) -> Any:
    """List the versions of a run: the current one, then those that it replaced."""
    folder = service.find_run(run).metadata.folder
    with hide_path(folder):
        found = list_versions(folder)
    rows = [{"version": v.name, "time": v.time, "is_current": v.is_current} for v in found]
    return {"run": run, "versions": rows}


@router.post("/{run}/reload", response_model=ReloadResponse)
async def reload(run: Annotated[Name, Path()], service: ServiceDep) -> Any:
    """Serve the version that is in the run's folder now. Requests that have begun finish first."""
    with hide_path(service.find_run(run).metadata.folder):
        changed = await reload_runs(service)
    version = service.find_run(run).version
    return {"run": run, "version": version, "is_changed": run in changed}


@router.post("/{run}/versions/{version}/restore", response_model=ReloadResponse)
async def restore(
    run: Annotated[Name, Path()], version: Annotated[Name, Path()], service: ServiceDep
) -> Any:
    """Go back to an earlier version, or with `previous` to the last one that was replaced."""
    before = service.find_run(run).version
    await restore_run(service, run, None if version == "previous" else version)
    now = service.find_run(run).version
    return {"run": run, "version": now, "is_changed": now != before}


@router.get("/{run}/report", response_class=HTMLResponse)
def get_report(
    run: Annotated[Name, Path()],
    service: ServiceDep,
    theme: Annotated[Literal["light", "dark"] | None, Query()] = None,
) -> Any:
    """Return the report of a run as an HTML page. Without `theme` it follows the system's."""
    path = service.find_run(run).metadata.folder / "report.html"
    if not path.is_file():
        raise Problem(404, f"the run {run!r} has no report", hint="ontodex evaluate RUN CORPUS")
    text = path.read_text(encoding="utf-8", errors="replace")
    if theme is not None:  # the style is at the top, before any text that the report quotes
        text = text.replace("color-scheme: light dark", f"color-scheme: {theme}", 1)
        text = text.replace(_DARK_QUERY, "@media all" if theme == "dark" else "@media not all", 1)
    return HTMLResponse(text, headers={"content-security-policy": REPORT_POLICY})
