"""What requests hold, checked: texts that UTF-8 has, numbers in range, nothing unknown."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from ontodex.errors import DataError
from ontodex.read.characters import check_text, check_value
from ontodex.types import Doc

LARGEST = 2**63 - 1  # a number that both databases hold


def _clean(text: str) -> str:
    try:
        check_text(text)
    except DataError as error:
        raise ValueError(str(error)) from error
    return text


def plain_json(value: dict[str, Any]) -> dict[str, Any]:
    """JSON that any database and any reader takes: no NaN, no NUL, no half surrogate pairs."""
    try:
        json.dumps(value, allow_nan=False)
        check_value(value)
    except (ValueError, RecursionError) as error:
        raise ValueError("has NaN, or is too deep") from error
    except DataError as error:
        raise ValueError(str(error)) from error
    return value


# Every text of a request is of this type: plain `str` would let half a surrogate pair through to a
# database that cannot hold it. The pattern is for the description; the check is ours, for its
# sentence.
Text = Annotated[str, AfterValidator(_clean), Field(json_schema_extra={"pattern": r"^[^\x00]*$"})]
Name = Annotated[Text, StringConstraints(min_length=1, max_length=200)]
Label = Annotated[Text, StringConstraints(min_length=1, max_length=2000)]
Language = Annotated[Text, StringConstraints(max_length=35)]
Number = Annotated[int, Field(ge=1, le=LARGEST)]
After = Annotated[int, Field(ge=0, le=LARGEST)]
Offset = Annotated[int, Field(ge=0, le=LARGEST)]
Verdict = Literal["accept", "reject", "add"]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _with_text(schema: dict[str, Any]) -> None:
    """Say in the description of a document that it has some text."""
    usual = ("title", "abstract", "body", "text")
    some: list[Any] = [
        {"required": [name], "properties": {name: {"type": "string", "pattern": r"\S"}}}
        for name in usual
    ]
    schema["anyOf"] = [
        *some,
        {"required": ["fields"], "properties": {"fields": {"minProperties": 1}}},
    ]


class Document(Body):
    """A document to be indexed: text under one of the usual names, or others under `fields`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_with_text)

    id: Annotated[Text, StringConstraints(max_length=500)] = ""
    title: Text | None = None
    abstract: Text | None = None
    body: Text | None = None
    text: Text | None = None
    fields: dict[Name, Text] = Field(default_factory=dict, max_length=50)
    keywords: list[Text] = Field(default_factory=list, max_length=1000)
    metadata: Annotated[dict[str, Any], AfterValidator(plain_json)] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_text(self) -> Document:
        if not any(text.strip() for text in self._texts().values()):
            raise ValueError("no text: give words in title, abstract, body, text or fields")
        return self

    def _texts(self) -> dict[str, str]:
        usual = {
            "title": self.title, "abstract": self.abstract, "body": self.body, "text": self.text
        }  # fmt: skip
        return {name: text for name, text in usual.items() if text is not None} | self.fields

    def doc(self) -> Doc:
        return Doc(self.id, self._texts(), tuple(self.keywords), (), self.metadata)


class Wanted(Body):
    """How to answer a request for suggestions."""

    run: Name | None = None
    limit: int = Field(10, ge=1, le=100)
    threshold: float = Field(0.0, ge=0, le=1)
    chosen: bool = False
    include: list[Label] = Field(default_factory=list, max_length=100)
    exclude: list[Label] = Field(default_factory=list, max_length=10_000)
    language: Language | None = None


class Suggest(Wanted):
    documents: list[Document] = Field(min_length=1, max_length=64)


class ExplainQueued(Body):
    label: Label | None = None
    run: Name | None = None


class Explain(ExplainQueued):
    document: Document


class AddDocuments(Body):
    documents: list[Document] = Field(min_length=1, max_length=1000)
    batch: Name | None = None


class SetState(Body):
    state: Literal["open", "done"]


class Decision(Body):
    document: Number
    label: Label
    verdict: Verdict
    run: Name | None = None
    request: Name | None = None


class Decide(Body):
    decisions: list[Decision] = Field(min_length=1, max_length=500)


class Login(Body):
    key: Annotated[Text, StringConstraints(max_length=200)]
