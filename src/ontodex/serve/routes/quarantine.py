"""GET /quarantine: the stored rows that cannot be shown."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from ontodex.serve.http.json_route import BoundedRoute
from ontodex.serve.requests import After
from ontodex.serve.responses import QuarantineResponse
from ontodex.serve.service import ServiceDep

router = APIRouter(route_class=BoundedRoute, tags=["documents"])


@router.get("/quarantine", response_model=QuarantineResponse)
def list_quarantine(
    service: ServiceDep,
    after: Annotated[After, Query()] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Any:
    """List documents that were set aside and decisions that are left out, with the reasons."""
    quarantine = service.database.quarantine
    decisions = sorted(quarantine.decisions.items())
    return {
        "n_documents": quarantine.count_documents(),
        "documents": quarantine.list_documents(after=after, limit=limit),
        "decisions": [{"id": id_, "reason": reason} for id_, reason in decisions],
    }
