"""The format of ontodex: JSON lines, one document per line.

{"id": "17", "title": "...", "abstract": "...", "labels": ["D000003"], "metadata": {"year": 1978}}

Text fields are title, abstract, body and text, in the order of the file. Fields with other names
are written under "fields". A `FieldMapping` names other keys for text, labels and id. All other
keys are metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ontodex.corpora.field_mapping import FIELDS_HINT, NO_MAPPING, FieldMapping
from ontodex.corpora.parsing.capabilities import FormatCapabilities
from ontodex.corpora.parsing.columns import parse_strings
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
TAKES_FIELDS = True
TEXT_FIELDS = ("title", "abstract", "body", "text")


def looks_like(head: Head) -> bool:
    """Recognise one object per line with text, and with an id or labels."""
    found = head.object or {}
    has_text = any(key in found for key in (*TEXT_FIELDS, "fields"))
    return has_text and ("id" in found or "labels" in found)


def read(path: Path, *, mapping: FieldMapping = NO_MAPPING) -> Iterator[Doc]:
    """Read the documents of a file; they are numbered from 1 if the first has no id."""
    head = Head.of(path)
    try:
        mapping.check(head.keys)
    except DataError as error:
        raise error.at(path) from error
    has_id = bool(mapping.id_field) or "id" in (head.object or {"id"})
    records = read_text_records(path, partial(_parse, mapping=mapping, has_id=has_id))
    records.has_ids = has_id
    return records


def _parse(number: int, line: str, *, mapping: FieldMapping, has_id: bool) -> Doc | None:
    found = parse_object(line)
    return None if found is None else make_document(number, found, mapping=mapping, has_id=has_id)


def make_document(
    number: int, found: dict[str, Any], *, mapping: FieldMapping, has_id: bool
) -> Doc:
    """Return the document of an object; the number is its id unless the documents have ids."""
    id_, label = mapping.id_field or "id", mapping.label_field or "labels"
    fields = _get_fields(found, mapping)
    if not fields:
        raise DataError(
            f"no text; the object has {list(found)}",
            hint=f"a document needs at least one of {', '.join(TEXT_FIELDS)}; "
            f"name other keys with {FIELDS_HINT}",
        )
    is_cell = bool(mapping.label_field or mapping.label_separator)
    known = (*(mapping.text_fields or (*TEXT_FIELDS, "fields")), id_, label, "keywords", "metadata")
    return Doc(
        get_id(found, id_) if has_id else str(number),
        fields,
        () if label == "keywords" else get_strings(found, "keywords"),
        parse_strings(found.get(label), label, mapping.label_separator)
        if is_cell
        else get_strings(found, label),
        get_rest(found, known) | get_object(found, "metadata"),
    )


def _get_fields(found: dict[str, Any], mapping: FieldMapping) -> dict[str, str]:
    """Return the text fields: those of the mapping in its order, else the usual ones."""
    if mapping.text_fields:
        return {key: get_text(found, key) for key in mapping.text_fields if key in found}
    fields = {key: get_text(found, key) for key in found if key in TEXT_FIELDS}
    nested = get_object(found, "fields")
    return fields | {key: get_text(nested, key) for key in nested}


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
