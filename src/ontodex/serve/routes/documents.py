"""/documents: the queue of documents to index."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response

from ontodex.serve.agreement import compare_pairs
from ontodex.serve.database.tables import Order, QueueFilter, Row, build_doc, get_time
from ontodex.serve.http.json_route import BoundedRoute
from ontodex.serve.prediction.run_view import RunView
from ontodex.serve.requests import (
    AddDocumentsBody,
    After,
    ExplainOptionsBody,
    Name,
    Number,
    PredictBody,
    SearchText,
    StateBody,
    SuggestOptionsBody,
)
from ontodex.serve.responses import (
    AddedDocumentsResponse,
    Document,
    DocumentsResponse,
    DocumentSuggestResponse,
    DocumentWithVerdicts,
    ExplanationResponse,
    NextDocumentResponse,
    PeopleResponse,
    PredictedResponse,
)
from ontodex.serve.routes.decisions import add_name
from ontodex.serve.routes.projects import ProjectQuery
from ontodex.serve.routes.suggest import explain_doc, read_options
from ontodex.serve.service import Service, ServiceDep, get_user
from ontodex.types import Doc
from ontodex.types.answers import PredictionResult

router = APIRouter(prefix="/documents", route_class=BoundedRoute, tags=["documents"])
MAX_TITLE, MAX_BEGINNING = 300, 120  # characters in lists
HEAD = ("number", "id", "batch", "state", "added_at", "added_by", "done_at", "done_by",
        "project")  # fmt: skip

NumberPath = Annotated[Number, Path()]
BatchQuery = Annotated[Name | None, Query()]
AfterQuery = Annotated[After, Query()]
OrderQuery = Annotated[Order, Query()]
RunQuery = Annotated[Name | None, Query()]


@router.post("", status_code=201, response_model=AddedDocumentsResponse)
def add_documents(body: AddDocumentsBody, service: ServiceDep, request: Request) -> Any:
    """Add documents at the end of the queue."""
    batch = body.batch or get_time()
    docs = [document.to_doc() for document in body.documents]
    project = service.find_project(body.project)
    numbers = service.database.add_documents(
        docs, batch=batch, user=get_user(request).name, project=project
    )
    run = next((run for run in service.runs.values() if service.get_project(run) == project), None)
    warnings = [] if run is None else run.list_warnings(docs)
    return {"batch": batch, "n_added": len(numbers), "numbers": numbers, "warnings": warnings}


@router.get("", response_model=DocumentsResponse)
def list_documents(
    service: ServiceDep,
    state: Annotated[Literal["open", "done"] | None, Query()] = None,
    batch: BatchQuery = None,
    project: ProjectQuery = None,
    q: Annotated[SearchText, Query()] = "",
    order: OrderQuery = "number",
    run: RunQuery = None,
    after: AfterQuery = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Any:
    """List the queue, with the counts of open and done documents.

    The order is that of the numbers or, with `order=uncertainty`, that of falling expected
    corrections by the run, of the documents that it has predicted.
    """
    database, project = service.database, _find_project(service, project, run)
    where = QueueFilter(state, batch, project, q.strip())
    rows = _list_rows(service, where, order, run, after=after, limit=limit, only_heads=True)
    batches = database.queue.list_batches(project)
    found = database.queue.count(where) if where.text else None
    return {
        "documents": [_summarize(row) for row in rows],
        **database.queue.count(QueueFilter(batch=batch, project=project)),
        "n_found": None if found is None else found["n_open"] + found["n_done"],
        "batches": [each["batch"] for each in batches],
        "batch_counts": batches,
        "n_quarantined": database.quarantine.count_documents(),
    }


def _find_project(service: Service, project: int | None, run: str | None) -> int:
    """Return the project asked for: by its id, else by a run, else that of the first run."""
    if project is None and run is not None:
        return service.get_project(service.find_run(run))
    return service.find_project(project)


def _list_rows(
    service: Service,
    where: QueueFilter,
    order: Order,
    run: str | None,
    *,
    after: int,
    limit: int,
    only_heads: bool = False,
) -> list[Row]:
    if order == "number":
        return service.database.queue.list_by_number(
            where, after=after, limit=limit, only_heads=only_heads
        )
    view = service.find_run(run)
    return service.database.queue.list_uncertain(
        where, view.name, view.state_key, after=after, limit=limit, only_heads=only_heads
    )


@router.get("/next", response_model=NextDocumentResponse)
def get_next(
    service: ServiceDep,
    after: AfterQuery = 0,
    batch: BatchQuery = None,
    project: ProjectQuery = None,
    order: OrderQuery = "number",
    run: RunQuery = None,
) -> Any:
    """Return the next open document; after the last one, the first open one."""
    where = QueueFilter("open", batch, _find_project(service, project, run))
    rows: list[Row] = []
    for start in dict.fromkeys((after, 0)):
        rows = rows or _list_rows(service, where, order, run, after=start, limit=1)
    return _answer_one(service, rows[0] if rows else None, where)


@router.get("/previous", response_model=NextDocumentResponse)
def get_previous(
    service: ServiceDep,
    before: Annotated[Number | None, Query()] = None,
    batch: BatchQuery = None,
    project: ProjectQuery = None,
) -> Any:
    """Return the document before a number, open or done; without a number the last one."""
    where = QueueFilter(None, batch, service.find_project(project))
    return _answer_one(service, service.database.queue.get_previous(where, before=before), where)


def _answer_one(service: Service, row: Row | None, where: QueueFilter) -> dict[str, Any]:
    """Return a document of the queue with the counts of its batch and project."""
    counts = service.database.queue.count(replace(where, state=None))
    return {"document": None if row is None else _add_text(row), **counts}


@router.post("/predict", response_model=PredictedResponse)
async def predict(body: PredictBody, service: ServiceDep) -> Any:
    """Predict open documents ahead of time, for the order by uncertainty. Call it until none is
    left."""
    run, database = service.find_run(body.run), service.database
    project = await asyncio.to_thread(service.get_project, run)
    where = QueueFilter("open", body.batch, project)
    rows, total = await asyncio.to_thread(
        database.queue.list_unpredicted, where, run.name, run.state_key, limit=body.limit
    )
    if rows:
        result = await service.batcher.predict(run.ranker_key, [build_doc(row) for row in rows])
        for at, row in enumerate(rows):
            await _store(service, run, row["number"], result.take(at))
    return {"run": run.name, "n_predicted": len(rows), "n_left": total - len(rows)}


@router.get("/{number}", response_model=DocumentWithVerdicts)
def get_document(number: NumberPath, service: ServiceDep) -> Any:
    """Return a document with its valid decisions."""
    row = service.database.get_document(number)
    verdicts = service.database.find_verdicts([number])[number]
    return {**_add_text(row), "verdicts": [add_name(service, verdict) for verdict in verdicts]}


@router.delete("/{number}", status_code=204)
def delete_document(number: NumberPath, service: ServiceDep, request: Request) -> Response:
    """Take a document out of the queue. PUT /documents/{number}/state restores it."""
    service.database.delete_document(number, user=get_user(request).name)
    return Response(status_code=204)


@router.get("/{number}/people", response_model=PeopleResponse)
def get_people(number: NumberPath, service: ServiceDep) -> Any:
    """Return each person's own decisions about a document, and how well each two agree."""
    service.database.get_document(number)
    people = service.database.find_verdicts_of_people(document=number).get(number, {})
    return {
        "people": [
            {"user": user, "verdicts": [add_name(service, row) for row in own.values()]}
            for user, own in sorted(people.items())
        ],
        "pairs": compare_pairs({number: people}),
    }


@router.put("/{number}/state", response_model=Document)
def set_state(number: NumberPath, body: StateBody, service: ServiceDep, request: Request) -> Any:
    """Mark a document as done, or as open again."""
    row = service.database.set_state(number, body.state, user=get_user(request).name)
    return _add_text(row)


@router.post("/{number}/suggest", response_model=DocumentSuggestResponse)
async def suggest(number: NumberPath, body: SuggestOptionsBody, service: ServiceDep) -> Any:
    """Suggest concepts for a document of the queue. The prediction is stored with it."""
    run = await asyncio.to_thread(service.find_run_of, number, body.run)
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
        "warnings": run.list_warnings([doc]),
        "foreign_language": run.find_foreign_language(doc),
    }


async def _predict_once(service: Service, run: RunView, number: int, doc: Doc) -> PredictionResult:
    """Return the stored prediction of the run in its present state, or predict and store it."""
    database, state_key = service.database, run.state_key
    stored = await asyncio.to_thread(database.get_suggestions, number, run.name, state_key)
    if stored is not None and (result := run.decode_result(stored)) is not None:
        return result
    result = await service.batcher.predict(run.ranker_key, [doc])
    await _store(service, run, number, result)
    return result


async def _store(service: Service, run: RunView, number: int, result: PredictionResult) -> None:
    """Store the prediction for one document, with the corrections that it may need."""
    await asyncio.to_thread(
        service.database.store_suggestions,
        number,
        run.name,
        run.state_key,
        run.encode_result(result),
        run.count_corrections(result),
    )


@router.post("/{number}/explain", response_model=ExplanationResponse)
async def explain(number: NumberPath, body: ExplainOptionsBody, service: ServiceDep) -> Any:
    """Return the pieces of a queued document that support a concept."""
    row = await asyncio.to_thread(service.database.get_document, number)
    run = await asyncio.to_thread(service.find_run_of, number, body.run)
    return await explain_doc(service, run, build_doc(row), body)


def _summarize(row: Row) -> dict[str, Any]:
    """Return a document as it appears in lists."""
    head = {key: row[key] for key in HEAD}
    return {**head, "title": _make_title(row), "corrections": row.get("corrections")}


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
