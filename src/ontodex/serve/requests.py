"""Bodies of requests, validated: UTF-8 texts, numbers in range, no unknown fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from ontodex.corpora.characters import check_text
from ontodex.errors import DataError
from ontodex.serve.http.json_limits import check_metadata
from ontodex.serve.prediction.run_metadata import MAX_LABEL, MAX_LANGUAGE
from ontodex.types import Doc

MAX_SEARCH = 200  # characters of a search
MAX_INTEGER = 2**63 - 1  # the largest number that SQLite and PostgreSQL both store


def _validate_text(value: Any) -> Any:
    """Check a text before pydantic counts its characters; other types are left to pydantic."""
    if isinstance(value, str):
        try:
            check_text(value)
        except DataError as error:
            raise ValueError(str(error)) from error
    return value


def validate_metadata(value: dict[str, Any]) -> dict[str, Any]:
    """Return metadata that every database can store and every answer can contain."""
    try:
        check_metadata(value)
    except DataError as error:
        raise ValueError(str(error)) from error
    return value


# Every text of a request has this type. Plain `str` would accept a lone surrogate, which no
# database can store. The pattern is for the OpenAPI description; _validate_text does the check and
# gives the better message.
_CHECK, _PATTERN = (
    BeforeValidator(_validate_text),
    Field(json_schema_extra={"pattern": r"^[^\x00]*$"}),
)
Text = Annotated[str, _CHECK, _PATTERN]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200), _CHECK, _PATTERN]
Label = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LABEL), _CHECK, _PATTERN]
DocumentId = Annotated[str, StringConstraints(max_length=500), _CHECK, _PATTERN]
Key = Annotated[str, StringConstraints(max_length=200), _CHECK, _PATTERN]
Language = Annotated[str, StringConstraints(max_length=MAX_LANGUAGE), _CHECK, _PATTERN]
SearchText = Annotated[str, StringConstraints(max_length=MAX_SEARCH), _CHECK, _PATTERN]
Number = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
After = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Offset = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Verdict = Literal["accept", "reject", "add"]


class RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _require_some_text(schema: dict[str, Any]) -> None:
    """State in the schema of a document that at least one field has text."""
    usual = ("title", "abstract", "body", "text")
    options: list[Any] = [
        {"required": [name], "properties": {name: {"type": "string", "pattern": r"\S"}}}
        for name in usual
    ]
    schema["anyOf"] = [
        *options,
        {"required": ["fields"], "properties": {"fields": {"minProperties": 1}}},
    ]


class DocumentBody(RequestBody):
    """A document to index: text under the usual names, or other names under `fields`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_require_some_text)

    id: DocumentId = ""
    title: Text | None = None
    abstract: Text | None = None
    body: Text | None = None
    text: Text | None = None
    fields: dict[Name, Text] = Field(default_factory=dict, max_length=50)
    keywords: list[Text] = Field(default_factory=list, max_length=1000)
    metadata: Annotated[dict[str, Any], AfterValidator(validate_metadata)] = Field(
        default_factory=dict
    )

    @model_validator(mode="after")
    def _check_has_text(self) -> DocumentBody:
        if not any(text.strip() for text in self._texts().values()):
            raise ValueError("no text: give words in title, abstract, body, text or fields")
        return self

    def _texts(self) -> dict[str, str]:
        usual = {
            "title": self.title, "abstract": self.abstract, "body": self.body, "text": self.text
        }  # fmt: skip
        return {name: text for name, text in usual.items() if text is not None} | self.fields

    def to_doc(self) -> Doc:
        return Doc(self.id, self._texts(), tuple(self.keywords), (), self.metadata)


class SuggestOptionsBody(RequestBody):
    """Options of a request for suggestions."""

    run: Name | None = None
    limit: int = Field(10, ge=1, le=100)
    threshold: float = Field(0.0, ge=0, le=1)
    label_set_only: bool = False
    include: list[Label] = Field(default_factory=list, max_length=100)
    exclude: list[Label] = Field(default_factory=list, max_length=10_000)
    exclude_subtrees: list[Label] = Field(default_factory=list, max_length=100)
    exclude_schemes: list[Label] = Field(default_factory=list, max_length=50)
    exclude_types: list[Label] = Field(default_factory=list, max_length=50)
    language: Language | None = None


class SuggestBody(SuggestOptionsBody):
    documents: list[DocumentBody] = Field(min_length=1, max_length=64)


class ExplainOptionsBody(RequestBody):
    label: Label | None = None
    run: Name | None = None
    language: Language | None = None


class ExplainBody(ExplainOptionsBody):
    document: DocumentBody


class AddDocumentsBody(RequestBody):
    documents: list[DocumentBody] = Field(min_length=1, max_length=1000)
    batch: Name | None = None
    project: Number | None = None


class PredictBody(RequestBody):
    """Documents of the queue to predict ahead of time."""

    run: Name | None = None
    batch: Name | None = None
    limit: int = Field(32, ge=1, le=64)


class ProjectBody(RequestBody):
    name: Name | None = None
    run: Name | None = None


class StateBody(RequestBody):
    state: Literal["open", "done"]


class DecisionBody(RequestBody):
    document: Number
    label: Label
    verdict: Verdict
    run: Name | None = None
    request_id: Name | None = None


class DecisionsBody(RequestBody):
    decisions: list[DecisionBody] = Field(min_length=1, max_length=500)


class LoginBody(RequestBody):
    key: Key
