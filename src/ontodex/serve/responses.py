"""Bodies of responses: the schemas of the OpenAPI description."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from ontodex.serve.requests import Verdict


class ConceptRef(BaseModel):
    label: str
    name: str
    notation: str


class CloseConcept(ConceptRef):
    standalone_probability: float


class Suggestion(ConceptRef):
    probability: float
    standalone_probability: float
    in_label_set: bool
    path: list[ConceptRef]
    other_parents: list[ConceptRef]
    more_specific: list[CloseConcept]


class DocumentSuggestions(BaseModel):
    id: str
    suggestions: list[Suggestion]
    warnings: list[str]


class SuggestResponse(BaseModel):
    run: str
    results: list[DocumentSuggestions]


class Span(BaseModel):
    start: int
    end: int
    weight: float


class ExplanationResponse(BaseModel):
    run: str
    label: str
    name: str
    probability: float
    text: str
    spans: list[Span]
    warnings: list[str]


class Concept(ConceptRef):
    n_children: int
    frequency: int
    suggestible: bool


class ConceptDetails(Concept):
    synonyms: list[str]
    definition: str
    deprecated: bool
    parents: list[Concept]
    path: list[ConceptRef]


class ConceptGroup(BaseModel):
    uri: str
    name: str
    n_concepts: int


class OntologyResponse(BaseModel):
    run: str
    n_concepts: int
    languages: list[str]
    schemes: list[ConceptGroup]
    types: list[ConceptGroup]
    total: int
    roots: list[Concept]


class ChildrenResponse(BaseModel):
    label: str
    total: int
    children: list[Concept]


class PathsResponse(BaseModel):
    label: str
    paths: list[list[ConceptRef]]


class SearchHit(ConceptRef):
    text: str
    kind: Literal["id", "name", "synonym", "notation", "prefix", "words", "similar"]
    path: list[ConceptRef]


class SearchResponse(BaseModel):
    hits: list[SearchHit]


class DecisionResponse(BaseModel):
    id: int
    document: int
    label: str
    name: str
    notation: str
    verdict: Verdict
    user: str
    time: str
    run: str | None
    probability: float | None
    undone: bool
    request_id: str | None
    imported: bool


class DecisionsResponse(BaseModel):
    decisions: list[DecisionResponse]


class DocumentHead(BaseModel):
    number: int
    id: str
    batch: str
    state: Literal["open", "done"]
    added_at: str
    added_by: str
    done_at: str | None
    done_by: str | None
    project: int | None


class DocumentSummary(DocumentHead):
    title: str
    corrections: float | None = None


class Document(DocumentHead):
    fields: dict[str, str]
    text: str
    keywords: list[str]
    metadata: dict[str, Any]


class DocumentWithVerdicts(Document):
    verdicts: list[DecisionResponse]


class AddedResponse(BaseModel):
    batch: str
    n_added: int
    numbers: list[int]


class AddedDocumentsResponse(AddedResponse):
    warnings: list[str]


class RejectedFile(BaseModel):
    file: str
    reason: str
    columns: list[str]


class FileWarning(BaseModel):
    file: str
    warning: str


class LabelCounts(BaseModel):
    n_read: int
    n_ids: int
    n_matched: int
    n_ambiguous: int
    n_unknown: int
    ambiguous: list[str]
    unknown: list[str]


class UploadResponse(AddedResponse):
    rejected_files: list[RejectedFile]
    warnings: list[FileWarning]
    labels: LabelCounts


class QueueCounts(BaseModel):
    n_open: int
    n_done: int


class BatchCounts(QueueCounts):
    batch: str


class DocumentsResponse(QueueCounts):
    documents: list[DocumentSummary]
    n_found: int | None
    batches: list[str]
    batch_counts: list[BatchCounts]
    n_quarantined: int


class PredictedResponse(BaseModel):
    run: str
    n_predicted: int
    n_left: int


class PersonVerdicts(BaseModel):
    user: str
    verdicts: list[DecisionResponse]


class PairAgreement(BaseModel):
    users: list[str]
    n_documents: int
    agreement: float


class AgreementResponse(BaseModel):
    pairs: list[PairAgreement]


class PeopleResponse(AgreementResponse):
    people: list[PersonVerdicts]


class Person(BaseModel):
    user: str
    n_decisions: int


class Project(QueueCounts):
    id: int
    name: str
    vocabulary: str
    time: str
    runs: list[str]
    people: list[Person]


class ProjectsResponse(BaseModel):
    projects: list[Project]


class QuarantinedDocument(BaseModel):
    number: int
    id: str
    batch: str
    reason: str


class DamagedDecision(BaseModel):
    id: int
    reason: str


class QuarantineResponse(BaseModel):
    n_documents: int
    documents: list[QuarantinedDocument]
    decisions: list[DamagedDecision]


class NextDocumentResponse(QueueCounts):
    document: Document | None


class SuggestionWithVerdict(Suggestion):
    verdict: Verdict | None


class DocumentSuggestResponse(BaseModel):
    run: str
    number: int
    suggestions: list[SuggestionWithVerdict]
    warnings: list[str]
    foreign_language: str


class RunVersion(BaseModel):
    version: str
    time: str
    is_current: bool


class RunVersionsResponse(BaseModel):
    run: str
    versions: list[RunVersion]


class ReloadResponse(BaseModel):
    run: str
    version: str
    is_changed: bool


class RunSummary(BaseModel):
    run: str
    version: str
    model: str
    n_labels: int
    n_documents: int
    train_seconds: float
    hardware: str
    has_ontology: bool
    project: int
    vocabulary: str
    n_concepts: int
    language: str
    languages: list[str]
    language_names: dict[str, str]
    document_languages: list[str]
    decision_rule: str
    can_explain: bool
    can_update: bool
    learns: list[Literal["thresholds", "documents"]]
    reads_keywords: bool
    has_report: bool


class SampleText(BaseModel):
    title: str
    text: str


class RunDetails(RunSummary):
    settings: dict[str, Any]
    metrics: dict[str, Any] | None
    sample: SampleText


class RunsResponse(BaseModel):
    runs: list[RunSummary]


class UserResponse(BaseModel):
    name: str
    authentication: Literal["key", "proxy", "loopback"]


class LoginResponse(BaseModel):
    name: str


class Health(BaseModel):
    status: Literal["ok"]


class Readiness(BaseModel):
    status: Literal["ready"]


class QueueStatus(BaseModel):
    waiting: int
    capacity: int


class RequestCounts(BaseModel):
    answered: int
    rejected: int
    failed: int


class Latency(BaseModel):
    p50: float | None
    p99: float | None


class StatusResponse(BaseModel):
    version: str
    database: str
    uptime_seconds: float
    queue: QueueStatus
    requests: RequestCounts
    latency_ms: Latency
    n_ranked: int
    mean_batch_size: float | None
    documents: QueueCounts
    n_decisions: int
    n_quarantined: int


class InvalidValue(BaseModel):
    location: str
    message: str


class ProblemResponse(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    hint: str | None = None
    errors: list[InvalidValue] = Field(default_factory=list)
