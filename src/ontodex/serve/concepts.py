"""/ontology: roots, children, one concept, its paths, search."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from ontodex.serve.answers import (
    ChildrenAnswer,
    ConceptDetails,
    OntologyAnswer,
    PathsAnswer,
    SearchAnswer,
)
from ontodex.serve.bodies import Label, Language, Name, Offset, Text
from ontodex.serve.problems import not_found
from ontodex.serve.served import Served
from ontodex.serve.service import Service, TheService

router = APIRouter(prefix="/ontology", tags=["ontology"])

Run = Annotated[Name | None, Query()]
Tongue = Annotated[Language | None, Query()]
Page = Annotated[int, Query(ge=1, le=1000)]


def _concept(service: Service, run: str | None, label: str) -> Served:
    """The run, which must know this concept."""
    served = service.run(run)
    if not served.knows(label):
        raise not_found("concept", label)
    return served


@router.get("", response_model=OntologyAnswer)
def roots(
    service: TheService,
    run: Run = None,
    language: Tongue = None,
    offset: Annotated[Offset, Query()] = 0,
    limit: Page = 200,
) -> Any:
    """The top of the ontology."""
    served = service.run(run)
    return {
        "run": served.name,
        "concepts": len(served.ontology),
        "languages": served.languages,
        "total": len(served.roots),
        "roots": [served.concept(root, language) for root in served.roots[offset : offset + limit]],
    }


@router.get("/children", response_model=ChildrenAnswer)
def children(
    service: TheService,
    label: Annotated[Label, Query()],
    run: Run = None,
    language: Tongue = None,
    offset: Annotated[Offset, Query()] = 0,
    limit: Page = 200,
) -> Any:
    """The concepts directly below one, by name."""
    served = _concept(service, run, label)
    below = served.ontology.children_of(label) if label in served.ontology else []
    page = served.by_name(below, language)[offset : offset + limit]
    return {
        "label": label,
        "total": len(below),
        "children": [served.concept(child, language) for child in page],
    }


@router.get("/concept", response_model=ConceptDetails)
def concept(
    service: TheService,
    label: Annotated[Label, Query()],
    run: Run = None,
    language: Tongue = None,
) -> Any:
    """All that the ontology says about one concept."""
    return _concept(service, run, label).details(label, language)


@router.get("/paths", response_model=PathsAnswer)
def paths(
    service: TheService,
    label: Annotated[Label, Query()],
    run: Run = None,
    language: Tongue = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> Any:
    """The ways from a root down to a concept."""
    served = _concept(service, run, label)
    known = label in served.ontology
    return {"label": label, "paths": served.paths(label, limit, language) if known else []}


@router.get("/search", response_model=SearchAnswer)
def search(
    service: TheService,
    q: Annotated[Text, Query(max_length=200)],
    run: Run = None,
    language: Tongue = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> Any:
    """Concepts by name or synonym: whole, begun, some words of it, or mistyped."""
    return {"hits": service.run(run).search(q, limit, language)}
