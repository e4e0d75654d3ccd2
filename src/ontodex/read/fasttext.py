"""fastText: `__label__a __label__b text`, a document a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ontodex.read.head import Head
from ontodex.read.holds import LINE_BREAK, SPACE, Holds
from ontodex.read.lines import text_records, write_lines
from ontodex.types import Doc

PREFIX = "__label__"
HOLDS = Holds(id=False, breaks=LINE_BREAK, mark=PREFIX, label_forbids=SPACE)
# One space after a label belongs to the syntax; a second one is text.
_LABEL = re.compile(rf"{PREFIX}(\S+)(?:\s|$)")


def looks_like(head: Head) -> bool:
    """A first line with a label at its start, or later lines if that document has none."""
    return any(line.startswith(PREFIX) for line in head.lines[:100])


def read(path: Path) -> Iterator[Doc]:
    """The documents, numbered from 1."""
    return text_records(path, _parse)


def _parse(number: int, line: str) -> Doc:
    labels, place = [], 0
    while match := _LABEL.match(line, place):
        labels.append(match[1])
        place = match.end()
    return Doc(str(number), {"text": line[place:]}, labels=tuple(labels))


def write(docs: Iterable[Doc], path: Path) -> int:
    """Write a document a line."""
    return write_lines(path, map(_line, docs))


def _line(doc: Doc) -> str:
    return "".join(f"{PREFIX}{label} " for label in doc.labels) + doc.fields["text"]
