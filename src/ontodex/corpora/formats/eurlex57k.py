"""EURLEX57K: EU laws as JSON lines, labelled with EuroVoc concepts.

The text is title, header, recitals and main body (a list of articles, one per line). Attachments,
mostly tables and forms, are left out unless `text_fields` names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.json_objects import get_id, get_strings, get_text, parse_object
from ontodex.corpora.parsing.records import read_text_records
from ontodex.types import Doc

TAKES_TEXT_FIELDS = True
TEXT_FIELDS = ("title", "header", "recitals", "main_body")


def looks_like(head: Head) -> bool:
    """Recognise one object per line with a CELEX number and concepts."""
    return {"celex_id", "concepts"} <= set(head.object or ())


def read(path: Path, *, text_fields: Sequence[str] = ()) -> Iterator[Doc]:
    """Read the laws of a file; `text_fields=("attachments",)` adds the attachments."""
    return read_text_records(path, partial(_parse, names=(*TEXT_FIELDS, *text_fields)))


def _parse(_: int, line: str, names: Sequence[str]) -> Doc | None:
    found = parse_object(line)
    if found is None:
        return None
    return Doc(
        get_id(found, "celex_id"),
        {name: get_text(found, name) for name in names if name in found},
        labels=get_strings(found, "concepts"),
        metadata={key: get_text(found, key) for key in ("type", "uri") if key in found},
    )
