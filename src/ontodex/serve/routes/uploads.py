"""POST /documents/upload: files into the queue."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, UploadFile

from ontodex.corpora.field_mapping import FieldMapping
from ontodex.serve.database.tables import get_time
from ontodex.serve.http.json_route import BoundedRoute
from ontodex.serve.http.problems import MAX_ERRORS, Problem
from ontodex.serve.requests import Name
from ontodex.serve.responses import UploadResponse
from ontodex.serve.service import ServiceDep, get_user
from ontodex.serve.uploads import match_labels, read_uploads

router = APIRouter(prefix="/documents", route_class=BoundedRoute, tags=["documents"])


@router.post("/upload", status_code=201, response_model=UploadResponse)
async def upload(
    files: list[UploadFile],
    service: ServiceDep,
    request: Request,
    batch: Annotated[Name | None, Form()] = None,
    run: Annotated[Name | None, Form()] = None,
    text_field: Annotated[list[Name] | None, Form()] = None,
    label_field: Annotated[Name | None, Form()] = None,
    id_field: Annotated[Name | None, Form()] = None,
    label_separator: Annotated[Name | None, Form()] = None,
) -> Any:
    """Add files to the queue. A text, HTML, PDF or DOCX file is one document, others are many.

    Labels of documents are matched to concepts of the run, and become imported decisions.
    """
    view = service.find_run(run)
    mapping = FieldMapping.of(text_field, label_field, id_field, label_separator)
    recorded = FieldMapping.of(**view.metadata.about.get("fields", {}))
    found = await read_uploads(
        files, service.extraction_slots, mapping, recorded, view.list_warnings
    )
    if not found.docs:
        errors = [{"location": one["file"], "message": one["reason"]} for one in found.rejected]
        raise Problem(422, "no file could be read", errors=errors[:MAX_ERRORS])
    docs, report = await asyncio.to_thread(match_labels, found.docs, view.concepts)
    batch = batch or get_time()
    project = await asyncio.to_thread(service.get_project, view)
    numbers = await asyncio.to_thread(
        service.database.add_documents,
        docs,
        batch=batch,
        user=get_user(request).name,
        run=view.name,
        project=project,
    )
    return {
        "batch": batch,
        "n_added": len(numbers),
        "numbers": numbers,
        "rejected_files": found.rejected,
        "warnings": found.warnings,
        "labels": report.to_dict(),
    }
