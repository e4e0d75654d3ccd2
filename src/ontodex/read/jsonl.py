"""Our own format: JSON lines, one document a line.

{"id": "17", "title": "...", "abstract": "...", "labels": ["D000003"], "metadata": {"year": 1978}}

Text fields are title, abstract, body and text, in the order in which they stand. Fields with other
names are written together under "fields", which is read back as it is. Keys that are none of these
go to the metadata, unless `text_fields` names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ontodex.errors import DataError
from ontodex.read.head import Head
from ontodex.read.holds import Holds
from ontodex.read.lines import text_records, write_lines
from ontodex.read.objects import dump, id_of, object_of, parse_object, rest_of, strings_of, text_of
from ontodex.types import Doc

HOLDS = Holds(fields="all", keywords=True, metadata="all")
TAKES_TEXT_FIELDS = True
TEXT_FIELDS = ("title", "abstract", "body", "text")
_OTHERS = ("id", "fields", "keywords", "labels", "metadata")


def looks_like(head: Head) -> bool:
    """An object a line with an id and text."""
    found = head.object or {}
    return "id" in found and any(key in found for key in (*TEXT_FIELDS, "fields"))


def read(path: Path, *, text_fields: Sequence[str] = ()) -> Iterator[Doc]:
    """The documents of a file."""
    return text_records(path, partial(_parse, names={*TEXT_FIELDS, *text_fields}))


def _parse(_: int, line: str, names: set[str]) -> Doc | None:
    found = parse_object(line)
    if found is None:
        return None
    id_ = id_of(found, "id")
    fields = {key: text_of(found, key) for key in found if key in names}
    nested = object_of(found, "fields")
    fields |= {key: text_of(nested, key) for key in nested}
    if not fields:
        raise DataError(
            f"no text; this object has {list(found)}",
            hint="a document has at least one of " + ", ".join(TEXT_FIELDS),
        )
    return Doc(
        id_,
        fields,
        strings_of(found, "keywords"),
        strings_of(found, "labels"),
        rest_of(found, (*names, *_OTHERS)) | object_of(found, "metadata"),
    )


def write(docs: Iterable[Doc], path: Path) -> int:
    """Write a document a line."""
    return write_lines(path, map(_line, docs))


def _line(doc: Doc) -> str:
    value: dict[str, Any] = {"id": doc.id}
    if doc.fields and all(name in TEXT_FIELDS for name in doc.fields):
        value |= doc.fields
    else:
        value["fields"] = dict(doc.fields)
    for key, part in (("keywords", doc.keywords), ("labels", doc.labels)):
        if part:
            value[key] = part
    if doc.metadata:
        value["metadata"] = dict(doc.metadata)
    return dump(value)
