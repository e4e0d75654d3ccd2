"""The format of ontodex: JSON lines, one document per line.

{"id": "17", "title": "...", "abstract": "...", "labels": ["D000003"], "metadata": {"year": 1978}}

Text fields are title, abstract, body and text, in the order of the file. Fields with other names
are written under "fields". Other keys are metadata, unless `text_fields` names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ontodex.corpora.parsing.capabilities import FormatCapabilities
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.json_objects import (
    dump_json,
    get_id,
    get_object,
    get_rest,
    get_strings,
    get_text,
    parse_object,
)
from ontodex.corpora.parsing.records import read_text_records, write_lines
from ontodex.errors import DataError
from ontodex.types import Doc

CAPABILITIES = FormatCapabilities(fields="all", keywords=True, metadata="all")
TAKES_TEXT_FIELDS = True
TEXT_FIELDS = ("title", "abstract", "body", "text")
_OTHERS = ("id", "fields", "keywords", "labels", "metadata")


def looks_like(head: Head) -> bool:
    """Recognise one object per line with an id and text."""
    found = head.object or {}
    return "id" in found and any(key in found for key in (*TEXT_FIELDS, "fields"))


def read(path: Path, *, text_fields: Sequence[str] = ()) -> Iterator[Doc]:
    """Read the documents of a file."""
    return read_text_records(path, partial(_parse, names={*TEXT_FIELDS, *text_fields}))


def _parse(_: int, line: str, names: set[str]) -> Doc | None:
    found = parse_object(line)
    if found is None:
        return None
    id_ = get_id(found, "id")
    fields = {key: get_text(found, key) for key in found if key in names}
    nested = get_object(found, "fields")
    fields |= {key: get_text(nested, key) for key in nested}
    if not fields:
        raise DataError(
            f"no text; the object has {list(found)}",
            hint="a document needs at least one of " + ", ".join(TEXT_FIELDS),
        )
    return Doc(
        id_,
        fields,
        get_strings(found, "keywords"),
        get_strings(found, "labels"),
        get_rest(found, (*names, *_OTHERS)) | get_object(found, "metadata"),
    )


def write(docs: Iterable[Doc], path: Path) -> int:
    """Write one document per line."""
    return write_lines(path, map(_format_line, docs))


def _format_line(doc: Doc) -> str:
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
    return dump_json(value)
