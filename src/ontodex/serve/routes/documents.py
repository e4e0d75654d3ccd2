"""/documents: the queue of documents to index."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request

from ontodex.serve.database_tables import Row, build_doc, get_time
from ontodex.serve.json_route import BoundedRoute
from ontodex.serve.requests import (
    AddDocumentsBody,
    After,
    ExplainOptionsBody,
    Name,
    Number,
    StateBody,
    SuggestOptionsBody,
)
from ontodex.serve.responses import (
    AddedResponse,
    Document,
    DocumentsResponse,
    DocumentSuggestResponse,
    DocumentWithVerdicts,
    ExplanationResponse,
    NextDocumentResponse,
)
from ontodex.serve.routes.decisions import add_name
from ontodex.serve.routes.suggest import explain_doc, read_options
from ontodex.serve.run_view import RunView
from ontodex.serve.service import Service, ServiceDep, get_user
from ontodex.types import Doc
from ontodex.types.answers import PredictionResult

router = APIRouter(prefix="/documents", route_class=BoundedRoute, tags=["documents"])
MAX_TITLE, MAX_BEGINNING = 300, 120  # characters in lists
HEAD = ("number", "id", "batch", "state", "added_at", "added_by", "done_at", "done_by")

NumberPath = Annotated[Number, Path()]
BatchQuery = Annotated[Name | None, Query()]
AfterQuery = Annotated[After, Query()]


@router.post("", status_code=201, response_model=AddedResponse)
def add_documents(body: AddDocumentsBody, service: ServiceDep, request: Request) -> Any:
    """Add documents at the end of the queue."""
    batch = body.batch or get_time()
    docs = [document.to_doc() for document in body.documents]
    numbers = service.database.add_documents(docs, batch=batch, user=get_user(request).name)
    return {"batch": batch, "n_added": len(numbers), "numbers": numbers}


@router.get("", response_model=DocumentsResponse)
def list_documents(
    service: ServiceDep,
    state: Annotated[Literal["open", "done"] | None, Query()] = None,
    batch: BatchQuery = None,
    after: AfterQuery = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Any:
    """List the queue by number, with the counts of open and done documents."""
    database = service.database
    rows = database.list_documents(state=state, batch=batch, after=after, limit=limit)
    return {
        "documents": [_summarize(row) for row in rows],
        **database.count_documents(batch),
        "batches": database.list_batches(),
        "n_quarantined": database.quarantine.n_documents,
    }


@router.get("/next", response_model=NextDocumentResponse)
def get_next(service: ServiceDep, after: AfterQuery = 0, batch: BatchQuery = None) -> Any:
    """Return the next open document; after the last one, the first open one."""
    row = service.database.get_next_document(batch=batch, after=after)
    return {"document": _add_text_or_none(row), **service.database.count_documents(batch)}


@router.get("/previous", response_model=NextDocumentResponse)
def get_previous(
    service: ServiceDep, before: Annotated[Number | None, Query()] = None, batch: BatchQuery = None
) -> Any:
    """Return the document before one in the queue, open or done; without `before` the last one."""
    row = service.database.get_previous_document(batch=batch, before=before)
    return {"document": _add_text_or_none(row), **service.database.count_documents(batch)}


@router.get("/{number}", response_model=DocumentWithVerdicts)
def get_document(number: NumberPath, service: ServiceDep) -> Any:
    """Return a document with its valid decisions."""
    row = service.database.get_document(number)
    verdicts = service.database.find_verdicts([number])[number]
    return {**_add_text(row), "verdicts": [add_name(service, verdict) for verdict in verdicts]}


@router.put("/{number}/state", response_model=Document)
def set_state(number: NumberPath, body: StateBody, service: ServiceDep, request: Request) -> Any:
    """Mark a document as done, or as open again."""
    row = service.database.set_state(number, body.state, user=get_user(request).name)
    return _add_text(row)


@router.post("/{number}/suggest", response_model=DocumentSuggestResponse)
async def suggest(number: NumberPath, body: SuggestOptionsBody, service: ServiceDep) -> Any:
    """Suggest concepts for a document of the queue. The prediction is stored with it."""
    run = service.find_run(body.run)
    options = read_options(body, run)
    doc = build_doc(await asyncio.to_thread(service.database.get_document, number))
    result = await _predict_once(service, run, number, doc)
    verdicts = (await asyncio.to_thread(service.database.find_verdicts, [number]))[number]
    verdict_of = {row["label"]: row["verdict"] for row in verdicts}
    return {
        "run": run.name,
        "number": number,
        "suggestions": [
            {**suggestion, "verdict": verdict_of.get(suggestion["label"])}
            for suggestion in run.build_suggestions(result, options)
        ],
        "warnings": run.list_warnings(doc),
    }


async def _predict_once(service: Service, run: RunView, number: int, doc: Doc) -> PredictionResult:
    """Return the stored prediction of the run in its present state, or predict and store it."""
    database, state_key = service.database, run.state_key
    stored = await asyncio.to_thread(database.get_suggestions, number, run.name, state_key)
    if stored is not None and (result := run.decode_result(stored)) is not None:
        return result
    result = await service.batcher.predict(run.ranker_key, [doc])
    stored = run.encode_result(result)
    await asyncio.to_thread(database.store_suggestions, number, run.name, state_key, stored)
    return result


@router.post("/{number}/explain", response_model=ExplanationResponse)
async def explain(number: NumberPath, body: ExplainOptionsBody, service: ServiceDep) -> Any:
    """Return the pieces of a queued document that support a concept."""
    row = await asyncio.to_thread(service.database.get_document, number)
    return await explain_doc(service, body, build_doc(row))


def _summarize(row: Row) -> dict[str, Any]:
    """Return a document as it appears in lists."""
    return {**{key: row[key] for key in HEAD}, "title": _make_title(row)}


def _make_title(row: Row) -> str:
    """Return the title of a document or, without one, the beginning of its text."""
    title = " ".join(row["fields"].get("title", "").split())
    text = " ".join(build_doc(row).text[: 10 * MAX_BEGINNING].split())
    return _shorten(title, MAX_TITLE) or _shorten(text, MAX_BEGINNING)


def _shorten(text: str, max_length: int) -> str:
    """Return at most `max_length` characters, cut between words where possible."""
    if len(text) <= max_length:
        return text
    start = text[: max_length - 2]
    return (start.rpartition(" ")[0] if " " in start[max_length // 2 :] else start) + " …"


def _add_text(row: Row) -> dict[str, Any]:
    return {**row, "text": build_doc(row).text}


def _add_text_or_none(row: Row | None) -> dict[str, Any] | None:
    return None if row is None else _add_text(row)
