"""Annif JSON: {"document_id", "text", "metadata", "subjects": [{"uri", "label"}]}.

One object per line, or one object in the whole file. The ids of concepts are their URIs, or their
labels if there is no URI. `text_fields` names keys of the metadata to read as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ontodex.corpora.parsing.capabilities import FormatCapabilities
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.json_objects import (
    dump_json,
    get_id,
    get_list,
    get_object,
    get_text,
    parse_object,
)
from ontodex.corpora.parsing.records import Records, read_text_records, write_lines
from ontodex.errors import DataError
from ontodex.io.files import BOM, decode, open_utf8
from ontodex.types import Doc

CAPABILITIES = FormatCapabilities(metadata="strings")
TAKES_TEXT_FIELDS = True
_KEYS = {"document_id", "text", "metadata", "subjects"}


def looks_like(head: Head) -> bool:
    """Recognise an object with no other keys than Annif's, text or metadata among them."""
    try:
        found = (
            parse_object(decode(head.start.removeprefix(BOM)))
            if _is_single_object(head)
            else head.object
        )
    except DataError:
        return False
    keys = set(found or ())
    return keys <= _KEYS and bool({"text", "metadata"} & keys)


def _is_single_object(head: Head) -> bool:
    """Return whether the file is one object over several lines."""
    first = head.lines[0].strip() if head.start else ""
    return first.startswith("{") and not first.endswith("}")


def read(path: Path, *, text_fields: Sequence[str] = ()) -> Iterator[Doc]:
    """Read the documents; those without document_id are numbered from 1."""
    parse = partial(_parse, text_fields=text_fields)
    if not _is_single_object(Head.of(path)):
        return read_text_records(path, parse)
    with open_utf8(path) as file:
        whole = file.read().removeprefix(BOM)
    return Records(path, iter([(1, whole)]), lambda number, raw: parse(number, decode(raw)))


def _parse(number: int, line: str, text_fields: Sequence[str]) -> Doc | None:
    found = parse_object(line)
    return None if found is None else make_doc(found, str(number), text_fields)


def make_doc(found: Mapping[str, Any], id_: str, text_fields: Sequence[str] = ()) -> Doc:
    """Make the document of an object; `id_` is the id of one without its own."""
    if not {"text", "metadata"} & set(found):
        raise DataError(f"no text and no metadata; the object has {list(found)}")
    metadata = get_object(found, "metadata")
    fields = {name: get_text(metadata, name) for name in text_fields if name in metadata}
    if "text" in found or not fields:
        fields["text"] = get_text(found, "text")
    return Doc(
        get_id(found, "document_id") if "document_id" in found else id_,
        fields,
        labels=tuple(map(_get_label, get_list(found, "subjects"))),
        metadata={key: value for key, value in metadata.items() if key not in text_fields},
    )


def _get_label(subject: Any) -> str:
    if not isinstance(subject, dict) or not {"uri", "label"} & set(subject):
        raise DataError(f"a subject needs a uri or a label; this one is {str(subject)[:60]!r}")
    return get_id(subject, "uri" if "uri" in subject else "label")


def write(docs: Iterable[Doc], path: Path) -> int:
    """Write one document per line."""
    return write_lines(path, map(_format_line, docs))


def _format_line(doc: Doc) -> str:
    value: dict[str, Any] = {"document_id": doc.id, "text": doc.fields["text"]}
    if doc.metadata:
        value["metadata"] = dict(doc.metadata)
    value["subjects"] = [{"uri": label} for label in doc.labels]
    return dump_json(value)
