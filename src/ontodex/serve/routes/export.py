"""GET /export: decided documents as a file."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from ontodex.serve.database.tables import QueueFilter, get_time
from ontodex.serve.export_formats import FORMATS, ExportFormat, read_records, write_marc
from ontodex.serve.http.json_route import BoundedRoute
from ontodex.serve.marc import MarcField, MarcOptions
from ontodex.serve.requests import Name
from ontodex.serve.service import ServiceDep

router = APIRouter(route_class=BoundedRoute, tags=["documents"])
_CONTENT = {
    kind.partition(";")[0]: {"schema": {"type": "string"}} for kind, _, _ in FORMATS.values()
}


@router.get("/export", response_class=StreamingResponse, responses={200: {"content": _CONTENT}})
def export(
    service: ServiceDep,
    format: Annotated[ExportFormat, Query()] = "jsonl",
    state: Annotated[Literal["open", "done", "all"], Query()] = "all",
    batch: Annotated[Name | None, Query()] = None,
    run: Annotated[Name | None, Query()] = None,
    marc_field: Annotated[MarcField, Query()] = "650",
    marc_source: Annotated[str, Query(pattern=r"^[a-z0-9/-]{0,30}$")] = "",
) -> Any:
    """Export the documents that have a decision, with the labels that were accepted or added.

    `marc_source` is the MARC code of the vocabulary; without it, the code is found by the ids.
    """
    view = service.find_run(run)
    chosen = None if state == "all" else state
    where = QueueFilter(chosen, batch, service.get_project(view))
    records = read_records(service.database, where)
    media_type, ending, write = FORMATS[format]
    if format == "marc":
        write = partial(write_marc, options=MarcOptions(marc_field, marc_source))
    name = f"ontodex-{get_time()[:10]}{ending}"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(write(records, view.concepts), media_type=media_type, headers=headers)
