"""GET /export: decided documents as a file."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import Field

from ontodex.serve.database.tables import QueueFilter, get_time
from ontodex.serve.export_formats import FORMATS, ExportFormat, read_records, write_marc
from ontodex.serve.http.json_route import BoundedRoute
from ontodex.serve.marc import TYPED_FIELDS, MarcField, MarcOptions
from ontodex.serve.requests import Name
from ontodex.serve.service import ServiceDep

MarcType = Annotated[str, Field(pattern=rf"^\S{{1,1000}}=({'|'.join(TYPED_FIELDS)})$")]

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
    marc_type: Annotated[list[MarcType] | None, Query(max_length=50)] = None,
) -> Any:
    """Export the documents that have a decision, with the labels that were accepted or added.

    `marc_source` is the MARC code of the vocabulary; without it, the code is found by the ids. The
    class of a concept decides its field where it is known; `marc_type`, such as
    `http://example.org/Place=651`, names the field of another class or concept scheme.
    """
    view = service.find_run(run)
    chosen = None if state == "all" else state
    where = QueueFilter(chosen, batch, service.get_project(view))
    records = read_records(service.database, where)
    media_type, ending, write = FORMATS[format]
    if format == "marc":
        fields = dict(each.rsplit("=", 1) for each in marc_type or ())
        write = partial(write_marc, options=MarcOptions(marc_field, marc_source, fields))
    name = f"ontodex-{get_time()[:10]}{ending}"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(write(records, view.concepts), media_type=media_type, headers=headers)
