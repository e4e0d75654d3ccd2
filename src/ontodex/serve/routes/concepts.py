"""GET /ontology: roots, children, one concept, its paths, and search."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from ontodex.serve.http.json_route import BoundedRoute
from ontodex.serve.http.problems import make_not_found
from ontodex.serve.prediction.concept_view import ConceptView
from ontodex.serve.requests import Label, Language, Name, Offset, SearchText
from ontodex.serve.responses import (
    ChildrenResponse,
    ConceptDetails,
    OntologyResponse,
    PathsResponse,
    SearchResponse,
)
from ontodex.serve.service import Service, ServiceDep

router = APIRouter(prefix="/ontology", route_class=BoundedRoute, tags=["ontology"])

RunQuery = Annotated[Name | None, Query()]
LanguageQuery = Annotated[Language | None, Query()]
LimitQuery = Annotated[int, Query(ge=1, le=1000)]


def _find_concepts(service: Service, run: str | None, label: str) -> ConceptView:
    """Return the concepts of a run; raise a 404 problem if the label is not among them."""
    concepts = service.find_run(run).concepts
    if not concepts.has(label):
        raise make_not_found("concept", label)
    return concepts


@router.get("", response_model=OntologyResponse)
def list_roots(
    service: ServiceDep,
    run: RunQuery = None,
    language: LanguageQuery = None,
    offset: Annotated[Offset, Query()] = 0,
    limit: LimitQuery = 200,
) -> Any:
    """List the roots of the ontology."""
    view = service.find_run(run)
    concepts = view.concepts
    roots = concepts.roots[offset : offset + limit]
    return {
        "run": view.name,
        "n_concepts": len(concepts.ontology),
        "languages": concepts.languages,
        "schemes": concepts.schemes,
        "types": concepts.types,
        "total": len(concepts.roots),
        "roots": [concepts.get_concept(root, language) for root in roots],
    }


@router.get("/children", response_model=ChildrenResponse)
def list_children(
    service: ServiceDep,
    label: Annotated[Label, Query()],
    run: RunQuery = None,
    language: LanguageQuery = None,
    offset: Annotated[Offset, Query()] = 0,
    limit: LimitQuery = 200,
) -> Any:
    """List the concepts directly below one, by name."""
    concepts = _find_concepts(service, run, label)
    children = concepts.get_children(label, language)
    return {
        "label": label,
        "total": len(children),
        "children": [
            concepts.get_concept(child, language) for child in children[offset : offset + limit]
        ],
    }


@router.get("/concept", response_model=ConceptDetails)
def get_concept(
    service: ServiceDep,
    label: Annotated[Label, Query()],
    run: RunQuery = None,
    language: LanguageQuery = None,
) -> Any:
    """Return everything that the ontology has about one concept."""
    return _find_concepts(service, run, label).get_details(label, language)


@router.get("/paths", response_model=PathsResponse)
def list_paths(
    service: ServiceDep,
    label: Annotated[Label, Query()],
    run: RunQuery = None,
    language: LanguageQuery = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> Any:
    """List the paths from a root to a concept."""
    concepts = _find_concepts(service, run, label)
    return {"label": label, "paths": concepts.get_paths(label, limit, language)}


@router.get("/search", response_model=SearchResponse)
def search(
    service: ServiceDep,
    q: Annotated[SearchText, Query()],
    run: RunQuery = None,
    language: LanguageQuery = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> Any:
    """Find concepts by name, synonym or notation: complete, by prefix, by words, or misspelled."""
    return {"hits": service.find_run(run).concepts.search(q, limit, language)}
