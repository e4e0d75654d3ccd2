"""Describe what a format can store, and fit documents to it; every loss is counted."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ontodex.corpora.characters import check_value
from ontodex.corpora.parsing.relevance import select_weights
from ontodex.errors import DataError
from ontodex.types import Doc, Kind

SPACE = re.compile(r"\s")
LINE_BREAK = re.compile(r"[\r\n]")
LINE_OR_TAB = re.compile(r"[\t\r\n]")


@dataclass(frozen=True, slots=True)
class FormatCapabilities:
    """The parts of a document that a format can store and give back.

    fields      "all" with their names; "title and body" or "title and abstract", with the other
                fields joined to the second; "one" text; "none"
    metadata    "all"; "strings" (other values become JSON text); "relevance" only; "none" except
                the keys of `places`
    """

    kinds: frozenset[Kind] = frozenset({"text"})
    id: bool = True  # else documents are numbered from 1 when read
    fields: Literal["all", "title and body", "title and abstract", "one", "none"] = "one"
    lone_title: bool = True  # in "title and body": a title without a body stays a title
    empty_fields: bool = True  # else empty fields and metadata values are dropped
    keywords: bool = False
    metadata: Literal["all", "strings", "relevance", "none"] = "none"
    places: frozenset[str] = frozenset()  # metadata keys that the format can store
    metadata_forbids: tuple[str, ...] = ()  # metadata keys with another meaning in the format
    breaks: re.Pattern[str] | None = None  # characters in text that become a space
    mark: str | None = None  # has a meaning in the format; in text a space is put into it
    label_forbids: re.Pattern[str] | None = None
    id_forbids: re.Pattern[str] | None = None


# Labels are numbered; their ids are in a list, one per line.
SPARSE = FormatCapabilities(
    kinds=frozenset({"sparse"}), id=False, fields="none", label_forbids=re.compile(r"[\r\n]")
)


def fit_doc(doc: Doc, capabilities: FormatCapabilities, changes: Counter[str]) -> Doc:
    """Return the document as the format can store it; `changes` counts documents by their losses.

    Ids and labels never change: a DataError is raised for those that the format cannot store.
    """
    lost: Counter[str] = Counter()
    doc = _fit_kind(doc, capabilities, lost)
    _check_writable(doc, capabilities)
    fitted = Doc(
        doc.id,
        _fit_fields(doc, capabilities, lost) if doc.kind == "text" else {},
        _drop_unless(doc.keywords, capabilities.keywords, "keywords left out", lost) or (),
        doc.labels,
        _fit_metadata(doc, capabilities, lost),
        doc.features,
    )
    changes.update(lost.keys())  # two fields with the same change are one document
    return fitted


def _fit_kind(doc: Doc, capabilities: FormatCapabilities, changes: Counter[str]) -> Doc:
    if doc.kind in capabilities.kinds:
        return doc
    if doc.kind == "dense" and "sparse" in capabilities.kinds:
        assert isinstance(doc.features, tuple)
        changes["dense features written as sparse ones"] += 1
        return replace(doc, features={i: v for i, v in enumerate(doc.features) if v})
    able = " or ".join(sorted(capabilities.kinds))
    raise DataError(
        f"document {doc.id!r} has {doc.kind} content, but this format stores {able}",
        hint="formats with features are xmc, xmc-matrix, libmultilabel-svm, pecos-npz and corpus",
    )


def _check_writable(doc: Doc, capabilities: FormatCapabilities) -> None:
    if (
        capabilities.id
        and capabilities.id_forbids
        and (found := capabilities.id_forbids.search(doc.id))
    ):
        raise DataError(f"id {doc.id!r} has {found[0]!r}, which this format cannot store in an id")
    for label in doc.labels:
        if not label:
            raise DataError(f"document {doc.id!r} has an empty label")
        if capabilities.label_forbids and (found := capabilities.label_forbids.search(label)):
            raise DataError(
                f"document {doc.id!r}: label {label!r} has {found[0]!r}, which this format cannot "
                "store in a label",
                hint="jsonl, parquet, csv and corpus can store any label",
            )
    check_value(
        [doc.id, doc.labels, doc.fields, doc.keywords, doc.metadata], f"document {doc.id!r}"
    )


def _fit_fields(
    doc: Doc, capabilities: FormatCapabilities, changes: Counter[str]
) -> Mapping[str, str]:
    fields = dict(doc.fields) or {"text": ""}
    if capabilities.fields == "one":
        if len(fields) > 1:
            changes["fields joined to one text"] += 1
        fields = {"text": doc.text}
    elif capabilities.fields == "title and body":
        fields = _fit_title_and_body(fields, capabilities, changes)
    elif capabilities.fields == "title and abstract":
        fields = _fit_title_and_abstract(fields, changes)
    fields = {name: _fit_text(text, capabilities, changes) for name, text in fields.items()}
    if capabilities.empty_fields:
        return fields
    if capabilities.fields == "all" and not any(fields.values()):
        return {"text": ""}  # a table cannot tell an empty field from a missing one
    return drop_empty(fields)


def _fit_title_and_body(
    fields: Mapping[str, str], capabilities: FormatCapabilities, changes: Counter[str]
) -> dict[str, str]:
    title = fields.get("title", "")
    rest = "\n".join(text for name, text in fields.items() if name != "title")
    if len(fields) > 1 and set(fields) != {"title", "body"}:
        changes["fields joined to a body"] += 1
    if title and rest:
        return {"title": title, "body": rest}
    return {"title": title} if title and capabilities.lone_title else {"text": title or rest}


def _fit_title_and_abstract(fields: Mapping[str, str], changes: Counter[str]) -> dict[str, str]:
    rest = "\n".join(text for name, text in fields.items() if name != "title")
    if not set(fields) <= {"title", "abstract"}:
        changes["fields joined to an abstract"] += 1
    return {"title": fields.get("title", ""), "abstract": rest}


def _fit_text(text: str, capabilities: FormatCapabilities, changes: Counter[str]) -> str:
    if capabilities.breaks and capabilities.breaks.search(text):
        changes["line ends or tabs became spaces"] += 1
        text = capabilities.breaks.sub(" ", text)
    if capabilities.mark and capabilities.mark in text:
        changes[f"{capabilities.mark!r} in text got a space"] += 1
        text = text.replace(capabilities.mark, f"{capabilities.mark[0]} {capabilities.mark[1:]}")
    return text


def drop_empty(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields with text, or the first field if all are empty."""
    full = {name: text for name, text in fields.items() if text}
    return full or dict(list(fields.items())[:1])


def _fit_metadata(
    doc: Doc, capabilities: FormatCapabilities, changes: Counter[str]
) -> Mapping[str, Any]:
    if capabilities.metadata == "all" or not doc.metadata:
        return doc.metadata
    if capabilities.metadata == "strings":
        clashes = set(capabilities.metadata_forbids) & set(doc.metadata)
        _drop_unless(clashes, False, "metadata left out", changes)
        able = {name: value for name, value in doc.metadata.items() if name not in clashes}
        texts = {name: format_value(value) for name, value in able.items()}
        return (
            texts if capabilities.empty_fields else {n: text for n, text in texts.items() if text}
        )
    if capabilities.metadata == "relevance":
        kept = select_weights(doc)
    else:
        kept = {name: value for name, value in doc.metadata.items() if name in capabilities.places}
    _drop_unless(set(doc.metadata) - set(kept), False, "metadata left out", changes)
    return kept


def format_value(value: Any) -> str:
    """Return a metadata value as text: itself, or JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _drop_unless(value: Any, able: bool, loss: str, changes: Counter[str]) -> Any:
    if able or not value:
        return value
    changes[loss] += 1
    return None
