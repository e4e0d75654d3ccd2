"""/decisions: accept, reject, add, undo, and the log of decisions."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from ontodex.serve.database.tables import NewDecision, Row
from ontodex.serve.http.json_route import BoundedRoute
from ontodex.serve.http.problems import make_not_found
from ontodex.serve.requests import After, DecisionsBody, Name, Number
from ontodex.serve.responses import DecisionResponse, DecisionsResponse
from ontodex.serve.service import Service, ServiceDep, get_user

router = APIRouter(prefix="/decisions", route_class=BoundedRoute, tags=["decisions"])


def add_name(service: Service, row: Row) -> dict[str, Any]:
    """Return a decision with name and notation of its concept, from its run or any that has it."""
    own = service.runs.get(row["run"] or "")
    candidates = [own] if own is not None else []
    candidates += service.runs.values()
    label = row["label"]
    run = next((one for one in candidates if one.concepts.has(label)), candidates[-1])
    return {**row, **run.concepts.get_ref(label)}


@router.post("", status_code=201, response_model=DecisionsResponse)
def decide(body: DecisionsBody, service: ServiceDep, request: Request) -> Any:
    """Write decisions, all or none; they are on the disk when the answer is sent."""
    new = []
    for decision in body.decisions:
        run = service.find_run_of(decision.document, decision.run)
        if not run.concepts.has(decision.label):
            raise make_not_found("concept", decision.label)
        new.append(NewDecision(**decision.model_dump()))
    rows = service.database.write_decisions(new, user=get_user(request).name)
    return {"decisions": [add_name(service, row) for row in rows]}


@router.get("", response_model=DecisionsResponse)
def list_decisions(
    service: ServiceDep,
    document: Annotated[Number | None, Query()] = None,
    user: Annotated[Name | None, Query()] = None,
    after: Annotated[After, Query()] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Any:
    """List the log of decisions by id, undone ones included."""
    rows = service.database.list_decisions(document=document, user=user, after=after, limit=limit)
    return {"decisions": [add_name(service, row) for row in rows]}


@router.post("/{id}/undo", response_model=DecisionResponse)
def undo(id: Annotated[Number, Path()], service: ServiceDep, request: Request) -> Any:
    """Undo a decision; the decision that it had replaced is valid again."""
    return add_name(service, service.database.undo_decision(id, user=get_user(request).name))
