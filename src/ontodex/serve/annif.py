"""/v1: the REST of Annif, so that its clients work here. A run is a project.

A score is a probability. `limit` above RANKS is RANKS, as Annif's backends cut theirs.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, Field, StringConstraints, ValidationError

from ontodex import __version__
from ontodex.errors import require
from ontodex.models.base import Ranked
from ontodex.run import RANKS
from ontodex.serve.bodies import Label, Language, Name, Text, plain_json
from ontodex.serve.problems import Problem
from ontodex.serve.served import Ask, Json, Served
from ontodex.serve.service import TheService, who_of
from ontodex.types import Doc

router = APIRouter(prefix="/v1", tags=["annif"])
MOST = 32  # documents of a batch
TEXT_FIELDS = ("title", "abstract", "body")

Project = Annotated[Name, Path()]
Limit = Annotated[int, Field(ge=1, le=10_000)]
Threshold = Annotated[float, Field(ge=0, le=1)]
Metadata = Annotated[dict[str, Any], AfterValidator(plain_json)]


class AnnifDocument(BaseModel):
    text: Text = ""
    document_id: Annotated[Text, StringConstraints(max_length=500)] | None = None
    metadata: Metadata = Field(default_factory=dict)

    def doc(self, labels: tuple[str, ...] = ()) -> Doc:
        fields = {
            name: self.metadata[name] for name in TEXT_FIELDS if _is_text(self.metadata, name)
        }
        others = {key: value for key, value in self.metadata.items() if key not in fields}
        return Doc(self.document_id or "", {**fields, "text": self.text}, (), labels, others)


def _is_text(metadata: dict[str, Any], name: str) -> bool:
    return isinstance(metadata.get(name), str)


class AnnifBatch(BaseModel):
    documents: list[AnnifDocument] = Field(max_length=MOST)


class Subject(BaseModel):
    uri: Label
    label: Text | None = None


class LearnDocument(AnnifDocument):
    subjects: list[Subject] = Field(max_length=1000)


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


def _vocab(served: Served) -> Json:
    return {
        "vocab_id": served.name,
        "languages": served.languages,
        "size": len(served.ontology),
        "loaded": True,
    }


def _project(served: Served) -> Json:
    changed = (served.run.folder / "manifest.json").stat().st_mtime
    return {
        "project_id": served.name,
        "name": f"{served.run.settings.name} ({served.name})",
        "language": served.ontology.language,
        "backend": {"backend_id": served.run.settings.name},
        "vocab": _vocab(served),
        "vocab_language": served.ontology.language,
        "is_trained": True,
        "modification_time": datetime.fromtimestamp(changed, UTC).isoformat(),
    }


def _results(served: Served, ranked: Ranked, ask: Ask) -> list[Json]:
    notations = served.ontology.notations
    return [
        {
            "uri": found["label"],
            "label": found["name"],
            "notation": notations.get(found["label"]),
            "score": found["probability"],
        }
        for found in served.suggestions(ranked, ask)
        if found["probability"] > 0
    ]


@router.get("", response_model=Info)
@router.get("/", include_in_schema=False)
async def info() -> Any:
    """What answers here."""
    return {"title": "ontodex", "version": __version__}


@router.get("/vocabs", response_model=Vocabs)
def vocabs(service: TheService) -> Any:
    """The ontologies of the runs."""
    return {"vocabs": [_vocab(served) for served in service.runs.values()]}


@router.get("/projects", response_model=Projects)
def projects(service: TheService) -> Any:
    """The runs."""
    return {"projects": [_project(served) for served in service.runs.values()]}


@router.get("/projects/{project_id}", response_model=AnnifProject)
def project(project_id: Project, service: TheService) -> Any:
    """One run."""
    return _project(service.run(project_id))


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
async def suggest(project_id: Project, request: Request, service: TheService) -> Any:
    """Concepts for one text, sent as a form."""
    served = service.run(project_id)
    wanted = _checked(await _form(request))
    ask = Ask(min(wanted.limit, RANKS), wanted.threshold, language=wanted.language or None)
    ranked = await service.engine.rank(served.name, [wanted.doc()])
    return {"results": _results(served, ranked, ask)}


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form; Annif's names of metadata are open, so no schema lists them."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise Problem(415, "the body must be a form (application/x-www-form-urlencoded)")
    async with request.form(max_fields=100) as form:
        return {key: value for key, value in form.items() if isinstance(value, str)}


def _checked(form: dict[str, str]) -> SuggestForm:
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
    service: TheService,
    limit: Annotated[Limit, Query()] = 10,
    threshold: Annotated[Threshold, Query()] = 0.0,
    language: Annotated[Language | None, Query()] = None,
) -> Any:
    """Concepts for up to 32 texts."""
    served = service.run(project_id)
    if not body.documents:
        return []
    ask = Ask(min(limit, RANKS), threshold, language=language or None)
    ranked = await service.engine.rank(served.name, [document.doc() for document in body.documents])
    return [
        {
            "document_id": document.document_id,
            "results": _results(served, ranked.take(row), ask),
        }
        for row, document in enumerate(body.documents)
    ]


@router.post("/projects/{project_id}/learn", status_code=204)
def learn(
    project_id: Project,
    body: Annotated[list[LearnDocument], Field(max_length=1000)],
    service: TheService,
    request: Request,
) -> Response:
    """Keep documents with their concepts as decided; `ontodex learn` takes them up."""
    served = service.run(project_id)
    docs = [
        document.doc(tuple(dict.fromkeys(subject.uri for subject in document.subjects)))
        for document in body
    ]
    if docs:
        batch = f"learn {uuid.uuid4().hex[:8]}"
        service.database.learn(docs, run=served.name, batch=batch, who=who_of(request).name)
    return Response(status_code=204)


@router.post("/detect-language", response_model=LanguageScores)
def detect_language(body: DetectLanguage) -> Any:
    """How probable each of some languages is; null stands for none of them."""
    simplemma = require("simplemma", extra="learn", purpose="recognising the language of a text")
    try:
        shares = simplemma.langdetect(body.text, lang=tuple(body.languages))
    except ValueError as error:
        raise Problem(400, f"there is a language that is not known: {error}"[:300]) from error
    found = [{"language": None if tag == "unk" else tag, "score": share} for tag, share in shares]
    return {"results": sorted(found, key=lambda one: -one["score"])}
