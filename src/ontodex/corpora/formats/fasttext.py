"""fastText: `__label__a __label__b text`, one document per line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ontodex.corpora.parsing.capabilities import LINE_BREAK, SPACE, FormatCapabilities
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.records import read_text_records, write_lines
from ontodex.types import Doc

PREFIX = "__label__"
CAPABILITIES = FormatCapabilities(id=False, breaks=LINE_BREAK, mark=PREFIX, label_forbids=SPACE)
# One space after a label is syntax; a second one is text.
_LABEL = re.compile(rf"{PREFIX}(\S+)(?:\s|$)")


def looks_like(head: Head) -> bool:
    """Recognise lines that start with a label among the first hundred."""
    return any(line.startswith(PREFIX) for line in head.lines[:100])


def read(path: Path) -> Iterator[Doc]:
    """Read the documents; they are numbered from 1."""
    return read_text_records(path, _parse)


def _parse(number: int, line: str) -> Doc:
    labels, place = [], 0
    while match := _LABEL.match(line, place):
        labels.append(match[1])
        place = match.end()
    return Doc(str(number), {"text": line[place:]}, labels=tuple(labels))


def write(docs: Iterable[Doc], path: Path) -> int:
    """Write one document per line."""
    return write_lines(path, map(_format_line, docs))


def _format_line(doc: Doc) -> str:
    return "".join(f"{PREFIX}{label} " for label in doc.labels) + doc.fields["text"]
