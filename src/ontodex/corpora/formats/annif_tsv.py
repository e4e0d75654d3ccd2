"""Annif TSV: `text<TAB><uri> <uri>`, one document per line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ontodex.corpora.parsing.capabilities import LINE_OR_TAB, FormatCapabilities
from ontodex.corpora.parsing.file_head import Head
from ontodex.corpora.parsing.records import read_text_records, write_lines
from ontodex.errors import DataError
from ontodex.types import Doc

LABEL_FORBIDS = re.compile(r"[\s<>]")
CAPABILITIES = FormatCapabilities(id=False, breaks=LINE_OR_TAB, label_forbids=LABEL_FORBIDS)
# An address ends at the next space only: without ++ a line of n addresses has 2^n readings.
_SUBJECTS = re.compile(r"[^\t]*\t(?:\s*+(?:<[^<>\s]++>|[a-z]++://\S++))*+\s*")


def looks_like(head: Head) -> bool:
    """Recognise text, a tab and then only concepts in most lines; some lines have concepts."""
    return (
        head.most_lines_match(_SUBJECTS.fullmatch)
        and any(line.partition("\t")[2].strip() for line in head.lines)
        and not head.is_edge_list
    )


def read(path: Path) -> Iterator[Doc]:
    """Read the documents; they are numbered from 1."""
    return read_text_records(path, _parse)


def _parse(number: int, line: str) -> Doc:
    text, tab, subjects = line.partition("\t")
    if not tab:
        raise DataError("no tab between text and concepts")
    return Doc(str(number), {"text": text}, labels=parse_uris(subjects))


def parse_uris(text: str) -> tuple[str, ...]:
    """Parse concepts separated by spaces, with or without angle brackets."""
    return tuple(filter(None, (part.removeprefix("<").removesuffix(">") for part in text.split())))


def format_uris(labels: Iterable[str]) -> str:
    """Return concepts as Annif writes them."""
    return " ".join(f"<{label}>" for label in labels)


def write(docs: Iterable[Doc], path: Path) -> int:
    """Write one document per line."""
    return write_lines(path, (f"{doc.fields['text']}\t{format_uris(doc.labels)}" for doc in docs))
