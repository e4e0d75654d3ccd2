"""/v1: the REST API of Annif, so that its clients work with this service. A run is a project.

A score is a probability. A `limit` above RANKS means RANKS, as Annif's backends limit theirs.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from ontodex import __version__
from ontodex.errors import require
from ontodex.runs.run import RANKS
from ontodex.serve.http.json_route import BoundedRoute
from ontodex.serve.http.problems import Problem
from ontodex.serve.prediction.concept_view import ConceptView, Json
from ontodex.serve.prediction.run_view import RunView, SuggestOptions
from ontodex.serve.requests import DocumentId, Label, Language, Name, Text, validate_metadata
from ontodex.serve.service import ServiceDep, get_user
from ontodex.serve.uploads import keep_unmatched
from ontodex.types import Doc
from ontodex.types.answers import PredictionResult

router = APIRouter(prefix="/v1", route_class=BoundedRoute, tags=["annif"])
MAX_BATCH = 32  # documents of one request
MAX_DETECTED = 20_000  # characters in which a language is looked for
TEXT_FIELDS = ("title", "abstract", "body")

Project = Annotated[Name, Path()]
Limit = Annotated[int, Field(ge=1, le=10_000)]
Threshold = Annotated[float, Field(ge=0, le=1)]
Metadata = Annotated[dict[str, Any], AfterValidator(validate_metadata)]


class AnnifDocument(BaseModel):
    text: Text = ""
    document_id: DocumentId | None = None
    metadata: Metadata = Field(default_factory=dict)

    def to_doc(self, labels: tuple[str, ...] = ()) -> Doc:
        fields = {
            name: self.metadata[name] for name in TEXT_FIELDS if _is_text(self.metadata, name)
        }
        others = {key: value for key, value in self.metadata.items() if key not in fields}
        return Doc(self.document_id or "", {**fields, "text": self.text}, (), labels, others)


def _is_text(metadata: dict[str, Any], name: str) -> bool:
    return isinstance(metadata.get(name), str)


class AnnifBatch(BaseModel):
    documents: list[AnnifDocument] = Field(max_length=MAX_BATCH)


class Subject(BaseModel):
    uri: Label
    label: Text | None = None


class LearnDocument(AnnifDocument):
    subjects: list[Subject] = Field(max_length=1000)

    def to_decided(self, concepts: ConceptView) -> Doc:
        """Return the document with those of its subjects that are concepts."""
        subjects = dict.fromkeys(subject.uri for subject in self.subjects)
        doc = self.to_doc(tuple(one for one in subjects if concepts.has(one)))
        lost = [one for one in subjects if not concepts.has(one)]
        return keep_unmatched(doc, lost)


class DetectLanguage(BaseModel):
    text: Text
    languages: list[Language] = Field(min_length=1, max_length=5)


class AnnifResult(BaseModel):
    uri: str
    label: str
    notation: str | None
    score: float


class AnnifResults(BaseModel):
    results: list[AnnifResult]


class AnnifBatchResult(AnnifResults):
    document_id: str | None


class LanguageScore(BaseModel):
    language: str | None
    score: float


class LanguageScores(BaseModel):
    results: list[LanguageScore]


class Info(BaseModel):
    title: str
    version: str


class Vocab(BaseModel):
    vocab_id: str
    languages: list[str]
    size: int
    loaded: bool


class Vocabs(BaseModel):
    vocabs: list[Vocab]


class Backend(BaseModel):
    backend_id: str


class AnnifProject(BaseModel):
    project_id: str
    name: str
    language: str
    backend: Backend
    vocab: Vocab
    vocab_language: str
    is_trained: bool
    modification_time: str


class Projects(BaseModel):
    projects: list[AnnifProject]


def _describe_vocab(run: RunView) -> Json:
    return {
        "vocab_id": run.name,
        "languages": run.concepts.languages,
        "size": len(run.concepts.ontology),
        "loaded": True,
    }


def _describe_project(run: RunView) -> Json:
    changed = (run.metadata.folder / "manifest.json").stat().st_mtime
    return {
        "project_id": run.name,
        "name": f"{run.metadata.settings.name} ({run.name})",
        "language": run.concepts.ontology.language,
        "backend": {"backend_id": run.metadata.settings.name},
        "vocab": _describe_vocab(run),
        "vocab_language": run.concepts.ontology.language,
        "is_trained": True,
        "modification_time": datetime.fromtimestamp(changed, UTC).isoformat(),
    }


def _build_results(run: RunView, result: PredictionResult, options: SuggestOptions) -> list[Json]:
    notations = run.concepts.ontology.notations
    return [
        {
            "uri": found["label"],
            "label": found["name"],
            "notation": notations.get(found["label"]),
            "score": found["probability"],
        }
        for found in run.build_suggestions(result, options)
        if found["probability"] > 0
    ]


@router.get("", response_model=Info)
@router.get("/", include_in_schema=False)
async def get_info() -> Any:
    """Return the name and version of this service."""
    return {"title": "ontodex", "version": __version__}


@router.get("/vocabs", response_model=Vocabs)
def list_vocabs(service: ServiceDep) -> Any:
    """List the ontologies of the runs."""
    return {"vocabs": [_describe_vocab(run) for run in service.runs.values()]}


@router.get("/projects", response_model=Projects)
def list_projects(service: ServiceDep) -> Any:
    """List the runs."""
    return {"projects": [_describe_project(run) for run in service.runs.values()]}


@router.get("/projects/{project_id}", response_model=AnnifProject)
def get_project(project_id: Project, service: ServiceDep) -> Any:
    """Return one run."""
    return _describe_project(service.find_run(project_id))


_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {
                    "type": "object",
                    "required": ["text"],
                    "properties": {
                        "text": {"type": "string"},
                        "limit": {"type": "integer", "minimum": 1, "default": 10},
                        "threshold": {"type": "number", "minimum": 0, "maximum": 1, "default": 0},
                        "language": {"type": "string", "maxLength": 35},
                    },
                    "additionalProperties": {"type": "string"},
                }
            }
        },
    }
}


class SuggestForm(AnnifDocument):
    text: Text
    limit: Limit = 10
    threshold: Threshold = 0.0
    language: Language | None = None


@router.post("/projects/{project_id}/suggest", response_model=AnnifResults, openapi_extra=_FORM)
async def suggest(project_id: Project, request: Request, service: ServiceDep) -> Any:
    """Suggest concepts for one text, sent as a form."""
    run = service.find_run(project_id)
    form = _validate_form(await _read_form(request))
    options = SuggestOptions(min(form.limit, RANKS), form.threshold, language=form.language or None)
    result = await service.batcher.predict(run.ranker_key, [form.to_doc()])
    return {"results": _build_results(run, result, options)}


async def _read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form. Annif allows any metadata field, so no schema lists them."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise Problem(415, "the body must be a form (application/x-www-form-urlencoded)")
    async with request.form(max_fields=100) as form:
        return {key: value for key, value in form.items() if isinstance(value, str)}


def _validate_form(form: dict[str, str]) -> SuggestForm:
    known = {key: value for key, value in form.items() if key in SuggestForm.model_fields}
    prefix = "metadata_"
    metadata = {k.removeprefix(prefix): v for k, v in form.items() if k.startswith(prefix)}
    try:
        return SuggestForm.model_validate({**known, "metadata": metadata})
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from error


@router.post("/projects/{project_id}/suggest-batch", response_model=list[AnnifBatchResult])
async def suggest_batch(
    project_id: Project,
    body: AnnifBatch,
    service: ServiceDep,
    limit: Annotated[Limit, Query()] = 10,
    threshold: Annotated[Threshold, Query()] = 0.0,
    language: Annotated[Language | None, Query()] = None,
) -> Any:
    """Suggest concepts for up to 32 texts."""
    run = service.find_run(project_id)
    if not body.documents:
        return []
    options = SuggestOptions(min(limit, RANKS), threshold, language=language or None)
    docs = [document.to_doc() for document in body.documents]
    result = await service.batcher.predict(run.ranker_key, docs)
    return [
        {
            "document_id": document.document_id,
            "results": _build_results(run, result.take(row), options),
        }
        for row, document in enumerate(body.documents)
    ]


@router.post("/projects/{project_id}/learn", status_code=204)
def learn(
    project_id: Project,
    body: Annotated[list[LearnDocument], Field(max_length=1000)],
    service: ServiceDep,
    request: Request,
) -> Response:
    """Store documents with their concepts as decided; `ontodex learn` uses them.

    Subjects that are no concept of the run stay in the metadata as `unmatched_labels`.
    """
    run = service.find_run(project_id)
    docs = [document.to_decided(run.concepts) for document in body]
    if docs:
        batch = f"learn {uuid.uuid4().hex[:8]}"
        service.database.add_indexed_documents(
            docs,
            run=run.name,
            batch=batch,
            user=get_user(request).name,
            project=service.get_project(run),
        )
    return Response(status_code=204)


@router.post("/detect-language", response_model=LanguageScores)
def detect_language(body: DetectLanguage) -> Any:
    """Return the probability of each language; null means none of them."""
    simplemma = require("simplemma", extra="learn", purpose="recognising the language of a text")
    try:
        shares = simplemma.langdetect(body.text[:MAX_DETECTED], lang=tuple(body.languages))
    except ValueError as error:
        raise Problem(400, f"a language is not known: {error}"[:300]) from error
    found = [{"language": None if tag == "unk" else tag, "score": share} for tag, share in shares]
    return {"results": sorted(found, key=lambda one: -one["score"])}
