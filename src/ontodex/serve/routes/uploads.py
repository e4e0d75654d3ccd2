"""POST /documents/upload: files into the queue."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, UploadFile

from ontodex.serve.database_tables import get_time
from ontodex.serve.json_route import BoundedRoute
from ontodex.serve.problems import MAX_ERRORS, Problem
from ontodex.serve.requests import Name
from ontodex.serve.responses import UploadResponse
from ontodex.serve.service import ServiceDep, get_user
from ontodex.serve.uploads import list_warnings, read_uploads

router = APIRouter(prefix="/documents", route_class=BoundedRoute, tags=["documents"])


@router.post("/upload", status_code=201, response_model=UploadResponse)
async def upload(
    files: list[UploadFile],
    service: ServiceDep,
    request: Request,
    batch: Annotated[Name | None, Form()] = None,
    run: Annotated[Name | None, Form()] = None,
) -> Any:
    """Add files to the queue. A text, HTML, PDF or DOCX file is one document, others are many."""
    docs, rejected = await read_uploads(files, service.extraction_slots)
    if not docs:
        errors = [{"location": one["file"], "message": one["reason"]} for one in rejected]
        raise Problem(422, "no file could be read", errors=errors[:MAX_ERRORS])
    batch = batch or get_time()
    database, user = service.database, get_user(request).name
    project = service.get_project(service.find_run(run))
    numbers = await asyncio.to_thread(
        database.add_documents, docs, batch=batch, user=user, project=project
    )
    return {
        "batch": batch,
        "n_added": len(numbers),
        "numbers": numbers,
        "rejected_files": rejected,
        "warnings": list_warnings(docs),
    }
