"""EURLEX57K: EU laws as JSON lines, labelled with EuroVoc concepts.

The text is title, header, recitals and main body (a list of articles, one a line). Attachments,
mostly tables and forms, are left out unless `text_fields` asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from ontodex.read.head import Head
from ontodex.read.lines import text_records
from ontodex.read.objects import id_of, parse_object, strings_of, text_of
from ontodex.types import Doc

TAKES_TEXT_FIELDS = True
TEXT_FIELDS = ("title", "header", "recitals", "main_body")


def looks_like(head: Head) -> bool:
    """An object a line with a CELEX number and concepts."""
    return {"celex_id", "concepts"} <= set(head.object or ())


def read(path: Path, *, text_fields: Sequence[str] = ()) -> Iterator[Doc]:
    """The laws of a file; `text_fields=("attachments",)` adds these."""
    return text_records(path, partial(_parse, names=(*TEXT_FIELDS, *text_fields)))


def _parse(_: int, line: str, names: Sequence[str]) -> Doc | None:
    found = parse_object(line)
    if found is None:
        return None
    return Doc(
        id_of(found, "celex_id"),
        {name: text_of(found, name) for name in names if name in found},
        labels=strings_of(found, "concepts"),
        metadata={key: text_of(found, key) for key in ("type", "uri") if key in found},
    )
