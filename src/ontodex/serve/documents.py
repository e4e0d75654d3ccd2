"""/documents: the queue of what is to be indexed; and /export of what was decided."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Path, Query, Request, UploadFile
from fastapi.responses import StreamingResponse

from ontodex.serve import export as exports
from ontodex.serve.answers import (
    AddedAnswer,
    DocumentsAnswer,
    ExplanationAnswer,
    JudgedDocument,
    NextAnswer,
    QueuedSuggestAnswer,
    UploadAnswer,
    WholeDocument,
)
from ontodex.serve.bodies import AddDocuments, After, ExplainQueued, Name, Number, SetState, Wanted
from ontodex.serve.database import Row, doc_of, now
from ontodex.serve.problems import Problem
from ontodex.serve.service import TheService, who_of
from ontodex.serve.suggest import ask_of, explanation
from ontodex.serve.upload import read_uploads
from ontodex.serve.verdicts import shown

router = APIRouter(tags=["documents"])
BEGINNING, LONG_TITLE = 120, 300  # characters in lists

TheNumber = Annotated[Number, Path()]
InBatch = Annotated[Name | None, Query()]
AfterNumber = Annotated[After, Query()]


def _head(row: Row) -> dict[str, Any]:
    head = {key: row[key] for key in ("number", "id", "batch", "state", "added", "added_by")}
    return {**head, "done": row["done"], "done_by": row["done_by"], "title": _title(row)}


def _title(row: Row) -> str:
    """The document's title; of one without, how its text begins."""
    title = " ".join(row["fields"].get("title", "").split())
    text = " ".join(doc_of(row).text[: 10 * BEGINNING].split())
    return _shortened(title, LONG_TITLE) or _shortened(text, BEGINNING)


def _shortened(text: str, most: int) -> str:
    """At most so many characters, cut between words where there are any."""
    if len(text) <= most:
        return text
    start = text[: most - 2]
    return (start.rpartition(" ")[0] if " " in start[most // 2 :] else start) + " …"


def _whole(row: Row) -> dict[str, Any]:
    return {**row, "text": doc_of(row).text}


@router.post("/documents", status_code=201, response_model=AddedAnswer)
def add(body: AddDocuments, service: TheService, request: Request) -> Any:
    """Put documents at the end of the queue."""
    batch = body.batch or now()
    docs = [document.doc() for document in body.documents]
    numbers = service.database.add_documents(docs, batch=batch, who=who_of(request).name)
    return {"batch": batch, "added": len(numbers), "numbers": numbers}


@router.post("/documents/upload", status_code=201, response_model=UploadAnswer)
async def upload(
    files: list[UploadFile],
    service: TheService,
    request: Request,
    batch: Annotated[Name | None, Form()] = None,
) -> Any:
    """Files into the queue: texts, pages, PDF and DOCX one document each, and whole batches."""
    docs, refused = await read_uploads(files, service.reading)
    if not docs:
        errors = [{"where": item["file"], "message": item["problem"]} for item in refused]
        raise Problem(422, "no file could be read", errors=errors[:20])
    batch = batch or now()
    database, who = service.database, who_of(request).name
    numbers = await asyncio.to_thread(database.add_documents, docs, batch=batch, who=who)
    return {"batch": batch, "added": len(numbers), "numbers": numbers, "refused": refused}


@router.get("/documents", response_model=DocumentsAnswer)
def queue(
    service: TheService,
    state: Annotated[Literal["open", "done"] | None, Query()] = None,
    batch: InBatch = None,
    after: AfterNumber = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Any:
    """The queue by number, and how much of it is done."""
    database = service.database
    rows = database.documents(state=state, batch=batch, after=after, limit=limit)
    heads = [_head(row) for row in rows]
    return {"documents": heads, **database.counts(batch), "batches": database.batches()}


@router.get("/documents/next", response_model=NextAnswer)
def next_open(service: TheService, after: AfterNumber = 0, batch: InBatch = None) -> Any:
    """The next open document, from the start again after the last one."""
    row = service.database.next_document(batch=batch, after=after)
    document = None if row is None else _whole(row)
    return {"document": document, **service.database.counts(batch)}


@router.get("/documents/previous", response_model=NextAnswer)
def previous(
    service: TheService, before: Annotated[Number | None, Query()] = None, batch: InBatch = None
) -> Any:
    """The document before one in the queue, open or done; the last one where none is named."""
    row = service.database.previous_document(batch=batch, before=before)
    document = None if row is None else _whole(row)
    return {"document": document, **service.database.counts(batch)}


@router.get("/documents/{number}", response_model=JudgedDocument)
def one(number: TheNumber, service: TheService) -> Any:
    """A document with the verdicts that count."""
    row = service.database.document(number)
    verdicts = service.database.verdicts([number])[number]
    return {**_whole(row), "verdicts": [shown(service, verdict) for verdict in verdicts]}


@router.put("/documents/{number}/state", response_model=WholeDocument)
def set_state(number: TheNumber, body: SetState, service: TheService, request: Request) -> Any:
    """Put a document aside as done, or take it up again."""
    return _whole(service.database.set_state(number, body.state, who=who_of(request).name))


@router.post("/documents/{number}/suggest", response_model=QueuedSuggestAnswer)
async def suggest(number: TheNumber, body: Wanted, service: TheService) -> Any:
    """Concepts for a document of the queue; the answer is kept, so that decisions can name it."""
    served, database = service.run(body.run), service.database
    ask = ask_of(body)
    served.columns([*ask.include, *ask.exclude])
    row = await asyncio.to_thread(database.document, number)
    kept = await asyncio.to_thread(database.suggestions, number, served.name, served.key)
    if kept is None:
        kept = served.kept(await service.engine.rank(served.name, [doc_of(row)]))
        await asyncio.to_thread(database.keep_suggestions, number, served.name, served.key, kept)
    verdicts = (await asyncio.to_thread(database.verdicts, [number]))[number]
    verdict_of = {verdict["label"]: verdict["verdict"] for verdict in verdicts}
    found = served.suggestions(served.ranked(kept), ask)
    return {
        "run": served.name,
        "number": number,
        "suggestions": [{**s, "verdict": verdict_of.get(s["label"])} for s in found],
    }


@router.post("/documents/{number}/explain", response_model=ExplanationAnswer)
async def explain(number: TheNumber, body: ExplainQueued, service: TheService) -> Any:
    """The pieces of a queued document that speak for a concept."""
    row = await asyncio.to_thread(service.database.document, number)
    return await explanation(service, service.run(body.run), doc_of(row), body.label)


_EXPORTS = {
    kind.partition(";")[0]: {"schema": {"type": "string"}}
    for kind, _, _ in exports.FORMATS.values()
}


@router.get("/export", response_class=StreamingResponse, responses={200: {"content": _EXPORTS}})
def export(
    service: TheService,
    format: Annotated[exports.Format, Query()] = "jsonl",
    state: Annotated[Literal["open", "done", "all"], Query()] = "all",
    batch: InBatch = None,
    run: Annotated[Name | None, Query()] = None,
) -> Any:
    """The documents that have a verdict, with the labels that were accepted or added."""
    served = service.run(run)
    decided = exports.decided(
        service.database, state=None if state == "all" else state, batch=batch
    )
    media_type, ending, write = exports.FORMATS[format]
    name = f"ontodex-{now()[:10]}{ending}"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(write(decided, served), media_type=media_type, headers=headers)
