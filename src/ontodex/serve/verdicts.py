"""/decisions: accept, reject, add, undo, and the log of it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from ontodex.serve.answers import DecisionAnswer, DecisionsAnswer
from ontodex.serve.bodies import After, Decide, Name, Number
from ontodex.serve.database import Judgement, Row
from ontodex.serve.problems import not_found
from ontodex.serve.service import Service, TheService, who_of

router = APIRouter(prefix="/decisions", tags=["decisions"])


def shown(service: Service, row: Row) -> dict[str, Any]:
    """A decision with its concept's name, from its run or from any that has it."""
    own = service.runs.get(row["run"] or "")
    candidates = [own] if own is not None else []
    candidates += service.runs.values()
    label = row["label"]
    served = next((run for run in candidates if run.knows(label)), candidates[-1])
    return {**row, "name": served.name_of(label)}


@router.post("", status_code=201, response_model=DecisionsAnswer)
def decide(body: Decide, service: TheService, request: Request) -> Any:
    """Write decisions, all or none; they are on the disk when the answer comes."""
    judgements = []
    for wanted in body.decisions:
        runs = [service.run(wanted.run)] if wanted.run else list(service.runs.values())
        if not any(run.knows(wanted.label) for run in runs):
            raise not_found("concept", wanted.label)
        judgements.append(Judgement(**wanted.model_dump()))
    written = service.database.decide(judgements, who=who_of(request).name)
    return {"decisions": [shown(service, row) for row in written]}


@router.get("", response_model=DecisionsAnswer)
def log(
    service: TheService,
    document: Annotated[Number | None, Query()] = None,
    who: Annotated[Name | None, Query()] = None,
    after: Annotated[After, Query()] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Any:
    """The log of decisions by id, undone ones included."""
    rows = service.database.decisions(document=document, who=who, after=after, limit=limit)
    return {"decisions": [shown(service, row) for row in rows]}


@router.post("/{id}/undo", response_model=DecisionAnswer)
def undo(id: Annotated[Number, Path()], service: TheService, request: Request) -> Any:
    """Take a decision back; what it had replaced counts again."""
    return shown(service, service.database.undo(id, who=who_of(request).name))
