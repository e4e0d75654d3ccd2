"""/reconcile: the reconciliation API of OpenRefine, version 0.2. A run's ontology is a service."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Form, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ontodex import __version__
from ontodex.errors import DataError
from ontodex.serve import reconciliation
from ontodex.serve.http.json_limits import parse_body
from ontodex.serve.http.json_route import BoundedRoute
from ontodex.serve.http.problems import Problem, make_not_found
from ontodex.serve.prediction.concept_view import ConceptView
from ontodex.serve.requests import Label, Name, SearchText, Text
from ontodex.serve.service import ServiceDep

router = APIRouter(prefix="/reconcile/{run}", route_class=BoundedRoute, tags=["openrefine"])
T = TypeVar("T")

MAX_QUERIES = 200  # of one request; OpenRefine sends ten
MAX_EXTENDED = 1000  # concepts of one request
PREVIEW_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors {}"

RunName = Annotated[Name, Path()]
JsonText = Annotated[Text | None, Query()]
JsonForm = Annotated[Text | None, Form()]
Limit = Annotated[int, Query(ge=1, le=100)]
PropertyValue = Text | float | bool | dict[str, Any]


class Property(BaseModel):
    """The value of another cell of the row."""

    pid: Text
    v: PropertyValue | list[PropertyValue]

    def list_pairs(self) -> list[tuple[str, str]]:
        values = self.v if isinstance(self.v, list) else [self.v]
        return [(self.pid, str(v.get("id", "")) if isinstance(v, dict) else str(v)) for v in values]


class ReconciliationQuery(BaseModel):
    """A cell to reconcile. Other fields of the protocol are ignored."""

    query: Text = ""
    limit: int = Field(5, ge=1, le=100)
    type: list[Text] | Text | None = None
    properties: list[Property] = Field(default_factory=list, max_length=20)

    @property
    def has_our_type(self) -> bool:
        """True where concepts are wanted; without a type they are."""
        types = [self.type] if isinstance(self.type, str) else self.type or []
        return not types or reconciliation.CONCEPT["id"] in types


class ExtendedProperty(BaseModel):
    id: Text


class ExtendQuery(BaseModel):
    ids: list[Label] = Field(max_length=MAX_EXTENDED)
    properties: list[ExtendedProperty] = Field(max_length=20)


class OpenAnswer(BaseModel):
    """An answer in the terms of the protocol."""

    model_config = ConfigDict(extra="allow")


_QUERIES: TypeAdapter[dict[str, ReconciliationQuery]] = TypeAdapter(
    Annotated[dict[str, ReconciliationQuery], Field(max_length=MAX_QUERIES)]
)
_EXTEND = TypeAdapter(ExtendQuery)


@router.get("", response_model=OpenAnswer)
def get_manifest(
    run: RunName,
    request: Request,
    service: ServiceDep,
    queries: JsonText = None,
    extend: JsonText = None,
) -> Any:
    """Describe the reconciliation service, or answer `queries` or `extend` (JSON)."""
    view = service.find_run(run)
    if queries is not None or extend is not None:
        return _answer(view.concepts, queries, extend)
    address = f"{request.base_url}reconcile/{view.name}"
    return reconciliation.describe_service(view.name, view.concepts, address, __version__)


@router.post("", response_model=OpenAnswer)
def reconcile(
    run: RunName, service: ServiceDep, queries: JsonForm = None, extend: JsonForm = None
) -> Any:
    """Answer `queries` or `extend`, a field of a form with JSON in it."""
    return _answer(service.find_run(run).concepts, queries, extend)


def _answer(concepts: ConceptView, queries: str | None, extend: str | None) -> Any:
    if queries is not None:
        return {
            key: {"result": _find(concepts, one)} for key, one in _read(queries, _QUERIES).items()
        }
    if extend is not None:
        wanted = _read(extend, _EXTEND)
        properties = [one.id for one in wanted.properties]
        return reconciliation.extend_rows(concepts, wanted.ids, properties)
    raise Problem(422, "the form has neither queries nor extend")


def _find(concepts: ConceptView, query: ReconciliationQuery) -> list[Any]:
    if not query.has_our_type:
        return []
    wanted = [pair for one in query.properties for pair in one.list_pairs()]
    text = query.query or next((value for _, value in wanted), "")
    return reconciliation.find_candidates(concepts, text, query.limit, wanted)


def _read(text: str, kind: TypeAdapter[T]) -> T:
    """Return JSON of a form, within the limits of all JSON."""
    try:
        return kind.validate_python(parse_body(text.encode()))
    except json.JSONDecodeError as error:
        raise Problem(400, f"the field is not JSON ({error.msg})") from error
    except DataError as error:
        raise Problem(422, f"the field is beyond the limits: {error}") from error
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from error


@router.get("/suggest/{kind}", response_model=OpenAnswer)
def suggest(
    run: RunName,
    kind: Literal["entity", "type", "property"],
    service: ServiceDep,
    prefix: Annotated[SearchText, Query()] = "",
    limit: Limit = 10,
) -> Any:
    """Complete what a user types: a concept, a type or a property."""
    concepts = service.find_run(run).concepts
    if kind == "entity":
        return {"result": reconciliation.suggest_entities(concepts, prefix, limit)}
    known = [reconciliation.CONCEPT] if kind == "type" else reconciliation.list_properties()
    typed = prefix.casefold()
    return {"result": [one for one in known if one["name"].casefold().startswith(typed)][:limit]}


@router.get("/properties", response_model=OpenAnswer)
def propose_properties(
    run: RunName,
    service: ServiceDep,
    type: Annotated[Text, Query()] = reconciliation.CONCEPT["id"],
    limit: Limit = 100,
) -> Any:
    """List the properties by which a column of concepts can be extended."""
    service.find_run(run)
    return {"type": type, "properties": reconciliation.list_properties()[:limit]}


@router.get("/preview", response_class=HTMLResponse)
def preview(run: RunName, service: ServiceDep, id: Annotated[Label, Query()]) -> Any:
    """Show a concept in a small page, which an allowed origin may frame."""
    concepts = service.find_run(run).concepts
    if not concepts.has(id):
        raise make_not_found("concept", id)
    ancestors = " ".join(service.config.allowed_origins) or "'none'"
    headers = {"content-security-policy": PREVIEW_POLICY.format(ancestors)}
    return HTMLResponse(reconciliation.render_preview(concepts, id), headers=headers)
