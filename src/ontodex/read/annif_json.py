"""Annif JSON: {"document_id", "text", "metadata", "subjects": [{"uri", "label"}]}.

One object a line, or one object in the whole file. The concepts' ids are their URIs, or their
labels where there is no URI; `text_fields` may name keys of the metadata to be read as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ontodex.errors import DataError
from ontodex.files import BOM, decode, open_bytes
from ontodex.read.head import Head
from ontodex.read.holds import Holds
from ontodex.read.lines import Records, text_records, write_lines
from ontodex.read.objects import dump, id_of, object_of, parse_object, text_of
from ontodex.types import Doc

HOLDS = Holds(metadata="strings")
TAKES_TEXT_FIELDS = True
_KEYS = {"document_id", "text", "metadata", "subjects"}


def looks_like(head: Head) -> bool:
    """An object with no other keys than Annif's, text or metadata among them."""
    try:
        found = parse_object(decode(head.start.removeprefix(BOM))) if _is_one(head) else head.object
    except DataError:
        return False
    keys = set(found or ())
    return keys <= _KEYS and bool({"text", "metadata"} & keys)


def _is_one(head: Head) -> bool:
    """Whether the file is one object over several lines."""
    first = head.lines[0].strip() if head.start else ""
    return first.startswith("{") and not first.endswith("}")


def read(path: Path, *, text_fields: Sequence[str] = ()) -> Iterator[Doc]:
    """The documents; those without document_id are numbered from 1."""
    parse = partial(_parse, text_fields=text_fields)
    if not _is_one(Head.of(path)):
        return text_records(path, parse)
    with open_bytes(path) as file:
        whole = file.read().removeprefix(BOM)
    return Records(path, iter([(1, whole)]), lambda number, raw: parse(number, decode(raw)))


def _parse(number: int, line: str, text_fields: Sequence[str]) -> Doc | None:
    found = parse_object(line)
    return None if found is None else document(found, str(number), text_fields)


def document(found: Mapping[str, Any], id_: str, text_fields: Sequence[str] = ()) -> Doc:
    """The document of an object; `id_` is for one that has no id of its own."""
    if not {"text", "metadata"} & set(found):
        raise DataError(f"no text and no metadata; this object has {list(found)}")
    metadata = object_of(found, "metadata")
    fields = {name: text_of(metadata, name) for name in text_fields if name in metadata}
    if "text" in found or not fields:
        fields["text"] = text_of(found, "text")
    return Doc(
        id_of(found, "document_id") if "document_id" in found else id_,
        fields,
        labels=tuple(map(_label, found.get("subjects") or ())),
        metadata={key: value for key, value in metadata.items() if key not in text_fields},
    )


def _label(subject: Any) -> str:
    if not isinstance(subject, dict) or not {"uri", "label"} & set(subject):
        raise DataError(f"a subject needs a uri or a label; this one is {str(subject)[:60]!r}")
    return id_of(subject, "uri" if "uri" in subject else "label")


def write(docs: Iterable[Doc], path: Path) -> int:
    """Write a document a line."""
    return write_lines(path, map(_line, docs))


def _line(doc: Doc) -> str:
    value: dict[str, Any] = {"document_id": doc.id, "text": doc.fields["text"]}
    if doc.metadata:
        value["metadata"] = dict(doc.metadata)
    value["subjects"] = [{"uri": label} for label in doc.labels]
    return dump(value)
