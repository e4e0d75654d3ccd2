"""Annif TSV: `text<TAB><uri> <uri>`, a document a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ontodex.errors import DataError
from ontodex.read.head import Head
from ontodex.read.holds import LINE_OR_TAB, Holds
from ontodex.read.lines import text_records, write_lines
from ontodex.types import Doc

LABEL_FORBIDS = re.compile(r"[\s<>]")
HOLDS = Holds(id=False, breaks=LINE_OR_TAB, label_forbids=LABEL_FORBIDS)
_SUBJECTS = re.compile(r"[^\t]*\t(?:\s*(?:<[^<>\s]+>|[a-z]+://\S+))*\s*")


def looks_like(head: Head) -> bool:
    """Text, a tab, and nothing but concepts after it, in most lines; some have concepts."""
    return (
        head.mostly(_SUBJECTS.fullmatch)
        and any(line.partition("\t")[2].strip() for line in head.lines)
        and not head.is_edge_list
    )


def read(path: Path) -> Iterator[Doc]:
    """The documents, numbered from 1."""
    return text_records(path, _parse)


def _parse(number: int, line: str) -> Doc:
    text, tab, subjects = line.partition("\t")
    if not tab:
        raise DataError("no tab between text and concepts")
    return Doc(str(number), {"text": text}, labels=uris(subjects))


def uris(text: str) -> tuple[str, ...]:
    """Concepts separated by spaces; the angle brackets around a URI are not part of it."""
    return tuple(filter(None, (part.removeprefix("<").removesuffix(">") for part in text.split())))


def bracketed(labels: Iterable[str]) -> str:
    """Concepts as Annif writes them."""
    return " ".join(f"<{label}>" for label in labels)


def write(docs: Iterable[Doc], path: Path) -> int:
    """Write a document a line."""
    return write_lines(path, (f"{doc.fields['text']}\t{bracketed(doc.labels)}" for doc in docs))
