"""What each format can hold, and a document made to fit: nothing is left out without a count."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ontodex.errors import DataError
from ontodex.read.characters import check_value
from ontodex.read.relevance import weighing
from ontodex.types import Doc, Kind

SPACE = re.compile(r"\s")
LINE_BREAK = re.compile(r"[\r\n]")
LINE_OR_TAB = re.compile(r"[\t\r\n]")


@dataclass(frozen=True, slots=True)
class Holds:
    """What survives being written in a format and read again.

    fields      "all" with their names; "title and body" or "title and abstract", with the other
                fields joined to the second; "one" text; "none"
    metadata    "all"; "strings" (other values become JSON text); "relevance" alone; "none"; in the
                last case those of `places` are still held
    """

    kinds: frozenset[Kind] = frozenset({"text"})
    id: bool = True  # else documents are numbered from 1 when read
    fields: Literal["all", "title and body", "title and abstract", "one", "none"] = "one"
    lone_title: bool = True  # of "title and body": a title without a body is still a title
    empty_fields: bool = True  # else a field or a metadata value without text is as good as absent
    keywords: bool = False
    metadata: Literal["all", "strings", "relevance", "none"] = "none"
    places: frozenset[str] = frozenset()  # names of the metadata that the format has a place for
    metadata_forbids: tuple[str, ...] = ()  # keys that mean something else in the format
    breaks: re.Pattern[str] | None = None  # characters in text that become a space
    mark: str | None = None  # has a meaning in the format; in text it is taken apart
    label_forbids: re.Pattern[str] | None = None
    id_forbids: re.Pattern[str] | None = None


# Labels are numbered; their ids stand in a list, one a line.
SPARSE = Holds(
    kinds=frozenset({"sparse"}), id=False, fields="none", label_forbids=re.compile(r"[\r\n]")
)


def fit(doc: Doc, holds: Holds, changes: Counter[str]) -> Doc:
    """The document as the format can hold it; `changes` counts documents by what they lost.

    Labels and ids are never altered: what the format cannot write is a DataError.
    """
    lost: Counter[str] = Counter()
    doc = _fit_kind(doc, holds, lost)
    _refuse(doc, holds)
    fitted = Doc(
        doc.id,
        _fit_fields(doc, holds, lost) if doc.kind == "text" else {},
        _kept(doc.keywords, holds.keywords, "keywords left out", lost) or (),
        doc.labels,
        _fit_metadata(doc, holds, lost),
        doc.features,
    )
    changes.update(lost.keys())  # two fields with the same change are one document
    return fitted


def _fit_kind(doc: Doc, holds: Holds, changes: Counter[str]) -> Doc:
    if doc.kind in holds.kinds:
        return doc
    if doc.kind == "dense" and "sparse" in holds.kinds:
        assert isinstance(doc.features, tuple)
        changes["dense features written as sparse ones"] += 1
        return replace(doc, features={i: v for i, v in enumerate(doc.features) if v})
    able = " or ".join(sorted(holds.kinds))
    raise DataError(
        f"document {doc.id!r} has {doc.kind} content, but this format holds {able}",
        hint="features go into xmc, xmc-matrix, libmultilabel-svm, pecos-npz or corpus",
    )


def _refuse(doc: Doc, holds: Holds) -> None:
    if holds.id and holds.id_forbids and (found := holds.id_forbids.search(doc.id)):
        raise DataError(f"id {doc.id!r} has {found[0]!r}, which this format cannot hold in an id")
    for label in doc.labels:
        if not label:
            raise DataError(f"document {doc.id!r} has a label without a name")
        if holds.label_forbids and (found := holds.label_forbids.search(label)):
            raise DataError(
                f"document {doc.id!r}: label {label!r} has {found[0]!r}, which this format cannot "
                "hold in a label",
                hint="jsonl, parquet, csv and corpus hold any label",
            )
    check_value(
        [doc.id, doc.labels, doc.fields, doc.keywords, doc.metadata], f"document {doc.id!r}"
    )


def _fit_fields(doc: Doc, holds: Holds, changes: Counter[str]) -> Mapping[str, str]:
    fields = dict(doc.fields) or {"text": ""}
    if holds.fields == "one":
        if len(fields) > 1:
            changes["fields joined to one text"] += 1
        fields = {"text": doc.text}
    elif holds.fields == "title and body":
        fields = _title_and_body(fields, holds, changes)
    elif holds.fields == "title and abstract":
        fields = _title_and_abstract(fields, changes)
    fields = {name: _fit_text(text, holds, changes) for name, text in fields.items()}
    if holds.empty_fields:
        return fields
    if holds.fields == "all" and not any(fields.values()):
        return {"text": ""}  # a table does not say which of its empty cells was a field
    return without_empty(fields)


def _title_and_body(
    fields: Mapping[str, str], holds: Holds, changes: Counter[str]
) -> dict[str, str]:
    title = fields.get("title", "")
    rest = "\n".join(text for name, text in fields.items() if name != "title")
    if len(fields) > 1 and set(fields) != {"title", "body"}:
        changes["fields joined to a body"] += 1
    if title and rest:
        return {"title": title, "body": rest}
    return {"title": title} if title and holds.lone_title else {"text": title or rest}


def _title_and_abstract(fields: Mapping[str, str], changes: Counter[str]) -> dict[str, str]:
    rest = "\n".join(text for name, text in fields.items() if name != "title")
    if not set(fields) <= {"title", "abstract"}:
        changes["fields joined to an abstract"] += 1
    return {"title": fields.get("title", ""), "abstract": rest}


def _fit_text(text: str, holds: Holds, changes: Counter[str]) -> str:
    if holds.breaks and holds.breaks.search(text):
        changes["line ends or tabs became spaces"] += 1
        text = holds.breaks.sub(" ", text)
    if holds.mark and holds.mark in text:
        changes[f"{holds.mark!r} in text was taken apart"] += 1
        text = text.replace(holds.mark, f"{holds.mark[0]} {holds.mark[1:]}")
    return text


def without_empty(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields with text; of a document without any, its first field."""
    full = {name: text for name, text in fields.items() if text}
    return full or dict(list(fields.items())[:1])


def _fit_metadata(doc: Doc, holds: Holds, changes: Counter[str]) -> Mapping[str, Any]:
    if holds.metadata == "all" or not doc.metadata:
        return doc.metadata
    if holds.metadata == "strings":
        clashes = set(holds.metadata_forbids) & set(doc.metadata)
        _kept(clashes, False, "metadata left out", changes)
        able = {name: value for name, value in doc.metadata.items() if name not in clashes}
        texts = {name: as_text(value) for name, value in able.items()}
        return texts if holds.empty_fields else {n: text for n, text in texts.items() if text}
    if holds.metadata == "relevance":
        kept = weighing(doc)
    else:
        kept = {name: value for name, value in doc.metadata.items() if name in holds.places}
    _kept(set(doc.metadata) - set(kept), False, "metadata left out", changes)
    return kept


def as_text(value: Any) -> str:
    """A metadata value as text: itself, or JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _kept(value: Any, able: bool, loss: str, changes: Counter[str]) -> Any:
    if able or not value:
        return value
    changes[loss] += 1
    return None
