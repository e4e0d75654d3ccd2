"""What answers hold: the schemas of the OpenAPI description."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from ontodex.serve.bodies import Verdict


class Step(BaseModel):
    label: str
    name: str


class Near(Step):
    apart: float  # how probable by itself


class Suggestion(Step):
    probability: float
    apart: float  # by itself, as those of `more_specific` are
    chosen: bool
    path: list[Step]
    other_parents: list[Step]
    more_specific: list[Near]


class Result(BaseModel):
    id: str
    suggestions: list[Suggestion]


class SuggestAnswer(BaseModel):
    run: str
    results: list[Result]


class Span(BaseModel):
    start: int
    end: int
    weight: float


class ExplanationAnswer(BaseModel):
    run: str
    label: str
    name: str
    probability: float
    text: str
    spans: list[Span]


class Concept(Step):
    children: int
    frequency: int
    suggestible: bool


class ConceptDetails(Concept):
    synonyms: list[str]
    definition: str
    notation: str
    deprecated: bool
    parents: list[Concept]
    path: list[Step]


class OntologyAnswer(BaseModel):
    run: str
    concepts: int
    languages: list[str]
    total: int
    roots: list[Concept]


class ChildrenAnswer(BaseModel):
    label: str
    total: int
    children: list[Concept]


class PathsAnswer(BaseModel):
    label: str
    paths: list[list[Step]]


class Hit(Step):
    text: str
    kind: Literal["id", "name", "synonym", "prefix", "words", "similar"]
    path: list[Step]


class SearchAnswer(BaseModel):
    hits: list[Hit]


class DecisionAnswer(BaseModel):
    id: int
    document: int
    label: str
    name: str
    verdict: Verdict
    who: str
    when: str
    run: str | None
    probability: float | None
    undone: bool
    request: str | None


class DecisionsAnswer(BaseModel):
    decisions: list[DecisionAnswer]


class DocumentHead(BaseModel):
    number: int
    id: str
    batch: str
    state: Literal["open", "done"]
    added: str
    added_by: str
    done: str | None
    done_by: str | None


class ListedDocument(DocumentHead):
    title: str


class WholeDocument(DocumentHead):
    fields: dict[str, str]
    text: str
    keywords: list[str]
    metadata: dict[str, Any]


class JudgedDocument(WholeDocument):
    verdicts: list[DecisionAnswer]


class AddedAnswer(BaseModel):
    batch: str
    added: int
    numbers: list[int]


class Refusal(BaseModel):
    file: str
    problem: str


class UploadAnswer(AddedAnswer):
    refused: list[Refusal]


class DocumentsAnswer(BaseModel):
    documents: list[ListedDocument]
    open: int
    done: int
    batches: list[str]


class NextAnswer(BaseModel):
    document: WholeDocument | None
    open: int
    done: int


class JudgedSuggestion(Suggestion):
    verdict: Verdict | None


class QueuedSuggestAnswer(BaseModel):
    run: str
    number: int
    suggestions: list[JudgedSuggestion]


class RunAnswer(BaseModel):
    run: str
    model: str
    labels: int
    documents: int
    train_seconds: float
    hardware: str
    ontology: bool
    languages: list[str]
    rule: str
    explains: bool
    updates: bool
    keywords: bool
    report: bool


class RunDetails(RunAnswer):
    settings: dict[str, Any]
    metrics: dict[str, Any] | None


class RunsAnswer(BaseModel):
    runs: list[RunAnswer]


class MeAnswer(BaseModel):
    name: str
    by: Literal["key", "proxy", "loopback"]


class LoginAnswer(BaseModel):
    name: str


class Health(BaseModel):
    status: Literal["ok"]


class Readiness(BaseModel):
    status: Literal["ready"]


class QueueFigures(BaseModel):
    waiting: int
    capacity: int


class RequestFigures(BaseModel):
    answered: int
    rejected: int
    failed: int


class Latency(BaseModel):
    p50: float | None
    p99: float | None


class DocumentFigures(BaseModel):
    open: int
    done: int


class StatusAnswer(BaseModel):
    version: str
    uptime_seconds: float
    queue: QueueFigures
    requests: RequestFigures
    latency_ms: Latency
    documents_ranked: int
    mean_batch: float | None
    documents: DocumentFigures
    decisions: int


class Fine(BaseModel):
    where: str
    message: str


class ProblemAnswer(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    hint: str | None = None
    errors: list[Fine] = Field(default_factory=list)
